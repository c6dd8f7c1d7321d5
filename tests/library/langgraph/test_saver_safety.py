"""Who can write to the database cannot make a reader import or call anything."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ormsgpack
import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.serde.jsonplus import (
    EXT_CONSTRUCTOR_KW_ARGS,
    EXT_CONSTRUCTOR_POS_ARGS,
    EXT_CONSTRUCTOR_SINGLE_ARG,
    EXT_DELTA_SNAPSHOT,
    EXT_METHOD_SINGLE_ARG,
    EXT_PYDANTIC_V1,
    EXT_PYDANTIC_V2,
    JsonPlusSerializer,
)

from cofio.backends.checkpoint_interface import PendingWrite
from cofio.config.address import StoreAddress
from cofio.library.langgraph import CofioSaver
from cofio.values.errors import Invalid

from .saving import QUIET, checkpoint_with, config_of

MODULE = "planted_by_a_test"


class Bomb:
    def __init__(self, touched: str) -> None:
        self.touched = touched

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.touched,)


@pytest.fixture
def saver(store_address: StoreAddress) -> Iterator[CofioSaver]:
    with CofioSaver.open(store_address.spell(), settings=QUIET) as opened:
        yield opened


@pytest.fixture
def touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that is there when something was called that should not have been."""
    folder = tmp_path / "touched"
    (tmp_path / f"{MODULE}.py").write_text(f"import os\nos.mkdir({str(folder)!r})\ndef call(*args, **kwargs): pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    sys.modules.pop(MODULE, None)


def extended(code: int, *parts: Any) -> bytes:
    return ormsgpack.packb(ormsgpack.Ext(code, ormsgpack.packb(parts)))


def attacks(folder: str) -> list[bytes]:
    """Values in MessagePack, each of which would call or import something if it were trusted."""
    direct = [
        extended(EXT_CONSTRUCTOR_SINGLE_ARG, "os", "mkdir", folder),
        extended(EXT_CONSTRUCTOR_POS_ARGS, "os", "mkdir", (folder,)),
        extended(EXT_CONSTRUCTOR_KW_ARGS, "os", "mkdir", {"path": folder}),
        extended(EXT_CONSTRUCTOR_SINGLE_ARG, "builtins", "eval", f"__import__('os').mkdir({folder!r})"),
        extended(EXT_METHOD_SINGLE_ARG, "pathlib", "Path", folder, "mkdir"),
        extended(EXT_METHOD_SINGLE_ARG, "builtins", "__import__", MODULE, "__call__"),
        extended(EXT_PYDANTIC_V1, "os", "mkdir", {"path": folder}),
        extended(EXT_PYDANTIC_V2, "os", "mkdir", {"path": folder}, "model_validate_json"),
        extended(EXT_CONSTRUCTOR_SINGLE_ARG, MODULE, "call", 1),
        extended(EXT_PYDANTIC_V2, MODULE, "call", {}, "model_validate_json"),
    ]
    return [*direct, *(ormsgpack.packb(ormsgpack.Ext(EXT_DELTA_SNAPSHOT, each)) for each in direct)]


@pytest.mark.requirement("langgraph.saver.safety")
def test_a_planted_value_calls_and_imports_nothing(saver: CofioSaver, touched: Path) -> None:
    for number, attack in enumerate(attacks(str(touched))):
        text = attack.decode("latin-1")
        states = [
            {"rest": {}, "values": {"a": [text]}}, {"rest": {}, "values": {"a": {"b": text}}},
            {"rest": {}, "values": {"a": f"msgpack\n{text}"}},
            {"rest": {}, "values": {}, "packed": {"pending_sends": f"msgpack\n{text}"}},
            {"rest": {}, "values": {}, "metadata": {"a": f"msgpack\n{text}"}},
        ]  # fmt: skip
        for at, state in enumerate(states):
            saver.engine.checkpoints.save("langgraph", "ada", f"{number:02}.{at}", state)
        write = PendingWrite("task", 0, "", "a", "msgpack", attack)
        saver.engine.checkpoints.write("langgraph", "ada", f"{number:02}.0", [(write, False)])
    assert len([*saver.list(config_of())]) == 5 * 20
    history = saver.get_delta_channel_history(config=config_of(), channels=["a"])
    assert "a" in history
    assert not touched.exists()
    assert MODULE not in sys.modules
    # A serializer that trusts what it reads would have called it.
    JsonPlusSerializer(allowed_msgpack_modules=True).loads_typed(("msgpack", attacks(str(touched))[0]))
    assert touched.exists()


@pytest.mark.requirement("langgraph.saver.safety")
@pytest.mark.parametrize("kind", ["pickle", "json", ""])
def test_values_of_other_types_are_refused(saver: CofioSaver, touched: Path, kind: str) -> None:
    data = pickle.dumps(Bomb(str(touched)))
    if kind == "json":
        data = (
            b'{"lc": 2, "type": "constructor", "id": ["os", "mkdir"], "kwargs": {"path": "%s"}}' % str(touched).encode()
        )
    for number, state in enumerate((
        {"rest": {}, "values": {"a": f"{kind}\n{data.decode('latin-1')}"}},
        {"rest": {}, "values": {}, "packed": {"pending_sends": f"{kind}\n{data.decode('latin-1')}"}},
        {"rest": {}, "values": {}},
    )):  # fmt: skip
        saver.engine.checkpoints.save("langgraph", "ada", str(number), state)
        if number == 2:
            write = PendingWrite("task", 0, "", "a", kind, data)
            saver.engine.checkpoints.write("langgraph", "ada", "2", [(write, False)])
        with pytest.raises(Invalid, match="serde: a value is of the type"):
            saver.get_tuple(config_of())
    assert not touched.exists()


@pytest.mark.requirement("langgraph.saver.safety")
def test_nothing_is_ever_pickled(saver: CofioSaver) -> None:
    with pytest.raises(TypeError):
        saver.put(config_of(), checkpoint_with("1", {"a": Bomb("x")}), {}, {})
    with pytest.raises(TypeError):
        saver.put(config_of(), checkpoint_with("1", {"a": [HumanMessage("x"), Bomb("x")]}), {}, {})
    assert saver.get_tuple(config_of()) is None


@pytest.mark.requirement("langgraph.saver.safety")
def test_a_pickling_serializer_must_be_asked_for(store_address: StoreAddress) -> None:
    serde = JsonPlusSerializer(pickle_fallback=True, allowed_msgpack_modules=None)
    value = ["text", {"a": complex(1, 2)}, None]
    with CofioSaver.open(store_address.spell(), settings=QUIET, serde=serde) as saver:
        saver.put(config_of(), checkpoint_with("1", {"a": value, "b": ["c"]}), {}, {})
        found = saver.get_tuple(config_of())
        assert found is not None
        assert found.checkpoint["channel_values"] == {"a": value, "b": ["c"]}


STRICT = """
import sys
from dataclasses import dataclass
from typing import TypedDict
from langgraph.graph import START, StateGraph
from cofio.library.langgraph import CofioSaver

@dataclass
class Point:
    x: int

class State(TypedDict, total=False):
    point: Point

built = StateGraph(State)
built.add_node("move", lambda state: {"point": Point(state["point"].x + 1)})
built.add_edge(START, "move")
config = {"configurable": {"thread_id": "ada"}}
with CofioSaver.open(sys.argv[1]) as saver:
    graph = built.compile(checkpointer=saver)
    before = graph.get_state(config).values.get("point")
    graph.invoke({"point": before or Point(0)}, config)
    print(before, graph.get_state(config).values["point"])
"""


@pytest.mark.requirement("langgraph.saver.allow")
@pytest.mark.usefixtures("process")
def test_langgraph_allows_the_types_of_a_schema_where_it_is_strict_itself(store: StoreAddress) -> None:
    said = [
        subprocess.run(
            [sys.executable, "-c", STRICT, store.spell()], check=True, capture_output=True, text=True,
            env=os.environ | {"LANGGRAPH_STRICT_MSGPACK": "true"},
        ).stdout.strip()
        for _ in range(2)
    ]  # fmt: skip
    assert said == ["None Point(x=1)", "Point(x=1) Point(x=2)"]
