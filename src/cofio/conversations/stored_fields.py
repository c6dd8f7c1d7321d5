"""The fields of stored records that are named in another product's words.

Conversations were first stored with EverOS's names, and stores that hold them must stay readable. The code uses its own
words for what they hold; what the REST door answers, and what the files of a vault say, is named there.
"""

from __future__ import annotations

from typing import Final

from ..extract.profiles import INSTRUCTIONS

STRETCH_TYPE: Final = "parent_type"
STRETCH: Final = "memcell"
"""What the type of a stretch is called."""
STRETCH_ID: Final = "parent_id"
CONTEXT: Final = ("session_id", STRETCH_TYPE, STRETCH_ID, "at", "senders")
"""What every record of a stretch can be filtered by."""

PROFILE_ITEMS: Final = "explicit_info"
"""What is known of a user, in sentences."""
PROFILE_ENDINGS: Final = "ended_info"
"""What no longer holds of a user."""
PROFILE_INSTRUCTIONS: Final = INSTRUCTIONS
"""What a user has asked of the assistant, in their words, the newest first."""

INTENT: Final = "task_intent"
INSIGHT: Final = "key_insight"
QUALITY: Final = "quality_score"
SOURCE_CASES: Final = "source_case_ids"
"""The public ids of the cases that a skill was made of."""
