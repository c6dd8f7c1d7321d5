"""What an agent of any host is told unasked: a digest when a session begins, a few memories at a prompt, and what is
known of its user."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from ..capture.digest import BUDGET as DIGEST_BUDGET
from ..capture.digest import brief
from ..capture.injections import Injection
from ..capture.recall import BUDGET as PROMPT_BUDGET
from ..capture.recall import recall, restart
from ..capture.repositories import find_repository, user_scope
from ..capture.user_context import BUDGET as CONTEXT_BUDGET
from ..capture.user_context import build_context
from ..conversations.projects import Project
from ..engine.engine import Engine
from ..values.errors import Invalid
from ..values.records import Scope


class AgentMemory:
    """The memory of one scope, as an agent is reminded of it.

    Each answer is an `Injection`: its `text` is a block of data for the model's context, empty when there is nothing to
    say, and its `tokens` are what that costs. Calls block for as long as a search does; from asyncio, use a thread.
    """

    def __init__(self, engine: Engine, scope: Scope, *, personal: Scope | None = None) -> None:
        """`personal` is the scope of what its user wants everywhere, if there is one."""
        if not isinstance(engine, Engine):
            raise Invalid("engine", f"expected an Engine, got {type(engine).__name__}")
        self._engine = engine
        self._scopes = [scope] if personal is None else [scope, personal]
        self._homes = self._scopes

    @classmethod
    def for_folder(cls, engine: Engine, folder: str | PathLike[str]) -> AgentMemory:
        """The memory of the repository that a folder is in, which hooks fill, and of its user.

        Raises:
            Invalid: the folder cannot be one.
        """
        repository = find_repository(Path(folder).absolute())
        memory = cls(engine, repository.scope, personal=user_scope())
        memory._homes = [repository.user_scope, user_scope()]  # of a repository, others may have profiles, too
        return memory

    @classmethod
    def for_user(cls, engine: Engine, user: str, *, app: str = "default", project: str = "default") -> AgentMemory:
        """The memory of one user of conversations, as REST keeps it: their profile, and what they and others said.

        Raises:
            Invalid: the user, the app or the project cannot be one.
        """
        return cls(engine, Project(app=app, name=project).owner("user", user))

    def brief(self, budget: int = DIGEST_BUDGET, *, session: str | None = None) -> Injection:
        """What is of use before anything was asked, within a budget of tokens: what the user asked of the assistant,
        how the last sessions ended, decisions, corrections and preferences. What a session is told here is not
        recalled in it again.

        Raises:
            Invalid: the budget or the session cannot be one.
            Unavailable: the store cannot be read, or the session not be noted.
        """
        return brief(self._engine, self._scopes, homes=self._homes, budget=budget, session=session)

    def recall(self, prompt: str, session: str, budget: int = PROMPT_BUDGET) -> Injection:
        """What bears on a prompt, within a budget of tokens: at most three memories, none that the session was shown,
        and none when none does.

        Raises:
            Invalid: the prompt, the budget or the session cannot be one.
            Unavailable: the store cannot be read, or the session not be noted.
        """
        return recall(self._engine, prompt, self._scopes, session=session, budget=budget)

    def context(self, query: str = "", budget: int = CONTEXT_BUDGET) -> Injection:
        """What a model should know of its user, within a budget of tokens: what they have asked of the assistant, in
        their words, what is known of them, and what answers the query, if there is one. When there is nothing to tell,
        the block says so.

        Raises:
            Invalid: the query or the budget cannot be one.
            Unavailable: the store cannot be read.
        """
        return build_context(self._engine, self._homes, query=query, budget=budget)

    def restart(self, session: str) -> None:
        """Let a session be told again what it has lost, as when its messages were compacted."""
        restart(self._engine, self._scopes, session)
