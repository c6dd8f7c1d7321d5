"""The top-level scopes of a store: which part of cofio writes where, so that no two parts take the same name.

A program that uses the library may write anywhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from .records import Scope

MCP = Scope("mcp")
CONVERSATIONS = Scope("rest")
ITEMS = Scope("store")
FILES = Scope("files")
FILE_HISTORY = Scope("history")
ANIMUS = Scope("animus")
OPENAI_AGENTS = Scope("openai-agents")
LLAMA_INDEX = Scope("llama-index")
DEMO = Scope("demo")
OWN = Scope("cofio")
IMPORTS = OWN / "imports"
ANIMUS_OWNERS = OWN / "animus"
MODEL_USAGE = OWN / "llm"
REVIEW = OWN / "review"
JOBS = OWN / "jobs"

OWNERS: Mapping[Scope, str] = MappingProxyType(
    {
        MCP: "the chunks and states of the MCP door, and what is imported from agent-memory-store",
        CONVERSATIONS: "conversations and what is remembered of them, by app, project and owner; documents",
        ITEMS: "the items of the library's stores and of LangGraph's, by namespace",
        FILES: "the files of the memory tool, by owner",
        FILE_HISTORY: "the revisions of those files, by the scope that holds the file",
        ANIMUS: "the entries of Animus, by project, agent and task",
        OPENAI_AGENTS: "the sessions of OpenAI's Agents SDK",
        LLAMA_INDEX: "the chats and memories of LlamaIndex",
        DEMO: "what `cofio demo` writes",
        OWN: "what cofio keeps for its own use; the five below",
        IMPORTS: "how far an import came",
        ANIMUS_OWNERS: "which project of Animus has a name",
        MODEL_USAGE: "what a model has cost, by day, and what its endpoint takes",
        REVIEW: "what a person has decided to leave as it is, so that the page does not ask again",
        JOBS: "work that is not finished, by kind, app, project and session; the heartbeats of those that do it",
    }
)
"""What each scope root holds."""

INTERNAL = (IMPORTS, ANIMUS_OWNERS, MODEL_USAGE, REVIEW, JOBS)
"""The scopes that a list leaves out unless it is asked for them."""
