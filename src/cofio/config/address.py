"""Where a store is: a folder, or the URL of a database; and the home folder of what is on disk in either case."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ..system.user_folders import find_data_folder
from ..values.errors import Invalid
from ..values.records import check_text

MAX_ADDRESS = 4096  # characters
SCHEMES = ("postgresql", "postgres")
"""What the URL of a store may begin with."""
# A password that holds what no URL may (/ ? # @ and blanks) is masked too. A port before a path is none.
_PASSWORD = re.compile(r"(://[^:]*):(?:[^/]*|[^?#]*|(?!\d+/).*)@", re.DOTALL)
_PASSWORD_PARAMETER = re.compile(r"([?&](?:ssl)?password)=[^&#]*", re.IGNORECASE)

_MASKED = re.compile(r":\*\*\*(?=@)|(?<=[?&])(?:ssl)?password=\*\*\*&?|[?&](?:ssl)?password=\*\*\*$", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StoreAddress:
    """The address of a store: either a folder or a URL."""

    folder: Path | None = None
    url: str | None = None

    def __post_init__(self) -> None:
        if (self.folder is None) == (self.url is None):
            raise Invalid("store", "is either a folder or a URL")
        check_text("store", self.url or str(self.folder), MAX_ADDRESS)  # no database opens what is not text
        if self.url is not None and self.scheme not in SCHEMES:
            raise Invalid(
                "store",
                f"{self.scheme}:// is not a kind of store that this version knows; give a folder or postgresql://…",
            )

    @classmethod
    def parse(cls, text: str) -> StoreAddress:
        """The address that a text spells; `~` is the user's home folder.

        Raises:
            Invalid: it is no address, or one of a kind of store that is not known.
        """
        check_text("store", text, MAX_ADDRESS)
        if not text:
            raise Invalid("store", "is empty; give a folder")
        if "://" in text:
            return cls(url=text)
        try:
            return cls(folder=Path(text).expanduser())
        except RuntimeError as error:
            raise Invalid("store", f"{text} names a home folder that cannot be found") from error

    @property
    def scheme(self) -> str:
        """What its URL begins with; empty for a folder."""
        return "" if self.url is None else self.url.partition("://")[0]

    @property
    def home(self) -> Path:
        """The folder of what is always on disk: settings, marks of trust, tokens, prompts, the vault.

        A folder is its own home. A URL has one among the user's data, named by a digest of the URL without its
        password, which may change.

        Raises:
            Invalid: it is a URL, and this user has no folder for data.
        """
        if self.folder is not None:
            return self.folder
        data = find_data_folder()
        if data is None:
            raise Invalid("store", "this user has no home folder to keep tokens and settings of the store in")
        import hashlib

        name = _MASKED.sub("", str(self))  # the same whether the password stands in it or elsewhere
        return data / "stores" / hashlib.sha256(name.encode()).hexdigest()[:32]

    @property
    def has_password(self) -> bool:
        """Whether a password stands in its URL."""
        return self.url is not None and str(self) != self.url

    def spell(self) -> str:
        """The text that `parse` reads this address from, in any working folder; a URL's password stands in it."""
        return str(self.folder.absolute()) if self.folder is not None else str(self.url)

    def __str__(self) -> str:
        """The address as people may see it: without the password of a URL."""
        if self.url is None:
            return str(self.folder)
        return _PASSWORD.sub(r"\1:***@", _PASSWORD_PARAMETER.sub(r"\1=***", self.url))

    def __repr__(self) -> str:
        return f"StoreAddress({str(self)!r})"
