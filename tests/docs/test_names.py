"""The names in the source keep to the rules and the words of CONTRIBUTING.md."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "cofio"
TEXTS = {file.relative_to(SOURCE).as_posix(): file.read_text() for file in sorted(SOURCE.rglob("*.py"))}
TREES = {name: ast.parse(text) for name, text in TEXTS.items()}

SHARED_MODULES = {
    "http": "the HTTP side of a door or a provider",
    "maintenance": "the domain, and the shell's commands about it",
    "renderer": "how records read for a person: MCP's answers, the vault's files",
    "store": "locus's stores, and the one that LangGraph calls so",
    "commands": "what a command does: the shell's, the memory tool's",
    "documents": "the domain, and the shell's commands about it",
    "tokens": "the domain, and the shell's commands about it",
    "trust": "the domain, and the shell's commands about it",
} | dict.fromkeys(
    (
        "backend",
        "checkpoint_rows",
        "conditions",
        "database",
        "dump",
        "record_rows",
        "searcher",
        "store_loader",
        "upkeep",
        "vector_rows",
    ),
    "the same part of each backend",
)
"""The names that several modules have, and what those have in common."""

PARTICIPLES = re.compile(
    "(?:un)?(?:told|kept|said|asked|given|made|taken|held|sought|seen|known|shown|found|laid|sent|spent|meant|brought|thought"
    "|built|written|spoken|chosen|hidden|broken|drawn|gone|lost)|misshapen"
)
"""Participles that are not known by their ending, as those in -ed and -ing are."""

WORDS = {"embed", "need", "feed", "seed", "string", "nothing", "everything", "heading", "embedding", "hamming"}
"""Verbs and nouns that end like a participle."""

API = {
    "RecordReader.given",
    "Conflict.found",
    "ReasoningStep.thought",
    "Draft.given",
    "Record.given",
    "NamespacedStore.scoped",
    "Failed",
    "Token.made",
}
"""Names that the users of the engine or of a seed have in their programs, or that stand in a stored file."""

AMBIGUOUS = {"Place", "Said", "Told", "Look", "Brief", "Made"}
"""Classes of these names have meant too many things."""

RIDDLES = re.compile(r"\b(anew|whoever|nobody|so many|let(?:s|ting)? go)\b", re.IGNORECASE)

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def test_no_two_modules_of_one_name_have_different_jobs() -> None:
    stems = Counter(name.rpartition("/")[2] for name in TEXTS)
    shared = {stem.removesuffix(".py") for stem, count in stems.items() if count > 1 and not stem.startswith("__")}
    assert shared - set(SHARED_MODULES) == set()


def test_no_function_and_no_class_is_called_by_a_participle_alone() -> None:
    names = [(file, name) for file, name, _ in _definitions() if _is_bare(name) and name not in API]
    _hold(names)


def test_no_field_is_called_by_a_participle_alone() -> None:
    _hold([(file, name) for file, name in _fields() if PARTICIPLES.fullmatch(_word(name)) and name not in API])


def test_no_class_has_a_name_that_meant_many_things() -> None:
    classes = [(file, name) for file, name, node in _definitions() if isinstance(node, ast.ClassDef)]
    _hold([(file, name) for file, name in classes if name.rpartition(".")[2].strip("_") in AMBIGUOUS])


def test_no_row_is_called_no() -> None:
    _hold([(file, f"line {line}") for file, line in _rows_called_no()])


def test_no_docstring_and_no_comment_needs_a_second_reading() -> None:
    _hold([(file, f"line {line}") for file, line, text in _prose() if RIDDLES.search(text)])


@pytest.mark.parametrize("name", ["told", "_Told", "Reader.listed", "_Taking", "misspelled", "unseen"])
def test_a_participle_alone_is_no_name(name: str) -> None:
    assert _is_bare(name)


@pytest.mark.parametrize("name", ["__missing__", "embed", "_string", "PromptHeading", "is_listed", "read", "find_kept"])
def test_what_only_ends_like_a_participle_is_a_name(name: str) -> None:
    assert not _is_bare(name)


def test_every_word_of_the_glossary_has_one_meaning() -> None:
    section = (ROOT / "CONTRIBUTING.md").read_text().partition("## Words\n")[2].partition("\n## ")[0]
    words = re.findall(r"^\| \*\*(.+?)\*\* \|", section, re.MULTILINE)
    assert len(words) > 40
    assert [word for word, count in Counter(words).items() if count > 1] == []


def _hold(found: list[tuple[str, str]]) -> None:
    """Fail with what was found, by package."""
    by_package: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for file, name in found:
        by_package[file.partition("/")[0]].append((file, name))
    assert by_package == {}


def _word(name: str) -> str:
    return name.rpartition(".")[2].strip("_").lower()


def _is_bare(name: str) -> bool:
    """Whether the whole name of a function or class is one past participle or gerund."""
    last = name.rpartition(".")[2]
    if last.startswith("__") or not re.fullmatch(r"_*[A-Z]?[a-z]+", last):
        return False
    word = _word(name)
    return PARTICIPLES.fullmatch(word) is not None or (word.endswith(("ed", "ing")) and word not in WORDS)


def _definitions() -> Iterator[tuple[str, str, Definition]]:
    """The file, the name with its owner's before it, and the node of every function and class."""
    for file, tree in TREES.items():
        yield from ((file, name, node) for name, node in _defined_in(tree, ""))


def _defined_in(tree: ast.AST, owner: str) -> Iterator[tuple[str, Definition]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Definition):
            yield owner + node.name, node
            yield from _defined_in(node, f"{owner}{node.name}.")
        else:
            yield from _defined_in(node, owner)


def _fields() -> Iterator[tuple[str, str]]:
    """The file and the name of every attribute that a class declares or its methods set."""
    for file, owner, tree in _definitions():
        if isinstance(tree, ast.ClassDef):
            names = set()
            for node in tree.body:
                if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                    names.add(node.target.id)
            for each in ast.walk(tree):
                if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store):
                    names.add(each.attr)
            yield from ((file, f"{owner}.{name}") for name in sorted(names))


def _rows_called_no() -> Iterator[tuple[str, int]]:
    for file, tree in TREES.items():
        for node in ast.walk(tree):
            match node:
                case ast.Name(id="no", ctx=ast.Store()) | ast.arg(arg="no") | ast.Attribute(attr="no"):
                    yield file, node.lineno


def _prose() -> Iterator[tuple[str, int, str]]:
    """The file, the line and the text of every docstring and comment."""
    for file, tree in TREES.items():
        for node in ast.walk(tree):
            # A text that stands alone is a docstring, whatever it stands under.
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                yield file, node.lineno, str(node.value.value)
        for token in tokenize.generate_tokens(io.StringIO(TEXTS[file]).readline):
            if token.type == tokenize.COMMENT:
                yield file, token.start[0], token.string
