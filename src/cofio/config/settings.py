"""The settings and where a store lives: `COFIO_*` variables over the store's cofio.toml over the user's own over the
defaults. What would send something out or widen rights counts from a store only where the user trusts it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import UTC, tzinfo
from pathlib import Path

from ..system.disk import leads_elsewhere
from ..system.user_folders import find_cache_folder, find_config_folder
from ..values.errors import Invalid
from .address import StoreAddress
from .notices import warn_once
from .toml_files import FILE, convert, read_settings
from .trust import Claims, find_doubt, is_marked, is_versioned

STORE_FOLDER = ".cofio"
MAX_QUIET = 525_600  # minutes: a year
MAX_LAG = 3600  # seconds
MAX_WAIT = 600  # seconds
MAX_POOL = 100  # connections
LOCK_SECONDS = 60.0  # that a write waits for another process, unless a program says otherwise
MAX_WORKERS = 8  # processes of one server that take requests
OTHERS = {"host": "EVEROS_API__HOST", "port": "EVEROS_API__PORT", "timezone": "EVEROS_MEMORY__TIMEZONE"}
"""Variables of a product whose API the REST door answers: who comes from there need not set others."""
AGREED = ("embedder", "embed_model", "token_codes", "fusion", "floor", "allow_secrets", "timezone", "quiet_after")
"""The settings that all servers of one memory must have in common: they decide what is kept, made and found."""
DATABASE = "the database"
"""Where a setting comes from that all servers of a memory have in common."""
HARMLESS = frozenset(
    {
        "sync",
        "pool_size",
        "token_codes",
        "fusion",
        "floor",
        "background",
        "port",
        "workers",
        "timezone",
        "docs",
        "quiet_after",
        "llm_wait",
        "structured",
        "vault",
        "replica_lag",
    }
)
"""The settings that any store may have. All others are restricted: they name who is sent what is remembered and asked,
or what is let in, loaded or spent; from a store's own file they count only where it is trusted."""
_OWN_EMBEDDERS = ("minilm", "multilingual", "hashed", "none")  # which send nothing anywhere
_KEYS = {"embed_key": "embed_url", "llm_api_key": "llm_base_url"}
"""Each key with the address that it is sent to."""
_TOGETHER = (("llm_base_url", "llm_model"), ("embedder", "embed_url", "embed_model"))
"""Settings of which each needs the others (the latter if the embedder is remote)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a store behaves. Each field is also `COFIO_<FIELD>` and a line of `cofio.toml`, the store's or the user's."""

    embedder: str = "minilm"
    """What makes vectors: minilm, multilingual, remote (an OpenAI-compatible endpoint), hashed (for tests), none."""
    embed_url: str = ""
    embed_model: str = ""
    embed_key: str = ""
    models: str = ""
    """The folder that models are kept in; empty means `cofio/models` in the user's cache folder."""
    fetch_model: bool = True
    """Whether the model is fetched by itself, in the background, when it is first wanted and not there."""
    token_codes: bool = True
    """Whether searches compare texts word by word, too, by codes of at most 3 KB a record; for minilm only."""
    sync: str = "full"
    """full: an acknowledged write survives a power cut. normal: it survives a crash of the process only."""
    pool_size: int = 8
    """How many connections a process has to a store on PostgreSQL at most."""
    fusion: str = "convex"
    """How the two rankings become one: convex (a sum of normalised scores) or rrf (ranks only)."""
    floor: float = 0.1
    """The least relevance that a hit must have when the query does not say."""
    background: bool = True
    """Index and embed in a background thread; without it, `Engine.settle()` does it when called."""
    host: str = "127.0.0.1"
    """Where `cofio serve` listens; any address but this machine's own needs a token."""
    port: int = 8427
    workers: int | None = None
    """How many processes of `cofio serve` take requests; 0: one does everything; unset: one for each core."""
    allow_secrets: bool = False
    """Whether every door keeps what looks like a key, a token or a password, rather than refuse or mask it."""
    timezone: str = "UTC"
    """The zone that the REST door shows times in, reads times without a zone in, and counts days by."""
    docs: bool | None = None
    """Whether `cofio serve` shows its REST API at /docs, /redoc and /openapi.json; unset: on loopback."""
    structured: bool = False
    """Whether answers over MCP carry their data, too, with schemas: for programs. Some agents then see no text."""
    quiet_after: float = 30.0
    """Minutes after its last message in which `cofio serve` carves a session that no client flushes; 0 for never."""
    vault: bool = True
    """Whether what is remembered of conversations is kept as Markdown files, too, under `vault/` in the store."""
    llm_base_url: str = ""
    """An OpenAI-compatible endpoint; with it and `llm_model`, a model betters what the rules write."""
    llm_model: str = ""
    llm_api_key: str = ""
    llm_budget: str = "calls=1000,tokens=2M"
    """The most that the model may be asked on one day (of UTC), or off for no limit."""
    llm_wait: float = 2.0
    """Seconds that a flush waits for the model's records; later they follow by themselves. 0: it does not wait."""
    row_security: bool = False
    """Whether PostgreSQL itself, too, holds each call to the scopes that it is about, by row-level security."""
    fetch: str = "off"
    """What content items may point at: off, or a list of hosts and folders with commas between."""
    read_store: str = ""
    """The URL of a standby of the database, to which reads go that nothing is changed by."""
    replica_lag: float = 5.0
    """Seconds that an answer of the standby may be old; when it is further behind, reads go to the database itself."""

    def __post_init__(self) -> None:
        _check_choice("embedder", self.embedder, *_OWN_EMBEDDERS, "remote")
        _check_choice("sync", self.sync, "full", "normal")
        _check_choice("fusion", self.fusion, "convex", "rrf")
        if not 0 <= self.floor <= 1:
            raise Invalid("floor", f"{self.floor} is not a number from 0 to 1")
        if not 0 < self.replica_lag <= MAX_LAG:
            raise Invalid("replica_lag", f"{self.replica_lag} is not a number of seconds above 0, up to {MAX_LAG:,}")
        if self.read_store:
            _check_read_store(self.read_store)
        if not 2 <= self.pool_size <= MAX_POOL:
            raise Invalid("pool_size", f"{self.pool_size} is not a number of connections from 2 to {MAX_POOL}")
        if not 0 <= self.port <= 65535:
            raise Invalid("port", f"{self.port} is not a port; use 1 to 65535, or 0 for one that is free")
        if self.workers is not None and not 0 <= self.workers <= MAX_WORKERS:
            raise Invalid("workers", f"{self.workers} is not a number from 1 to {MAX_WORKERS}")
        if not 0 <= self.quiet_after <= MAX_QUIET:
            raise Invalid(
                "quiet_after", f"{self.quiet_after} is not a number of minutes from 0 (never) to {MAX_QUIET:,}"
            )
        if not 0 <= self.llm_wait <= MAX_WAIT:
            raise Invalid("llm_wait", f"{self.llm_wait} is not a number of seconds from 0 to {MAX_WAIT}")
        try:
            _ = self.zone
        except (KeyError, ValueError, OSError):
            raise Invalid("timezone", f"{self.timezone!r} is not known; use a name such as Europe/Oslo") from None
        if bool(self.llm_base_url) != bool(self.llm_model):
            raise Invalid("llm_model", "a model needs both COFIO_LLM_BASE_URL and COFIO_LLM_MODEL")
        if self.embedder == "remote" and not (self.embed_url and self.embed_model):
            raise Invalid("embed_url", "the remote embedder needs COFIO_EMBED_URL and COFIO_EMBED_MODEL")

    @property
    def zone(self) -> tzinfo:
        """The zone that times are shown in."""
        if self.timezone == "UTC":
            return UTC
        from zoneinfo import ZoneInfo  # a few milliseconds that most stores need not pay

        return ZoneInfo(self.timezone)

    @property
    def models_folder(self) -> Path:
        """Where models are kept."""
        if self.models:
            return Path(self.models).expanduser()
        cache = find_cache_folder()
        if cache is None:
            raise Invalid("models", "this user has no home folder to keep models in: set COFIO_MODELS to a folder")
        return cache / "models"

    @classmethod
    def load(
        cls, store: Path, environ: Mapping[str, str] | None = None, *, shared: Mapping[str, object] | None = None
    ) -> Settings:
        """The settings of `store`; raises Invalid for a name or value that is not known.

        What the store's own file may not set is passed over, and a key from elsewhere is not given to an address from
        that file; either is told once. A store in a database gives what its servers have in common as `shared`.
        """
        found = gather(store, environ, shared=shared)
        for sentence in found.notes:
            warn_once(sentence)
        kinds = {each.name: str(each.type) for each in fields(cls)}
        with _name_origin(found.origins):
            return cls(**{name: convert(name, value, kinds[name]) for name, value in found.values.items()})  # type: ignore[arg-type]  # convert has checked each against its field


@contextmanager
def _name_origin(origins: Mapping[str, str | Path]) -> Iterator[None]:
    """Say of a value that is refused where it stands: in which file, or in which variable."""
    try:
        yield
    except Invalid as error:
        origin = origins.get(error.field)
        if origin is None:
            raise
        raise Invalid(error.field, f"{error.problem} ({origin})") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class RawSettings:
    """What is set for a store, before it is checked, and by what."""

    values: dict[str, object]
    origins: dict[str, str | Path]
    """What each comes from: the name of a variable, or a file."""
    ignored: dict[str, str]
    """What is set and does not count, by name, each with the reason."""
    notes: list[str]
    """Sentences to show to the user who runs this."""


def gather(
    store: Path, environ: Mapping[str, str] | None = None, *, shared: Mapping[str, object] | None = None
) -> RawSettings:
    """What the variables, the files and the database set for a store; raises Invalid for a file that cannot be read."""
    environ = os.environ if environ is None else environ
    kinds = {each.name: str(each.type) for each in fields(Settings)}
    values: dict[str, object] = {}
    origins: dict[str, str | Path] = {}
    notes: list[str] = []
    counted, ignored, notice = _read_store(store, kinds)
    # What a link sets is unknown as long as it is not followed.
    left_out = {} if (store / FILE).is_symlink() else dict.fromkeys(ignored, notice)
    for path, settings in (_read_own(kinds), (store / FILE, counted)):
        values |= settings
        origins |= dict.fromkeys(settings, path)
    counted_shared, doubtful = _divide_shared(shared or {}, kinds)
    values |= counted_shared
    origins |= dict.fromkeys(counted_shared, DATABASE)
    for name in kinds:
        for variable in (f"COFIO_{name.upper()}", OTHERS.get(name, "")):
            if variable in environ:
                values[name], origins[name] = environ[variable], variable
                break
    if shared is not None:
        values.setdefault("vault", False)  # of several servers, the one that is told to keeps the files
    unsaid = _explain_unsaid(doubtful, values, kinds)
    left_out |= unsaid
    notes += unsaid.values()
    if notice:
        halves = _drop_halves(values, ignored)
        without = f"; without that, {', '.join(halves)} from elsewhere cannot count either" if halves else ""
        left_out |= dict.fromkeys(halves, notice)
        notes.append(notice + without)
    for key, address in _KEYS.items():
        there, origin = origins.get(address), origins.get(key)
        is_from_file = isinstance(origin, Path)
        # A variable's key keeps to a variable's address, and the user's own file's to what is not a store's.
        if (
            values.get(key)
            and isinstance(there, Path)
            and there != origin
            and (not is_from_file or there == store / FILE)
        ):
            del values[key]
            whose = f"the {key} of {origin}" if is_from_file else f"COFIO_{key.upper()}"
            instead = f"write {address} beside it" if is_from_file else f"set COFIO_{address.upper()}"
            left_out[key] = f"{whose} is not sent to the {address} of {there}: {instead}, or write {key} there, too"
            notes.append(left_out[key])
    return RawSettings(
        values=values, origins={name: origins[name] for name in values if name in origins}, ignored=left_out,
        notes=notes,
    )  # fmt: skip


def _divide_shared(
    shared: Mapping[str, object], kinds: Mapping[str, str]
) -> tuple[dict[str, object], dict[str, object]]:
    """What servers have in common, as far as it counts on every machine, and what a machine has to say itself, too."""
    with _name_origin(dict.fromkeys(shared, DATABASE)):
        known = {name: convert(name, value, kinds[name]) for name, value in shared.items() if name in AGREED}
    # What is switched off, and the name of no model, send nothing out and widen nothing.
    doubtful = {
        name: value for name, value in known.items() if value not in (False, "") and _is_restricted(name, value)
    }
    return {name: value for name, value in known.items() if value != "" and name not in doubtful}, doubtful


def _explain_unsaid(
    doubtful: Mapping[str, object], values: Mapping[str, object], kinds: Mapping[str, str]
) -> dict[str, str]:
    """Why each setting of the database does not count that this machine does not say itself."""
    defaults = {each.name: each.default for each in fields(Settings)}
    return {
        name: f"the {name} of {DATABASE} counts here once COFIO_{name.upper()} says the same: a database may not send"
        " what is remembered elsewhere, nor widen what is kept"
        for name, value in doubtful.items()
        if (convert(name, values[name], kinds[name]) if name in values else defaults[name]) != value
    }


def read_claims(store: Path, *, follow: bool = False) -> Claims:
    """What the store's own files ask for that counts only if the store is trusted.

    `follow` is for a user who wants to see them: then the target of a link is read although it is not trusted yet.
    """
    values, problem = _read_file(store, {each.name: str(each.type) for each in fields(Settings)}, follow=follow)
    if problem is not None and follow:
        raise problem
    return Claims.read(store, _find_restricted(store, values))


def _find_restricted(store: Path, values: Mapping[str, object]) -> dict[str, object]:
    """What the store's file may set only where it is trusted."""
    with _name_origin(dict.fromkeys(values, store / FILE)):
        return {name: value for name, value in values.items() if _is_restricted(name, value)}


def _is_restricted(name: str, value: object) -> bool:
    if name == "fetch_model":  # any store may keep to words, and none may turn the network on
        return convert(name, value, "bool") is not False
    return name not in HARMLESS and not (name == "embedder" and value in _OWN_EMBEDDERS)


def _read_own(kinds: Mapping[str, str]) -> tuple[Path, dict[str, object]]:
    """What the user's own file sets, for every store. The user may well have made it a link."""
    folder = find_config_folder()
    path = Path() if folder is None else folder / FILE
    return path, {} if folder is None else read_settings(path, kinds, follow=True)


def _read_file(
    store: Path, kinds: Mapping[str, str], *, follow: bool = False
) -> tuple[dict[str, object], Invalid | None]:
    """What the store's file sets, and what is wrong with a file that it is a link to."""
    path = store / FILE
    if not path.is_symlink():
        return read_settings(path, kinds), None
    if not (follow or is_marked(store)):  # nothing is opened behind the links of strangers
        return {}, None
    try:
        return read_settings(path, kinds, follow=True), None
    except Invalid as problem:
        return {}, problem


def _read_store(store: Path, kinds: Mapping[str, str]) -> tuple[dict[str, object], Iterable[str], str]:
    """What the store's file sets, as far as it may; the names that it may not set; and what to tell of that."""
    path = store / FILE
    values, problem = _read_file(store, kinds)
    restricted = _find_restricted(store, values)
    is_link = path.is_symlink()
    doubt = find_doubt(store, Claims.read(store, restricted)) if restricted or is_link else None
    if doubt is not None:
        lets = f"({doubt}: `cofio trust` lets it count)"
        if is_link:
            return {}, kinds, f"ignored {path}, which is a link {lets}"
        counted = {name: value for name, value in values.items() if name not in restricted}
        return counted, restricted, f"ignored from {path}: {', '.join(restricted)} {lets}"
    if problem is not None:
        raise problem
    return values, (), ""


def _drop_halves(values: dict[str, object], ignored: Iterable[str]) -> list[str]:
    """Take out what is of no use without something that was ignored; its names."""
    dropped: list[str] = []
    for names in _TOGETHER:
        is_needed = "embedder" not in names or values.get("embedder") == "remote"
        if is_needed and any(name in ignored and not values.get(name) for name in names):
            dropped += [name for name in names if values.pop(name, None)]
    return dropped


def find_store(
    store: str | os.PathLike[str] | StoreAddress | None = None, *, start: Path | None = None
) -> StoreAddress:
    """The store's address: the one given, else COFIO_STORE, else AGENT_STORE_PATH, else the nearest .cofio from the
    folder `start` (by default the working folder) upwards within the project, else a new .cofio there.

    A project ends where its repository does, where agent-memory-store keeps a memory, and below the home folder: what
    lies above that is someone else's. (AGENT_STORE_PATH is that product's: who comes from there need not set another.)
    """
    if isinstance(store, StoreAddress):
        return store
    if store is not None and not isinstance(store, str | os.PathLike):
        raise Invalid("store", f"expected a folder, got {type(store).__name__}")
    chosen = os.fspath(store) if store is not None else _read_variable()
    if not isinstance(chosen, str):
        raise Invalid("store", "expected the folder's name as text, not as bytes")
    if store is not None or chosen:
        return StoreAddress.parse(chosen)
    return StoreAddress(folder=_find_folder(Path.cwd() if start is None else start))


def _read_variable() -> str:
    return os.environ.get("COFIO_STORE") or os.environ.get("AGENT_STORE_PATH") or ""


def _find_folder(here: Path) -> Path:
    """The nearest .cofio from a folder upwards within its project; the folder's own if there is none."""
    for folder in (here, *here.parents):
        if folder == _find_home() and folder != here:
            break
        if leads_elsewhere(folder / STORE_FOLDER):
            _check_link(folder)
        if (folder / STORE_FOLDER).is_dir():
            return folder / STORE_FOLDER
        if any((folder / name).exists() for name in (".git", ".agent-memory-store")):
            break
    return here / STORE_FOLDER


def _check_link(folder: Path) -> None:
    """Raise Invalid if the store's link in this folder leads nowhere, or is not, or perhaps not, the user's own."""
    link = folder / STORE_FOLDER
    versioned = False if folder == _find_home() else is_versioned(folder, (STORE_FOLDER,))
    if versioned is not False:
        why = "which came with the project" if versioned else "and could not see whether version control brings it"
        raise Invalid("store", f"{link} is a link, {why}: give the folder that it leads to with --store or COFIO_STORE")
    if not link.exists():
        raise Invalid("store", f"{link} is a link that leads nowhere: make the folder that it leads to, or remove it")


def _find_home() -> Path | None:
    try:
        return Path.home()
    except RuntimeError:  # a user without one
        return None


def _check_read_store(url: str) -> None:
    try:
        is_url = StoreAddress.parse(url).url is not None
    except Invalid:
        is_url = False
    if not is_url:
        raise Invalid("read_store", "is not the URL of a database, as postgresql://replica.example/memory")


def _check_choice(name: str, value: str, *choices: str) -> None:
    if value not in choices:
        raise Invalid(name, f"{value!r} is not one of {', '.join(choices)}")
