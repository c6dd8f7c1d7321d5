"""What agent-memory-store's users rely on: each line of its tool reference, and where we decided otherwise.

The source names the section of its reference page ("seed"), or of what was observed of version 0.0.9 ("seen").
"""

from __future__ import annotations

REQUIREMENTS: dict[str, tuple[str, str]] = {
    # The two stores.
    "chunk.id": ("seed 1.1", "a chunk's id is ten hexadecimal digits"),
    "chunk.fields": ("seed 1.1", "a chunk has topic, agent, tags, importance, content and the day of its last change"),
    "chunk.accumulates": ("seed 1.1", "writing the same topic again makes another chunk"),
    "state.any-json": ("seed 1.2", "a state's value is any JSON: string, number, boolean, object, array"),
    "state.not-searched": ("seed 1.2", "a state is read by its exact key and never found by a search"),
    "state.overwrites": ("seed 1.3", "setting a state replaces what it was"),
    "store.project": ("seed 1.4", "each project's folder has a memory of its own"),
    "store.path": ("seed 1.4", "AGENT_STORE_PATH names another folder, which several projects may share"),
    # search_context.
    "search.query": ("seed 2.1", "query is required, a string"),
    "search.tags": ("seed 2.1", "tags narrow to chunks that have any of them"),
    "search.agent": ("seed 2.1", "agent narrows to the chunks that it wrote"),
    "search.top-k": ("seed 2.1", "top_k is 1 to 20, by default 6"),
    "search.min-score": ("seed 2.1", "min_score leaves out what scores less, by words and by meaning alike"),
    "search.min-score-default": ("seen 4", "the default least score does not empty a hybrid search"),
    "search.mode": ("seed 2.1", "search_mode is hybrid, bm25 or semantic, by default hybrid"),
    "search.text": ("seed 2.1", "a hit is a heading with its score and topic, a line of facts, and the content"),
    "search.separator": ("seen 3", "hits stand apart by a line of three dashes"),
    "search.score-form": ("seen 3", "a score has at most two decimals"),
    "search.nothing": ("seed 2.1", "no hits are said in one sentence"),
    "search.empty": ("issue 14", "an empty query is answered with what to do instead"),
    "search.modes.hybrid": ("seed 3.1", "hybrid finds by words and by meaning"),
    "search.modes.bm25": ("seed 3.2", "bm25 finds by words alone, whichever of them a chunk holds"),
    "search.modes.semantic": ("seed 3.3", "semantic finds by meaning alone"),
    "search.modes.fallback": ("seed 3.1", "without a model, hybrid finds by words, and says so"),
    "search.punctuation": ("seen 4", "any punctuation and the words AND, OR, NOT can be searched for"),
    "search.columns": ("seen 4", "topics, tags and agents are searched as well as contents"),
    "search.immediate": ("seed 2.2", "a chunk is found by the very next search"),
    "search.rrf": ("seed 3.5", "the fusion by ranks that the reference describes can be chosen"),
    # write_context.
    "write.topic": ("seed 2.2", "topic is required, a string"),
    "write.content": ("seed 2.2", "content is required, and kept as it is"),
    "write.agent": ("seed 2.2", "agent is by default global"),
    "write.tags": ("seed 2.2", "tags are by default none"),
    "write.importance": ("seed 2.2", "importance is low, medium, high or critical, by default medium"),
    "write.ttl": ("seed 2.2", "ttl_days is more than 0; left out, the chunk stays"),
    "write.text": ("seed 2.2", "the answer names id, topic, tags and importance"),
    # read_context.
    "read.text": ("seed 2.3", "a chunk is a heading with its topic, a line of facts, and the content"),
    "read.unknown": ("seed 2.3", "an unknown id is said in a sentence that names it, and is no error"),
    # list_context.
    "list.agent": ("seed 2.4", "agent narrows the list"),
    "list.tags": ("seed 2.4", "tags narrow the list to chunks that have any of them"),
    "list.limit": ("seed 2.4", "limit is 1 to 500, by default 100"),
    "list.offset": ("seed 2.4", "offset passes over so many, and pages do not overlap"),
    "list.text": ("seed 2.4", "the list counts its lines, and each has id, topic, agent, tags, importance and day"),
    "list.more": ("issue 14", "a list that is not all of it says of how many, and where the rest begins"),
    "list.no-body": ("seed 2.4", "a list shows no contents"),
    "list.order": ("seen 4", "the last changed comes first"),
    "list.empty": ("seen 3", "an empty list is said in one sentence"),
    # delete_context.
    "delete.text": ("seed 2.5", "the answer names the id that was deleted"),
    "delete.unknown": ("seed 2.5", "an unknown id is said in a sentence that names it"),
    "delete.permanent": ("seed 2.5", "what is deleted is found by nothing any more"),
    # get_state and set_state.
    "get-state.string": ("seed 2.6", "a string is given as it is"),
    "get-state.json": ("seed 2.6", "anything else is given as JSON, indented by two spaces"),
    "get-state.missing": ("seed 2.6", "a missing key is said in a sentence that names it, and is no error"),
    "get-state.null": ("seen 4", "a stored null reads back as null, which a missing key does not"),
    "get-state.key": ("seed 2.6", "key is required"),
    "set-state.key": ("seed 2.7", "key is required"),
    "set-state.value": ("seed 2.7", "value is required, and may be any JSON"),
    "set-state.text": ("seed 2.7", "the answer names the key and the time"),
    "set-state.empty-key": ("seen 3", "an empty key is a key"),
    # What agents see when they are wrong.
    "errors.validation": ("seen 2", "wrong arguments are answered with isError and the validator's words"),
    "errors.several": ("seen 2", "everything that is wrong is said, a line each"),
    "errors.unknown-tool": ("seen 2", "an unknown tool is answered with isError"),
    "errors.extra": ("seen 2", "arguments that a tool does not know are passed over"),
    "errors.null": ("seen 2", "null is not the same as left out"),
    "errors.nothing-changed": ("promise 11", "what is refused changes nothing"),
    # What a model pays for. Here the issue goes before the seed, whose answers have every field, and milliseconds: an
    # agent that knows them reads the same without.
    "lean.fields": (
        "issue 14",
        "what is empty or has its default is left out: agent global, no tags, importance medium",
    ),
    "lean.days": ("issue 14", "a chunk's time is a day"),
    "lean.text": (
        "issue 14",
        "an answer is text alone, and the tools have no schemas of data, unless they are asked for",
    ),
    "lean.declarations": (
        "issue 14",
        "the declarations are no longer than those of agent-memory-store, 4,968 characters",
    ),
    "lean.max-chars": (
        "issue 14",
        "max_chars bounds what search, list and read answer, which say what is left off",
    ),
    "lean.clients": ("issue 14", "a real client's model reads the seed's text, and what is counted is counted there"),
    # Expiry, tags, concurrency.
    "expiry.at-once": ("seen 4", "an expired chunk is hidden from search, read and list at once"),
    "tags.exact": ("seen 4", "a tag matches whole and whatever its case, never as a pattern"),
    "concurrent": ("seen 4", "several servers on one store lose nothing and never say that it is locked"),
    # The surface.
    "tools.names": ("seed 2", "there are the seven tools, in the seed's order"),
    "tools.schemas": ("seen 2", "every parameter of the seven has the seed's type and bounds, and none is missing"),
    "tools.hints": ("issue 5", "each tool has a title and hints on what it does, and when asked for a schema"),
    "tools.data": ("issue 5", "for programs that ask for it each answer is also data that fits the tool's schema"),
    "everywhere": ("issue 5", "everywhere searches what came through other doors, too, and hits then name their kind"),
    "everywhere.folded": ("issue 14", "a fact, its episode and its messages are one hit, with the day it was said"),
    "replaces": ("issue 5", "a write may take the place of a chunk, under its id"),
    "resources": ("issue 5", "a chunk can be read as a resource"),
    "skill": ("seed 4", "the skill is served as a prompt and as a resource"),
    "fence": ("issue", "what was stored stands apart from what cofio says of it"),
    "secrets": ("seed 13", "what looks like a secret is not stored, unless the owner allows it"),
    "similar": ("promise 7", "a write says what says the same already, nearly the same, or something else"),
    # Over HTTP.
    "http.sessions": ("issue", "at the limit of sessions, the one that has been idle longest makes room"),
    "http.bounded": ("issue", "a message that would be costly to parse is refused before it is parsed"),
    "http.json": ("issue", "a message has to say that it is JSON: pages of other sites cannot, unless they are let in"),
}
