"""The data that retrieval is measured on: files of several shapes become records and questions.

A file is recognised by its shape:

- LoCoMo: a list of conversations between two people, each with `conversation` (sessions of turns) and `qa`.
- BEAM: a list of chats with an assistant, each with `messages` and `questions`.
- Documents, as Cranfield: an object with `documents` and `queries`.
- Plain, for data of your own: JSON Lines of records and questions. docs/retrieval.md describes it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, AliasChoices, BaseModel, ConfigDict, Field, TypeAdapter

from cofio import Draft, Invalid, Kind, Scope

LOCOMO_KINDS = {1: "1 multi-hop", 2: "2 temporal", 3: "3 open-domain", 4: "4 single-hop", 5: "5 adversarial"}
ANSWERABLE = "1-4"
"""The group of LoCoMo's questions that are not adversarial."""
ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question, and the ids of the records that answer it."""

    scope: Scope
    text: str
    gold: frozenset[str]
    """Empty if nothing in the scope answers it."""
    kind: str = ""
    groups: tuple[str, ...] = ()
    """What it counts in beside its kind and all."""
    below: frozenset[str] = frozenset()
    """Records that must come after every one of the gold, as what has been superseded."""
    asker: str = "user"
    asked_at: datetime | None = None

    def counts_in(self, group: str) -> bool:
        """Whether it is of a kind, or counts in a group of several kinds."""
        return group in (ALL, self.kind, *self.groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """The records and the questions of one file. The id of a record is its data."""

    name: str
    root: Scope
    """Contains every scope of the set; it is another one as soon as the file is changed."""
    drafts: tuple[Draft, ...]
    questions: tuple[Question, ...]

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """Where the records are, each scope once: a question is asked of one of them."""
        return tuple(dict.fromkeys(draft.scope for draft in self.drafts))

    @property
    def answerable(self) -> tuple[Question, ...]:
        """The questions that a record answers."""
        return tuple(question for question in self.questions if question.gold)

    @property
    def unanswerable(self) -> tuple[Question, ...]:
        """The questions that belong to the set and that no record answers."""
        return tuple(question for question in self.questions if not question.gold)

    @property
    def groups(self) -> tuple[str, ...]:
        """The kinds of questions with an answer, then what several kinds count in, then all."""
        kinds = sorted({question.kind for question in self.answerable})
        wider = dict.fromkeys(group for question in self.answerable for group in question.groups)
        return (*(kinds if len(kinds) > 1 else ()), *wider, ALL)


def _assume_utc(time: datetime) -> datetime:
    return time if time.tzinfo else time.replace(tzinfo=UTC)


_Time: TypeAlias = Annotated[datetime, AfterValidator(_assume_utc)]


class _Input(BaseModel):
    """What is read from a file: unknown names are let through, as every benchmark has more than is needed here."""

    model_config = ConfigDict(coerce_numbers_to_str=True, frozen=True)


class _Turn(_Input):
    speaker: str
    dia_id: str
    text: str
    blip_caption: str = ""


class _Evidence(_Input):
    question: str
    category: int
    evidence: list[str] = []


class _Conversation(_Input):
    sample_id: str
    conversation: dict[str, object]
    qa: list[_Evidence]


class _Message(_Input):
    id: str
    role: str
    batch: str
    position: int
    text: str
    time: _Time | None = None


class _ChatQuestion(_Input):
    question: str
    ability: str = ""
    gold: list[str]


class _Chat(_Input):
    id: str = ""
    messages: list[_Message]
    questions: list[_ChatQuestion]


class _Document(_Input):
    id: str
    title: str = ""
    text: str


class _DocumentQuery(_Input):
    query: str = Field(validation_alias=AliasChoices("query", "text"))
    gold: list[str]


class _Library(_Input):
    documents: list[_Document]
    queries: list[_DocumentQuery]


class _PlainRecord(_Input):
    model_config = ConfigDict(extra="forbid")

    id: str
    text: str
    title: str = ""
    tags: tuple[str, ...] = ()
    author: str = ""
    session: str = ""
    time: _Time | None = None
    scope: str = ""


class _PlainQuestion(_Input):
    model_config = ConfigDict(extra="forbid")

    question: str
    gold: list[str]
    below: list[str] = []
    kind: str = ""
    asker: str = "user"
    time: _Time | None = None
    scope: str = ""


def load(path: Path) -> Dataset:
    """Read a file of any of the shapes.

    Raises:
        Invalid: it has none of them, or is plain and a question names a record that is not in its scope.
    """
    content = path.read_bytes()
    root = Scope(f"{path.stem}-{hashlib.sha256(content).hexdigest()[:8]}")
    try:
        drafts, questions = _read(content.decode(), root)
    except ValueError as error:  # of JSON, of a shape, of an id
        raise Invalid("data", f"{path.name} is not of a known shape: {error}") from error
    return Dataset(name=path.stem, root=root, drafts=tuple(drafts), questions=tuple(questions))


def _read(content: str, root: Scope) -> tuple[list[Draft], list[Question]]:
    try:
        whole: object = json.loads(content)
    except json.JSONDecodeError:
        whole = None  # several lines, each an object
    match whole:
        case [{"qa": _}, *_]:
            return _read_locomo(TypeAdapter(list[_Conversation]).validate_python(whole), root)
        case [{"messages": _}, *_]:
            return _read_chats(TypeAdapter(list[_Chat]).validate_python(whole), root)
        case {"documents": _}:
            return _read_documents(_Library.model_validate(whole), root)
    return _read_plain(content.splitlines(), root)


def _read_locomo(samples: Sequence[_Conversation], root: Scope) -> tuple[list[Draft], list[Question]]:
    drafts: list[Draft] = []
    questions: list[Question] = []
    for sample in samples:
        scope = root / sample.sample_id
        turns = list(_read_turns(scope, sample.conversation))
        known = {turn.data for turn in turns}
        drafts += turns
        for each in sample.qa:
            evidence = {_read_turn_id(found) for item in each.evidence for found in re.findall(r"D:?\d+:\d+", item)}
            if gold := evidence & known:  # what the key names wrongly is left out, as in the benchmark's protocol
                wider = (ANSWERABLE,) if each.category < 5 else ()
                questions.append(
                    Question(
                        scope=scope,
                        text=each.question,
                        gold=frozenset(gold),
                        kind=LOCOMO_KINDS[each.category],
                        groups=wider,
                    )
                )
    return drafts, questions


def _read_turns(scope: Scope, conversation: dict[str, object]) -> Iterator[Draft]:
    for name, session in conversation.items():
        if not re.fullmatch(r"session_\d+", name):
            continue
        written = str(conversation[f"{name}_date_time"])
        when = datetime.strptime(written, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
        for position, turn in enumerate(TypeAdapter(list[_Turn]).validate_python(session)):
            caption = f" [shared a photo: {turn.blip_caption}]" if turn.blip_caption else ""
            yield Draft(
                scope=scope, kind=Kind.TURN, text=f"{turn.speaker}: {turn.text}{caption}", author=turn.speaker,
                parent=name, position=position, created_at=when, data=_read_turn_id(turn.dia_id),
            )  # fmt: skip


def _read_turn_id(text: str) -> str:
    """Return the id in one form: the key writes some as D:11:26 or D30:05."""
    session, turn = re.findall(r"\d+", text)
    return f"D{int(session)}:{int(turn)}"


def _read_chats(chats: Sequence[_Chat], root: Scope) -> tuple[list[Draft], list[Question]]:
    drafts: list[Draft] = []
    questions: list[Question] = []
    for number, chat in enumerate(chats):
        scope = root / (chat.id or str(number))
        drafts += [
            Draft(
                scope=scope, kind=Kind.TURN, text=each.text, author=each.role, parent=each.batch,
                position=each.position, created_at=each.time, data=each.id,
            )
            for each in chat.messages
        ]  # fmt: skip
        questions += [
            Question(scope=scope, text=each.question, gold=frozenset(each.gold), kind=each.ability)
            for each in chat.questions
        ]
    return drafts, questions


def _read_documents(library: _Library, root: Scope) -> tuple[list[Draft], list[Question]]:
    scope = root / "documents"
    drafts = [Draft(scope=scope, title=each.title, text=each.text, data=each.id) for each in library.documents]
    return drafts, [Question(scope=scope, text=each.query, gold=frozenset(each.gold)) for each in library.queries]


def _read_plain(lines: Sequence[str], root: Scope) -> tuple[list[Draft], list[Question]]:
    drafts: list[Draft] = []
    questions: list[Question] = []
    turns: Counter[tuple[str, str]] = Counter()
    for line in filter(str.strip, lines):
        read = TypeAdapter[_PlainQuestion | _PlainRecord](_PlainQuestion | _PlainRecord).validate_json(line)
        scope = root / (read.scope or "records")
        if isinstance(read, _PlainQuestion):
            questions.append(
                Question(
                    scope=scope,
                    text=read.question,
                    gold=frozenset(read.gold),
                    below=frozenset(read.below),
                    kind=read.kind,
                    asker=read.asker,
                    asked_at=read.time,
                )
            )
            continue
        position = turns[read.scope, read.session]
        turns[read.scope, read.session] += 1
        drafts.append(
            Draft(
                scope=scope,
                kind=Kind.TURN if read.session else Kind.NOTE,
                title=read.title,
                text=read.text,
                tags=read.tags,
                author=read.author,
                parent=read.session or None,
                position=position if read.session else None,
                created_at=read.time,
                data=read.id,
            )
        )
    _check_ids(drafts, questions)
    return drafts, questions


def _check_ids(drafts: Sequence[Draft], questions: Sequence[Question]) -> None:
    """Raise ValueError unless every id stands for one record, and every question names records of its scope."""
    known = Counter((draft.scope, draft.data) for draft in drafts if isinstance(draft.data, str))
    if repeated := [record for (_, record), count in known.items() if count > 1]:
        raise ValueError(f"several records have the id {', '.join(repeated)}")
    for question in questions:
        if unknown := [each for each in question.gold | question.below if (question.scope, each) not in known]:
            raise ValueError(f"no record of its scope is {', '.join(sorted(unknown))}, which {question.text!r} names")
