"""The model beside the REST door, where one is set up: who reads, what it costs, and how it is getting on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ...config.notices import warn_once
from ...config.settings import Settings, read_claims
from ...config.trust import PROMPTS, is_trusted
from ...conversations.dialects import StoredDialects
from ...conversations.usage import ModelUsage, Observer
from ...engine.engine import Engine
from ...knowledge import ModelSummariser
from ...llm import Budget, Model, ModelExtractor, Prompts


class Assistant:
    """A model, and the count of what it costs."""

    def __init__(
        self, settings: Settings, folder: Path, engine: Callable[[], Engine], observe: Observer | None = None
    ) -> None:
        """`folder` is the store's; `observe` is told what each question to the model cost.

        Raises:
            Invalid: a setting cannot be used, or a prompt of the store's own lacks what it needs.
        """
        prompts = Prompts(_find_own_prompts(folder))
        self.spending = ModelUsage(engine, Budget.parse(settings.llm_budget), observe=observe)
        self.model = Model(
            settings.llm_base_url, settings.llm_model, settings.llm_api_key, prompts=prompts,
            spend=self.spending.spend, allowed=self.spending.refusal, dialects=StoredDialects(engine),
        )  # fmt: skip
        self.wait = settings.llm_wait
        """Seconds that a flush waits for it."""
        self.reader = ModelExtractor(self.model, prompts)
        self.summariser = ModelSummariser(self.model, prompts)

    def close(self) -> None:
        """Close the connections: what waits for an answer fails at once."""
        self.model.close()


def _find_own_prompts(folder: Path) -> Path | None:
    """The store's own prompts, if it has any and they count."""
    claims = read_claims(folder)
    if claims.prompts and not is_trusted(folder, claims):
        warn_once(f"ignored the prompts in {folder / PROMPTS}: `cofio trust` lets them count")
        return None
    return folder / PROMPTS if claims.prompts else None


def open_assistant(
    settings: Settings, folder: Path, engine: Callable[[], Engine], observe: Observer | None = None
) -> Assistant | None:
    """The model that the settings name; None when they name none, and then nothing is ever sent anywhere."""
    return Assistant(settings, folder, engine, observe) if settings.llm_base_url else None
