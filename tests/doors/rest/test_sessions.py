"""Sessions held against a simple model: whatever is done in whatever order, nothing is lost, doubled or named twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from cofio.embed.hashed import HashedEmbedder
from cofio.values.records import Kind, Scope

from ...conftest import BackendUnderTest
from .conftest import DAY, HOUR, MINUTE, Api, Json, T, enveloped, said, serving

USERS = ("alice", "bob")
SESSIONS = ("s", "t")
TIMES = [T, T, T + MINUTE, T + 2 * MINUTE, T - MINUTE, T + 5 * HOUR, T + DAY, T - DAY, T + 30 * DAY]


@dataclass
class Kept:
    """A message that was acknowledged; no two say the same."""

    sender: str
    at: int
    place: int
    """How many came before it."""
    forgotten: bool = False
    """Whether it was deleted, or an episode of anyone's that it was part of."""


class Sessions(RuleBasedStateMachine):
    """Adds, flushes and deletes in two apps, over two sessions with the same names and users."""

    numbers = count()

    def __init__(self, api: Api) -> None:
        super().__init__()
        self.api = api
        self.apps = [f"app{next(self.numbers)}" for _ in range(2)]
        self.said: dict[tuple[str, str], dict[str, Kept]] = {(app, name): {} for app in self.apps for name in SESSIONS}
        self.batches: list[tuple[str, str, list[Json]]] = []
        self.ids: dict[tuple[str, str], set[str]] = {}
        self.retired: dict[tuple[str, str], set[str]] = {}

    def waiting(self, app: str, session: str) -> list[str]:
        """What the messages say that wait in a session."""
        home = Scope("rest", app, "default", "session", session)
        found = self.api.engine.list(
            home, exact=True, kinds=(Kind.TURN,), limit=10_000, newest=False, order="created"
        )  # fmt: skip
        return [each.text for each in found]

    def evidence(self, app: str, user: str) -> Counter[tuple[str, str]]:
        """What the messages say that a user's episodes are made of, by session."""
        home = Scope("rest", app, "default", "user", user)
        records = self.api.engine.list(home, exact=True, kinds=(Kind.TURN, Kind.EPISODE), limit=10_000)
        episodes = {record.id for record in records if record.kind is Kind.EPISODE}
        turns = [record for record in records if record.kind is Kind.TURN]
        assert {record.parent for record in turns} == episodes
        return Counter(
            (str(record.data["session_id"]), record.text) for record in turns if isinstance(record.data, dict)
        )

    def send(self, app: str, session: str, batch: list[Json], later: bool) -> int:
        """Send messages and hold the answer against what became of them; how many were new."""
        known = self.said[app, session]
        before = len(self.waiting(app, session))
        body = {"session_id": session, "messages": batch, "app_id": app, "async_mode": later}
        answer = self.api.post("add", body)
        data = enveloped(answer, 202 if later else 200)
        assert data["message_count"] == len(batch)
        result = self.api.done(answer.json()["request_id"], app_id=app)["result"] if later else data["status"]
        fresh = [each for each in batch if each["content"] not in known]
        if result == "accumulated":
            assert len(self.waiting(app, session)) == before + len(fresh)
        for each in fresh:
            known[each["content"]] = Kept(each["sender_id"], each["timestamp"], len(known))
        return len(fresh)

    @rule(
        app=st.integers(0, 1), session=st.sampled_from(SESSIONS), named=st.booleans(), later=st.booleans(),
        turns=st.lists(st.tuples(st.sampled_from([*USERS, "bot"]), st.sampled_from(TIMES)), min_size=1, max_size=4),
    )  # fmt: skip
    def add(self, app: int, session: str, named: bool, later: bool, turns: list[tuple[str, int]]) -> None:
        """Send new messages, in order or not."""
        batch = []
        for sender, at in turns:
            number = next(self.numbers)
            names = {"message_id": f"x{number}"} if named else {}
            role = "user" if sender in USERS else "assistant"
            batch.append(said(f"I like thing{number} best.", at, sender, role, **names))
        assert self.send(self.apps[app], session, batch, later) == len(batch)
        self.batches.append((self.apps[app], session, batch))

    @precondition(lambda self: self.batches)
    @rule(data=st.data(), later=st.booleans())
    def again(self, data: Any, later: bool) -> None:
        """Send a batch again, as a client does that had no answer."""
        app, session, batch = data.draw(st.sampled_from(self.batches))
        if not any(self.said[app, session][each["content"]].forgotten for each in batch):
            assert self.send(app, session, batch, later) == 0

    @rule(app=st.integers(0, 1), session=st.sampled_from(SESSIONS))
    def flush(self, app: int, session: str) -> None:
        """Carve a session."""
        waits = bool(self.waiting(self.apps[app], session))
        assert self.api.flush(session, app_id=self.apps[app]) == ("extracted" if waits else "no_extraction")
        assert self.waiting(self.apps[app], session) == []

    @rule(app=st.integers(0, 1), session=st.sampled_from(SESSIONS))
    def forget_session(self, app: int, session: str) -> None:
        """Delete a session."""
        self.api.ok("delete", session_id=session, app_id=self.apps[app])
        for each in self.said[self.apps[app], session].values():
            each.forgotten = True
        for user in USERS:
            assert all(name != session for name, _ in self.evidence(self.apps[app], user))

    @rule(app=st.integers(0, 1), user=st.sampled_from(USERS), data=st.data())
    def forget_episode(self, app: int, user: str, data: Any) -> None:
        """Delete one user's episode."""
        place = self.apps[app]
        episodes = self.api.get(owner=user, app_id=place)
        if episodes:
            episode = data.draw(st.sampled_from(episodes))
            before = self.evidence(place, user)
            self.api.ok("delete", id=episode["id"], app_id=place)
            lost = before - self.evidence(place, user)
            assert {name for name, _ in lost} == {episode["session_id"]}
            for session, text in lost:
                self.said[place, session][text].forgotten = True

    @invariant()
    def every_message_waits_or_is_evidence(self) -> None:
        """Each acknowledged message waits, in order, or belongs to one episode of each user who was there."""
        for app in self.apps:
            owned = {user: self.evidence(app, user) for user in USERS}
            assert all(times == 1 for found in owned.values() for times in found.values())
            strays = self.api.engine.list(Scope("rest", app, "default", "agent"), kinds=(Kind.TURN,), limit=10_000)
            for session in SESSIONS:
                known, waiting = self.said[app, session], self.waiting(app, session)
                assert waiting == sorted(waiting, key=lambda text: (known[text].at, known[text].place))
                carved = {text for user in USERS for name, text in owned[user] if name == session}
                carved |= {record.text for record in strays if record.text in known}
                alive = {text for text, each in known.items() if not each.forgotten}
                assert carved.isdisjoint(waiting)
                assert alive <= carved | set(waiting) <= known.keys()
                assert not any(known[text].forgotten for text in waiting)
                for text in carved & alive:
                    assert known[text].sender not in USERS or (session, text) in owned[known[text].sender]

    @invariant()
    def no_id_is_given_twice(self) -> None:
        """The id of an episode that is gone never comes back, and lists hold each once."""
        for app in self.apps:
            for user in USERS:
                listed = [each["id"] for each in self.api.get(owner=user, app_id=app, page_size=100)]
                now, before = set(listed), self.ids.get((app, user), set())
                assert len(now) == len(listed)
                retired = self.retired.setdefault((app, user), set())
                assert now.isdisjoint(retired)
                retired |= before - now
                self.ids[app, user] = now


@pytest.fixture(scope="module")
def shared(backend_under_test: BackendUnderTest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """One store; each example has apps of its own in it."""
    with serving(backend_under_test.address(tmp_path_factory.mktemp("sessions")), embedder=HashedEmbedder()) as (
        api,
        _,
    ):
        yield api


@pytest.mark.requirement(
    "sessions.model", "ids.once", "message.idempotent", "add.order", "flush.whole", "scope.isolated"
)
def test_nothing_is_lost_or_doubled_or_named_twice(shared: Api, backend_under_test: BackendUnderTest) -> None:
    class Shared(Sessions):
        def __init__(self) -> None:
            super().__init__(shared)

    examples = backend_under_test.scale(24)
    run_state_machine_as_test(Shared, settings=settings(max_examples=examples, stateful_step_count=15))
