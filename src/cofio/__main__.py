"""Lets `python -m cofio` be the command line."""

from .doors.cli import main

raise SystemExit(main())
