"""Conversations as ChatGPT exports them: trees of messages, of which the branch that was last seen is taken."""

from __future__ import annotations

import json
import lzma
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from datetime import tzinfo
from typing import IO

from ...extract.extractor import Call, Role
from ...values.errors import Invalid, LimitExceeded
from .file_messages import FileMessage, Tally, get_text, parse_time

_FILES = re.compile(r"(?:.*/)?conversations(?:-\d+)?\.json")
_ROLES: Mapping[str, Role] = {"user": "user", "assistant": "assistant", "tool": "tool"}
_UNSAID = ("thoughts", "reasoning_recap", "user_editable_context", "model_editable_context")
_CHUNK = 1 << 20


def is_conversation(item: object) -> bool:
    """Whether this is a conversation of an export."""
    return isinstance(item, dict) and "mapping" in item


def unpack(name: str, file: IO[bytes], limit: int) -> list[tuple[str, bytes]]:
    """The files of conversations in an export's zip, with their names, of at most `limit` bytes together.

    Raises:
        Invalid: there are none, they are too large, or they cannot be unpacked.
    """
    found: list[tuple[str, bytes]] = []
    left = limit
    try:
        with zipfile.ZipFile(file) as packed:
            for info in sorted(packed.infolist(), key=lambda info: info.filename):
                if not _FILES.fullmatch(info.filename):
                    continue
                inner = bytearray()
                with packed.open(info) as stream:
                    while chunk := stream.read(_CHUNK):  # what it says of its size is not to be trusted
                        inner += chunk
                        if len(inner) > left:
                            raise LimitExceeded(f"{name}, {info.filename}", limit, "bytes")
                left -= len(inner)
                found.append((info.filename, bytes(inner)))
    except (
        zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, RuntimeError, ValueError,
        OSError,
    ) as error:  # fmt: skip
        raise Invalid(name, f"cannot be unpacked ({error}); it is damaged, or locked with a password") from None
    if not found:
        raise Invalid(name, "holds no conversations.json; it is not an export of ChatGPT")
    return found


def read_messages(where: str, conversation: Mapping[str, object], tally: Tally, zone: tzinfo) -> Iterator[FileMessage]:
    """The messages from the root to the one that was last seen; what hangs on other branches is not taken.

    Raises:
        Invalid: it is no conversation, or its messages go round in a circle.
    """
    called: str | None = None
    for node, message in _find_path(where, conversation, tally):
        position = f"{where}, message {node[:60]}"
        author, metadata = message.get("author"), message.get("metadata")
        role = author.get("role") if isinstance(author, dict) else None
        if role == "system" or (isinstance(metadata, dict) and metadata.get("is_visually_hidden_from_conversation")):
            tally.left_out["system and hidden messages"] += 1
            continue
        if not isinstance(author, dict) or not isinstance(role, str) or role not in _ROLES:
            shown = f"{role!r}"[:60]
            raise Invalid(position, f"the role {shown} is none of user, assistant, tool and system")
        text = _read_text(position, message.get("content"), tally)
        calls: tuple[Call, ...] = ()
        identity = get_text(message.get("id")) or node
        recipient = get_text(message.get("recipient"))
        if role == "assistant" and recipient not in (None, "all") and text.strip():
            calls = (Call(id=identity[:128], name=recipient or "", arguments=_encode_arguments(text)),)
            called, text = identity[:128], ""
        yield FileMessage(
            where=position, role=_ROLES[role], name=get_text(author.get("name")), text=text, calls=calls, id=identity,
            at=parse_time(position, message.get("create_time"), zone), answers=called if role == "tool" else None,
        )  # fmt: skip
        called = None if role == "tool" else called


def _find_path(
    where: str, conversation: Mapping[str, object], tally: Tally
) -> list[tuple[str, Mapping[str, object]]]:  # fmt: skip
    """The nodes that have a message, from the first to the last."""
    nodes = conversation.get("mapping")
    if not isinstance(nodes, dict) or not all(isinstance(node, dict) for node in nodes.values()):
        raise Invalid(where, "its mapping is no object of nodes")
    here = conversation.get("current_node")
    if not isinstance(here, str) or here not in nodes:
        leaves = [each for each, node in nodes.items() if node.get("message") and not node.get("children")]
        here = leaves[-1] if leaves else None
    found: list[tuple[str, Mapping[str, object]]] = []
    passed: set[str] = set()
    while here is not None:
        if here in passed:
            raise Invalid(where, f"its messages go round in a circle at {here[:60]}")
        passed.add(here)
        message, above = nodes[here].get("message"), nodes[here].get("parent")
        if isinstance(message, dict):
            found.append((here, message))
        if above is not None and (not isinstance(above, str) or above not in nodes):
            tally.left_out["conversations' beginnings, which are not in the file"] += 1
            break
        here = above
    return found[::-1]


def _read_text(where: str, content: object, tally: Tally) -> str:
    """What can be read of a message's content."""
    if content is None:
        return ""
    if not isinstance(content, dict):
        raise Invalid(where, "its content is no object")
    if content.get("content_type") in _UNSAID:
        tally.left_out["thoughts and instructions"] += 1
        return ""
    parts = content.get("parts")
    if not isinstance(parts, list):
        for name in ("text", "result"):
            if isinstance(content.get(name), str):
                return str(content[name])
        tally.left_out["images and other parts"] += 1
        return ""
    texts = []
    for part in parts:
        text = part.get("text") if isinstance(part, dict) else part  # a part with a text is words that were spoken
        if isinstance(text, str):
            texts.append(text)
        elif text is not None or part is not None:
            tally.left_out["images and other parts"] += 1
    return "\n".join(text for text in texts if text)


def _encode_arguments(text: str) -> str:
    """What a tool was told, as JSON text."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return json.dumps({"input": text}, ensure_ascii=False)
    return text
