"""What `/health` tells: whether the server takes writes, what it can do, and how its queue is getting on."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from ... import __version__
from ...conversations.conversations import TASK
from ...conversations.stretches import REFINE
from ...engine.engine import Engine
from ...engine.jobs import list_jobs, measure_queue, read_job
from ...values.query import Where
from .replies import Data

MAX_QUEUE_SECONDS = 60.0  # that a request may wait before its queue counts as one that stands still


class Capabilities(BaseModel):
    """What the server has been given."""

    llm: bool = Field(description="Whether a model betters what the rules write.")
    embed: bool = Field(description="Whether memory is found by meaning, too.")
    rerank: bool = Field(description="Whether a model can put hits in order.")
    multimodal_llm: bool = Field(description="Whether images and sound can be sent to a model.")
    parser: bool = Field(description="Whether documents can be read; always so.")


class IndexHealth(BaseModel):
    """The way from what is written to what is found. There is none here: it is found from the same moment on."""

    healthy: bool = Field(description="Always so.")
    reasons: list[str] = Field(description="Why it is not healthy; none.")
    pending: int = Field(description="What cannot be found yet; nothing.")
    failed_permanent: int = Field(description="Always 0.")
    failed_retryable: int = Field(description="Always 0.")
    drain_consecutive_failures: int = Field(description="Always 0.")
    unrecoverable_total: int = Field(description="Always 0.")
    optimize_failure_streak: int = Field(description="Always 0.")
    prune_stale_seconds: float = Field(description="Always 0.")
    index_rows: dict[str, int] = Field(description="Always empty: /metrics counts what the store holds.")
    index_emptied: bool = Field(description="Never so: an index that is lost is made again.")


class QueueHealth(BaseModel):
    """The requests that were answered with 202, as far as this server knows of them."""

    healthy: bool = Field(description="Whether they are being carried out.")
    reasons: list[str] = Field(description="Why they are not.")
    loop_alive: bool = Field(description="Whether the threads are there that carry them out.")
    accepting: bool = Field(description="Whether the server is not about to stop.")
    pending: int = Field(description="How many are not finished.")
    oldest_pending_age_s: float | None = Field(description="For how long the oldest of them has waited, in seconds.")
    failed: int = Field(description="How many have failed since the server started.")
    loop_restarts: int = Field(description="Always 0: a request that fails does not end a thread.")
    last_loop_error_at: str | None = Field(description="When one last failed by a fault of the server's own.")


class ModelHealth(BaseModel):
    """How the model is getting on."""

    status: Literal["ok", "unavailable"] = Field(description="Whether it could be asked the last time.")
    reason: str = Field(default="", description="Why it could not.")
    waiting: int = Field(description="How much there is for it to do.")


class ReplicaHealth(BaseModel):
    """How the standby is getting on that answers reads."""

    status: Literal["ok", "unused"] = Field(description="Whether reads go to it at the moment.")
    lag: float | None = Field(description="Seconds that it was behind at most; null when that is not known.")
    reason: str = Field(default="", description="Why no reads go to it.")


class StorageHealth(BaseModel):
    """Whether the store takes writes."""

    status: Literal["ok", "disk full", "locked"] = Field(description="Why it refuses writes, if it does.")
    reason: str = Field(default="", description="The same in a sentence.")


class Health(BaseModel):
    """A server that is up."""

    status: Literal["ok"] = Field(description="It is up.")
    storage: StorageHealth = Field(description="Whether the store takes writes.")
    version: str = Field(description="The version of cofio.")
    capabilities: Capabilities = Field(description="What the server has been given.")
    disabled_features: list[str] = Field(description="What it cannot do without what it has not been given.")
    cascade: IndexHealth = Field(description="The way from what is written to what is found.")
    memorize_queue: QueueHealth = Field(description="The requests that were answered with 202.")
    model: ModelHealth | None = Field(default=None, description="How the model is getting on; only where there is one.")
    replica: ReplicaHealth | None = Field(
        default=None, description="How the standby that answers reads is getting on; only where there is one."
    )


def describe_health(engine: Engine, *, has_model: bool, failed: int = 0) -> Data:
    """Describe the server without anything that is remembered. `failed` is how many jobs have failed."""
    meaning = engine.expects_vectors
    trouble = engine.find_trouble()
    storage = {"status": "ok"} if trouble is None else {"status": trouble.kind, "reason": trouble.reason}
    health: Data = {
        **({} if trouble is None else {"status": "unavailable", "reason": trouble.reason}),
        "version": __version__,
        "storage": storage,
        "capabilities": {
            "llm": has_model, "embed": meaning, "rerank": has_model, "multimodal_llm": has_model, "parser": True,
        },
        "disabled_features": [
            *(() if meaning else ("vector_search",)), "reflection", *(() if has_model else ("multimodal_upload",)),
        ],
        "cascade": {
            "healthy": True, "reasons": [], "pending": 0, "failed_permanent": 0, "failed_retryable": 0,
            "drain_consecutive_failures": 0, "unrecoverable_total": 0, "optimize_failure_streak": 0,
            "prune_stale_seconds": 0.0, "index_rows": {}, "index_emptied": False,
        },
        "memorize_queue": _describe_queue(engine, failed),
    }  # fmt: skip
    if has_model:
        waiting = list_jobs(engine, REFINE, filter=Where("data.status", "=", "waiting"), limit=1)
        model = {"status": "unavailable", "reason": read_job(waiting[0])["error"]} if waiting else {"status": "ok"}
        health["model"] = {**model, "waiting": measure_queue(engine, REFINE).jobs}
    if (replica := engine.describe_replica()) is not None:
        lag = None if replica.lag is None else round(replica.lag, 3)
        used = {"status": "ok"} if not replica.problem else {"status": "unused", "reason": replica.problem}
        health["replica"] = {**used, "lag": lag}
    return health


def _describe_queue(engine: Engine, failed: int) -> Data:
    depth = measure_queue(engine, TASK)
    age = None if depth.oldest is None else max(0.0, (engine.read_clock() - depth.oldest).total_seconds())
    is_late = age is not None and age > MAX_QUEUE_SECONDS
    return {
        "healthy": not is_late,
        "reasons": [f"the oldest request has waited for {age:.0f} s"] if is_late else [],
        "loop_alive": not is_late,
        "accepting": True,
        "pending": depth.jobs,
        "oldest_pending_age_s": age,
        "failed": failed,
        "loop_restarts": 0,
        "last_loop_error_at": None,
    }
