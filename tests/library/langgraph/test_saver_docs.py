"""The programs of docs/langgraph.md run, each as a process of its own."""

from __future__ import annotations

import operator
import re
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph, add_messages
from langgraph.types import Command, interrupt

from cofio.library.langgraph import CofioSaver

from .saving import QUIET

pytestmark = pytest.mark.usefixtures("process")

PAGE = (Path(__file__).parents[3] / "docs" / "langgraph.md").read_text()


def program(title: str) -> str:
    """The last program under a heading of the page."""
    section = PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]
    return str(re.findall(r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL)[-1])


def run(title: str, folder: Path) -> str:
    """What the program prints."""
    done = subprocess.run([sys.executable, "-c", program(title)], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.requirement("langgraph.saver.docs")
def test_the_chat_goes_on_when_it_is_run_again(tmp_path: Path) -> None:
    said = []
    for turn in range(1, 4):
        said.append(f"hello number {turn}")
        assert run("A chat that goes on", tmp_path) == f"So far you said: {', '.join(said)}.\n"


@pytest.mark.requirement("langgraph.saver.docs")
def test_the_agent_remembers_across_threads(tmp_path: Path) -> None:
    assert run("An agent that remembers across threads", tmp_path) == (
        "monday: []\nfriday: ['My boat is called Petrel.']\n"
    )


@pytest.mark.requirement("langgraph.saver.docs")
def test_every_program_of_the_page_is_whole(tmp_path: Path) -> None:
    programs = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(programs) >= 5
    with SqliteSaver.from_conn_string(str(tmp_path / "checkpoints.sqlite")) as old:
        old.setup()
    for each in programs:
        done = subprocess.run([sys.executable, "-c", each], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


class Chat(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    count: Annotated[int, operator.add]


def asking(saver: BaseCheckpointSaver[Any]) -> Any:
    def ask(state: Chat) -> Chat:
        return {"messages": [AIMessage(interrupt("?"))], "count": 1}

    built = StateGraph(Chat)
    built.add_node("ask", ask)
    built.add_edge(START, "ask")
    return built.compile(checkpointer=saver)


@pytest.mark.requirement("langgraph.saver.docs")
def test_the_threads_of_a_sqlite_saver_go_on_here(tmp_path: Path) -> None:
    threads: list[Any] = [{"configurable": {"thread_id": name}} for name in ("ada", "bob")]
    with SqliteSaver.from_conn_string(str(tmp_path / "checkpoints.sqlite")) as old:
        for config in threads:
            for turn in ("one", "two"):
                asking(old).invoke({"messages": [HumanMessage(turn)]}, config)
                if turn == "one":
                    asking(old).invoke(Command(resume="yes"), config)
        states = [[*asking(old).get_state_history(config)] for config in threads]
    run("From SqliteSaver", tmp_path)
    with CofioSaver.open(tmp_path / "my-memory", settings=QUIET) as saver:
        for config, before in zip(threads, states, strict=True):
            assert [*asking(saver).get_state_history(config)] == before
            values = asking(saver).invoke(Command(resume="no"), config)
            assert [message.text for message in values["messages"]] == ["one", "yes", "two", "no"]
            assert values["count"] == 2
