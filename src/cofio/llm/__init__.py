"""A model, where one is set up: how it is asked, what it is told, and what is made of what it says."""

from .budget import Budget, Left, Spent, day, next_day
from .client import Model
from .failures import Failed, Nonsense
from .model_extractor import Reader
from .prompts.loader import Prompts

__all__ = ["Budget", "Failed", "Left", "Model", "Nonsense", "Prompts", "Reader", "Spent", "day", "next_day"]
