"""What an agent is told when a session begins: what its user asked of the assistant, then open work, decisions,
corrections and preferences of a repository, and what the user wants everywhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from ..engine.engine import Engine
from ..text.tokenizer import split_query, split_words
from ..values.query import Where
from ..values.records import Json, Kind, Record, Scope
from .injections import NOTE, Injection, MemoryLine, are_alike, build_injection, check_budget, render_line, unwrap
from .profile_lines import INSTRUCTIONS, list_instructions
from .profile_lines import NOTE as INSTRUCTIONS_NOTE
from .shown_records import ShownRecords

BUDGET = 1500
"""The tokens that a digest may cost."""
HEADINGS = {
    "todo": "Open work:",
    "correction": "Corrections by the user:",
    "decision": "Decisions:",
    "preference": "Preferences:",
    "remember": "To remember:",
}
"""The tags of what a digest shows, with the heading of each."""
_SAID = "Said by the user:"
_LAST = "Where the last sessions ended:"
_EACH = 12  # records of one heading
_READ = 40  # of which these are looked at, as some say the same
_SESSIONS = 3
_TURNS = 60  # newest turns in which the last sessions are looked for
_LONGEST = 320  # characters of one line
_LONGEST_TURN = 240
_STATEMENTS, _FACTS = 16, 200  # facts that are shown, and looked at
_TALK = frozenset({"i", "me", "my", "you", "your", "im", "ill", "ive", "youre", "lets"})
"""Words by which what is said is about those who talk, and not about the work."""
_KINDS = (Kind.FACT, Kind.NOTE, Kind.MEMORY, Kind.ITEM)


def brief(
    engine: Engine, scopes: Sequence[Scope], *, homes: Sequence[Scope] = (), budget: int = BUDGET,
    session: str | None = None, name: str = "",
) -> Injection:  # fmt: skip
    """What the scopes hold that is of use before anything was asked; of a repository, its own first, then its user's.

    What the user asked of the assistant comes before all else, by the profiles of the `homes`, which are the scopes
    where nothing else is said: of a repository, others may have profiles, too. With a session, what it is told here is
    not recalled in it again. `name` is what the repository is called.

    Raises:
        Invalid: the session or the budget cannot be one.
    """
    check_budget(budget)
    owned = [engine.list(home, exact=True, kinds=(Kind.PROFILE,), limit=1) for home in homes or scopes]
    instructions = list_instructions(profile for profiles in owned for profile in profiles)
    sections: dict[str, list[MemoryLine]] = {_LAST: _list_last_turns(engine, scopes[0], session)}
    told = [set(split_query(line.text)) for line in sections[_LAST]]
    told += [{word for word in split_query(line.text) if not word.isdigit()} for line in instructions]  # less its day
    for tag, heading in HEADINGS.items():
        records = [record for scope in scopes for record in _list_tagged(engine, scope, tag)]
        lines = [render_line(record, record.text or record.title, _LONGEST) for record in _drop_alike(records, told)]
        sections[heading] = lines[:_EACH]
    said = [record for record in _list_statements(engine, scopes[0]) if unwrap(record.text) != record.text]
    sections[_SAID] = [render_line(record, record.text, _LONGEST) for record in _drop_alike(said, told)][:_STATEMENTS]
    sections[HEADINGS["preference"]] += [line for scope in scopes for line in _list_profile(engine, scope)]
    injection = build_injection(
        sections, budget, title=f"{name}:" if name else "", first={INSTRUCTIONS: instructions},
        note=INSTRUCTIONS_NOTE if instructions else NOTE,
    )  # fmt: skip
    if injection and session is not None:
        ShownRecords(engine, scopes[0], session).add(injection.records)
    return injection


def _list_tagged(engine: Engine, scope: Scope, tag: str) -> list[Record]:
    return engine.list(scope, kinds=_KINDS, filter=Where("tags", "has", tag), limit=_READ, order="created")


def _list_statements(engine: Engine, scope: Scope) -> list[Record]:
    """What users have stated of the work: facts of their own words, but for those about this very talk."""
    facts = engine.list(scope, kinds=(Kind.FACT,), limit=_FACTS, order="created")
    return [
        fact
        for fact in facts
        if not fact.tags and _is_owners(fact) and not _TALK.intersection(split_words(unwrap(fact.text)))
    ]


def _is_owners(fact: Record) -> bool:
    """Whether a fact is of the words of the user whose memory it is in, and not of an agent's."""
    return fact.author.casefold() == fact.scope.names[-1].casefold()


def _drop_alike(records: Iterable[Record], told: list[set[str]]) -> Iterable[Record]:
    """The records, less those that say what one before them says; newer ones come first."""
    for record in records:
        words = set(split_query(record.text or record.title))
        if any(are_alike(words, other) for other in told):
            continue
        told.append(words)
        yield record


def _list_last_turns(engine: Engine, scope: Scope, session: str | None) -> list[MemoryLine]:
    """What was asked last, and answered, in each of the last sessions but the one that asks."""
    turns = engine.list(scope, kinds=(Kind.TURN,), limit=_TURNS, order="created")
    last: dict[str, dict[str, Record]] = {}
    for turn in turns:
        data = _get_data(turn)
        of, role = data.get("session_id"), data.get("role")
        if data.get("copy") or not isinstance(of, str) or of == session or role not in ("user", "assistant"):
            continue
        if turn.text.strip():
            last.setdefault(of, {}).setdefault(role, turn)
    lines: list[MemoryLine] = []
    for spoken in list(last.values())[:_SESSIONS]:
        for role, title in (("user", "asked"), ("assistant", "answered")):
            if role in spoken:
                lines.append(render_line(spoken[role], f"{title}: {_cut(spoken[role].text)}", _LONGEST_TURN + 20))
    return lines


def _cut(text: str) -> str:
    """The end of a long text, where an answer says what came of it and what is left to do."""
    flat = " ".join(text[-4 * _LONGEST_TURN :].split())
    return flat if len(flat) <= _LONGEST_TURN else f"…{flat[-_LONGEST_TURN:]}"


def _list_profile(engine: Engine, scope: Scope) -> list[MemoryLine]:
    """What a user has said of themselves that lasts."""
    lines = []
    for profile in engine.list(scope, kinds=(Kind.PROFILE,), limit=_SESSIONS):
        items = _get_data(profile).get("explicit_info")
        for item in items if isinstance(items, list) else []:
            if isinstance(item, dict) and isinstance(item.get("description"), str):
                lines.append(render_line(profile, cast(str, item["description"]), _LONGEST))
    return lines[:_EACH]


def _get_data(record: Record) -> Mapping[str, Json]:
    return record.data if isinstance(record.data, dict) else {}
