"""Which models can be installed."""

from __future__ import annotations

from types import MappingProxyType

from .minilm import MINILM
from .multilingual import MULTILINGUAL

MODELS = MappingProxyType({model.name: model for model in (MINILM, MULTILINGUAL)})
"""Each by the name that COFIO_EMBEDDER has for it."""
