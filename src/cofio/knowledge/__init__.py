"""The knowledge base: documents that are read, divided into topics by their headings, and found topic by topic."""

from .categories import CATEGORIES, OTHERS, Category
from .documents import Documents, StoredDocument
from .summariser import ModelSummariser
from .topics import Topic, divide_document
from .uploads import ModelSummary, Summariser, Upload, get_topic_path, make_topic_id, summarise_topic

__all__ = [
    "CATEGORIES", "OTHERS", "Category", "Documents", "ModelSummariser", "ModelSummary", "StoredDocument", "Summariser",
    "Topic", "Upload", "divide_document", "get_topic_path", "make_topic_id", "summarise_topic",
]  # fmt: skip
