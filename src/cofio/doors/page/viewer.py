"""Who looks at the page: which part of the memory they see, and whether they may change it."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...http.errors import RequestError
from ...http.tokens import Token
from ...values.errors import NotFound
from ...values.records import Record, Scope
from ...values.scopes import CONVERSATIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """The one who asks for a page. Nothing outside of `reach` is shown to them, counted or changed for them."""

    reach: Scope = field(default_factory=Scope)
    """The scope that they see, with all that is under it."""
    token: Token | None = None
    refusal: str | None = None
    """Why they may change nothing, in a sentence; None when they may."""

    @classmethod
    def of(cls, token: Token | None, *, read_only: bool = False) -> Viewer:
        """The viewer that a token is; without one, everything is shown. `read_only` is whether the store is."""
        reach = Scope()
        if token is not None and token.app is not None:
            reach = CONVERSATIONS / token.app
            reach = reach if token.project is None else reach / token.project
        refusal = "this memory is read-only: nothing can be changed here" if read_only else None
        if token is not None and token.access == "read":
            refusal = f"this token is limited to {token.limits}; it may not change anything"
        return cls(reach=reach, token=token, refusal=refusal)

    def narrow(self, scope: Scope) -> Scope:
        """The scope that was asked for, which has to be one that they see; of the whole memory, their part.

        Raises:
            RequestError: it is outside of what they see.
        """
        if not scope.names:
            return self.reach
        if scope not in self.reach:
            raise RequestError(403, f"this token is limited to {self.token.limits if self.token else self.reach}")
        return scope

    def sees(self, record: Record) -> bool:
        """Whether a record is in the part of the memory that they see."""
        return record.scope in self.reach

    def check_sees(self, record: Record) -> None:
        """Raise NotFound for a record outside of what they see, as if there were none."""
        if not self.sees(record):
            raise NotFound(record.id)

    def check_may_change(self) -> None:
        """Raise RequestError if they may change nothing."""
        if self.refusal is not None:
            raise RequestError(403, self.refusal)
