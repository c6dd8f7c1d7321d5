"""The model beside the REST door, where one is set up: who reads, what it costs, and how it is getting on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ...engine import Engine
from ...llm import Budget, Model, Prompts, Reader
from ...sessions.spending import Spending
from ...settings import Settings

PROMPTS = "prompts"  # the folder of a store whose files take the place of the prompts of the same names


class Assistant:
    """A model, and the count of what it costs."""

    def __init__(self, settings: Settings, folder: Path, engine: Callable[[], Engine]) -> None:
        """`folder` is the store's.

        Raises:
            Invalid: a setting cannot be used, or a prompt of the store's own lacks what it needs.
            Unavailable: the openai package is not installed.
        """
        own = folder / PROMPTS
        prompts = Prompts(own if own.is_dir() else None)
        self.spending = Spending(engine, Budget.parse(settings.llm_budget))
        self.model = Model(
            settings.llm_base_url, settings.llm_model, settings.llm_api_key, prompts=prompts,
            spend=self.spending.spend, allowed=self.spending.refusal,
        )  # fmt: skip
        self.reader = Reader(self.model, prompts)

    def close(self) -> None:
        """Let go of connections."""
        self.model.close()


def open_assistant(settings: Settings, folder: Path, engine: Callable[[], Engine]) -> Assistant | None:
    """The model that the settings name; None when they name none, and then nothing is ever sent anywhere."""
    return Assistant(settings, folder, engine) if settings.llm_base_url else None
