"""What `/health` tells beside whether the server is up: what it can do, and how its queue is getting on."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo

from ... import __version__
from ...engine import Engine
from .answers import shown_time
from .jobs import Jobs
from .replies import Data


def describe_health(engine: Engine, jobs: Jobs, zone: tzinfo, *, has_model: bool) -> Data:
    """What is told to whoever asks: nothing that is remembered, and nothing that takes time to find out."""
    meaning = engine.expects_vectors
    told: Data = {
        "version": __version__,
        "capabilities": {
            "llm": has_model, "embed": meaning, "rerank": has_model, "multimodal_llm": has_model, "parser": True,
        },
        "disabled_features": [
            *(() if meaning else ("vector_search",)), "reflection", *(() if has_model else ("multimodal_upload",)),
        ],
        "cascade": _describe_index(),
        "memorize_queue": _describe_queue(jobs, zone),
    }  # fmt: skip
    if has_model:
        state = {"status": "ok"} if jobs.trouble is None else {"status": "unavailable", "reason": jobs.trouble}
        told["model"] = {**state, "waiting": jobs.waiting}
    return told


def _describe_index() -> Data:
    """The way from files to an index, which is none here: what is written is found from the same moment on."""
    return {
        "healthy": True, "reasons": [], "pending": 0, "failed_permanent": 0, "failed_retryable": 0,
        "drain_consecutive_failures": 0, "unrecoverable_total": 0, "optimize_failure_streak": 0,
        "prune_stale_seconds": 0.0, "index_rows": {}, "index_emptied": False,
    }  # fmt: skip


def _describe_queue(jobs: Jobs, zone: tzinfo) -> Data:
    state = jobs.queue
    reasons = [] if state.alive else ["the threads that carry out queued requests have ended"]
    age = None if state.oldest is None else max(0.0, (datetime.now(UTC) - state.oldest).total_seconds())
    return {
        "healthy": state.alive,
        "reasons": reasons,
        "loop_alive": state.alive,
        "accepting": state.accepting,
        "pending": state.pending,
        "oldest_pending_age_s": age,
        "failed": state.failed,
        "loop_restarts": 0,
        "last_loop_error_at": None if state.faulted_at is None else shown_time(state.faulted_at, zone),
    }
