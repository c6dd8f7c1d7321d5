"""How what is not a text becomes one: pages, mails, documents, and with a model's help images and sound.

Whatever comes in here was made by someone else, and may be made to do harm. So its size is known before it is decoded,
unpacked or fetched; parsers that could hang or eat memory run in a process of their own; and a fetch goes only where
the owner allows, to an address that was checked.
"""

from .fetch_policy import FetchPolicy
from .message_items import MAX_BYTES, Item, NoText, Unreadable, Viewer
from .outlines import Heading, Outline
from .reader import ContentReader

__all__ = ["MAX_BYTES", "ContentReader", "FetchPolicy", "Heading", "Item", "NoText", "Outline", "Unreadable", "Viewer"]
