"""The knowledge base: documents that are read, divided into topics by their headings, and found topic by topic."""

from .categories import CATEGORIES, OTHERS, Category
from .documents import Documents, Stored
from .gists import ModelSummariser
from .topics import Topic, divide_document
from .uploads import Gist, Summariser, Upload, topic_id, topic_path, topic_summary

__all__ = [
    "CATEGORIES", "OTHERS", "Category", "Documents", "Gist", "ModelSummariser", "Stored", "Summariser", "Topic",
    "Upload", "divide_document", "topic_id", "topic_path", "topic_summary",
]  # fmt: skip
