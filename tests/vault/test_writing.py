"""What is remembered is on disk, as Markdown, before the call returns."""

from __future__ import annotations

import os
import threading
from datetime import timedelta
from pathlib import Path

import yaml
from inline_snapshot import snapshot

from cofio.backends import Edit
from cofio.model import Kind
from cofio.sessions import Place
