"""Lets `python -m cofio.doors.animus` be the plugin."""

from . import main

raise SystemExit(main())
