"""What makes an engine's vectors: its embedder, opened when first needed, and vectors that it made elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..config.settings import Settings
from ..embed import Embedder, TokenEmbedder, open_embedder
from ..values.changes import Change, PrecomputedVector, Put
from ..values.errors import Invalid, Unavailable
from ..values.records import Draft

if TYPE_CHECKING:
    from ..embed.model_files import Model
    from ..values.changes import Vector


class EngineEmbedder:
    """The engine's embedder, opened when first needed, or why there is none."""

    def __init__(self, settings: Settings, given: Embedder | None) -> None:
        self._settings = settings
        self._embedder = given
        self.missing: str | None = None

    @property
    def id(self) -> str | None:
        """Whose vectors records have or wait for, also while it is not installed; None when the settings want none."""
        embedder = self.open()
        if embedder is not None:
            return embedder.id
        model = self._find_model()
        return model.id if model else None

    @property
    def is_expected(self) -> bool:
        """Whether there is an embedder, or nothing is known against there being one."""
        return self._embedder is not None or (self._settings.embedder != "none" and self.missing is None)

    def open(self) -> Embedder | None:
        """The embedder; None when the settings want none, or when it is not there."""
        chosen = self._settings
        if self._embedder is None and chosen.embedder != "none":
            try:
                self._embedder = open_embedder(
                    chosen.embedder, models=chosen.models_folder,
                    url=chosen.embed_url, model=chosen.embed_model, key=chosen.embed_key,
                )  # fmt: skip
                self.missing = None
            except Unavailable as error:
                self.missing = self._explain(str(error))
        return self._embedder

    def _explain(self, problem: str) -> str:
        """Why there is no embedder; a model that is not there is being fetched from now on."""
        model = self._find_model()
        if model is None:
            return problem
        from ..embed.provision import read_state, start

        models = self._settings.models_folder
        state = start(models, model) if self._settings.fetch_model else read_state(models, model)
        return str(state) if state.kind in ("fetching", "failed", "unreadable") else problem

    def _find_model(self) -> Model | None:
        """The model that the settings want, if it is one that can be installed."""
        from ..embed.models import MODELS

        return MODELS.get(self._settings.embedder)

    def normalize_puts(self, changes: list[Change]) -> list[Change]:
        """The changes with each vector that came with a draft checked: it must be one that this embedder could make."""
        return [
            replace(each, vector=self._normalize_vector(each))
            if isinstance(each, Put) and each.vector is not None
            else each
            for each in changes
        ]

    def _normalize_vector(self, put: Put) -> PrecomputedVector:
        vector, embedder = put.vector, self.open()
        if not isinstance(vector, PrecomputedVector):
            raise Invalid("vector", f"expected a PrecomputedVector, got {type(vector).__name__}")
        if embedder is None or vector.embedder != embedder.id:
            raise Invalid("vector", f"is of {vector.embedder!r}, and not of this store's embedder")
        return PrecomputedVector(embedder.id, _unit(put.draft.id or "", vector.vector, embedder.dimensions))

    def normalize_vectors(
        self, drafts: Sequence[Draft], vectors: Mapping[str, Sequence[float]]
    ) -> dict[str, PrecomputedVector]:
        """The vectors that came with drafts, checked and of length one."""
        if not isinstance(vectors, Mapping):
            raise Invalid("vectors", f"expected vectors by record id, got {type(vectors).__name__}")
        embedder = self.open()
        if embedder is None:
            raise Unavailable("nothing here makes vectors, so none can be kept: run `cofio model install`")
        for unknown in vectors.keys() - {draft.id for draft in drafts}:
            raise Invalid("vectors", f"{unknown!r} is the id of none of the drafts")
        dimensions, name = embedder.dimensions, embedder.id
        return {
            record_id: PrecomputedVector(name, _unit(record_id, vector, dimensions))
            for record_id, vector in vectors.items()
        }


def embed_with_codes(
    embedder: Embedder, texts: Sequence[str], *, token_codes: bool
) -> tuple[Vector, list[bytes] | None]:
    """The vectors of texts and, if the embedder can make them and they are wanted, the codes of each text's tokens."""
    if token_codes and isinstance(embedder, TokenEmbedder):
        return embedder.embed_with_codes(texts)
    return embedder.embed(texts), None


def _unit(id: str, vector: Sequence[float] | Vector, dimensions: int) -> Vector:
    """A record's vector as numbers, of length one; raises Invalid for what has no direction."""
    import numpy as np

    try:
        numbers = np.asarray(vector, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise Invalid("vectors", f"that of {id!r} is not a list of numbers") from None
    if numbers.shape != (dimensions,):
        raise Invalid("vectors", f"that of {id!r} is not a list of {dimensions} numbers")
    # By its largest number first: the square of a large one may be none.
    largest = np.abs(numbers).max(initial=0.0)
    if not np.isfinite(largest) or not largest:
        raise Invalid("vectors", f"that of {id!r} is not of finite numbers that are not all zero")
    numbers = numbers / largest
    unit: Vector = (numbers / np.linalg.norm(numbers)).astype(np.float32)
    return unit
