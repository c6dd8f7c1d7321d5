"""The views and actions of the page: a new one is one line here.

Imported when the page is first asked for, and with it all that the views need.
"""

from __future__ import annotations

from . import (
    activity_view,
    conversations_view,
    days_view,
    health_view,
    record_view,
    review_view,
    search_view,
    start_view,
    threads_view,
)
from .view_types import Action, View

VIEWS: tuple[View, ...] = (
    search_view.VIEW,
    record_view.VIEW,
    activity_view.VIEW,
    days_view.VIEW,
    review_view.VIEW,
    conversations_view.VIEW,
    threads_view.VIEW,
    health_view.VIEW,
    start_view.VIEW,
)
"""In the order of the navigation."""

ACTIONS: tuple[Action, ...] = (
    *record_view.ACTIONS,
    *review_view.ACTIONS,
    *health_view.ACTIONS,
    *start_view.ACTIONS,
)
