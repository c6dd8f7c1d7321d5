"""A model, where one is set up: how it is asked, what it is told, and what is made of what it says."""

from ..endpoints.model_errors import Failed, Nonsense
from .budget import Budget, Remainder, Usage, get_day, get_next_day
from .chat import Dialect
from .client import Model
from .model_extractor import ModelExtractor
from .prompts.loader import Prompts

__all__ = [
    "Budget",
    "Dialect",
    "Failed",
    "Model",
    "ModelExtractor",
    "Nonsense",
    "Prompts",
    "Remainder",
    "Usage",
    "get_day",
    "get_next_day",
]
