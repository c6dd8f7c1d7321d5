"""What an Animus host and its agents rely on: each line of the reference plugin's page and of the protocol.

The source names the reference page ("seed", of the Zep plugin) or the section of the protocol ("spec"), whose §0 holds
the decisions where its editions disagree. `issue` is what we promised beyond both.
"""

from __future__ import annotations

REQUIREMENTS: dict[str, tuple[str, str]] = {
    # The transport.
    "frames.blank": ("spec 1", "a blank line is ignored"),
    "frames.unparsable": ("spec 1", "a line that cannot be parsed is logged and dropped, without an answer"),
    "frames.invalid": ("spec 1", "a frame without jsonrpc 2.0 or a method's name is dropped"),
    "frames.notification": ("spec 1", "what has no id is never answered"),
    "frames.null-id": ("spec 1", "an id of null is a request's, answered with null"),
    "frames.id": ("spec 1", "an id comes back unchanged"),
    "frames.params": ("spec 1", "params may be left out or null, and unknown members are tolerated"),
    "frames.size": ("spec 1", "a frame may have 8 MiB"),
    "frames.stderr": ("spec 1", "nothing but answers is on stdout"),
    "frames.eof": ("spec 3", "the end of stdin, wherever it comes, is an exit: what was asked for is answered first"),
    # The command.
    "manifest.print": ("spec 2", "--manifest and -m print one JSON object and end with 0"),
    "manifest.bare": (
        "spec 2",
        "the manifest needs no variable and touches no disk, and stays within the host's limits",
    ),
    "manifest.schema": ("spec 2", "the manifest fits the schema: a memory_store of protocol 1.1.0"),
    "manifest.methods": ("spec 2", "the manifest names every method, in the order of the reference plugin"),
    "manifest.steady": ("spec 2", "the manifest is the same for as long as the version is: the host caches it"),
    "manifest.variables": ("spec 4", "every variable that the plugin reads is declared, and none is required"),
    "command.help": ("spec 2", "--help is on stderr, and ends with 0"),
    "command.tty": ("spec 2", "without a host, it says so in one line and ends with 2"),
    "command.script": ("issue 1", "the plugin is `cofio animus` and `animus-memory-cofio`"),
    # The life of a process.
    "initialize.shape": ("spec 3, 0.2", "the result is in the shape of the crate and of the reference plugin at once"),
    "initialize.capabilities": (
        "seed, spec 5",
        "native_ttl, native_key_get and strong_consistency are true, and top_k 50",
    ),
    "initialize.version": ("spec 3", "the major versions of the protocol must agree"),
    "initialize.no-version": ("spec 3", "a host that says no version is refused"),
    "initialize.again": ("spec 3", "the same root again is no error"),
    "initialize.rebind": ("spec 3", "another root is PROJECT_BINDING_MISMATCH"),
    "initialize.unbound": ("spec 0.4", "without a binding, the project is the working folder"),
    "initialize.bad-root": ("spec 3", "a binding without a root is refused"),
    "initialize.first": (
        "seed, spec 0.3",
        "a call before initialize is PROJECT_BINDING_MISMATCH; -32000 for the crate",
    ),
    "initialize.serves": ("spec 3", "calls are served right after initialize, without waiting for `initialized`"),
    "ping": ("spec 3", "$/ping is answered with {}"),
    "health": ("spec 3", "health/check is answered, before initialize too, and tells of the last failure"),
    "shutdown": ("spec 3", "shutdown is answered with {} once what came before is done; the process stays"),
    "exit.notification": ("spec 3", "exit ends the process with 0"),
    "exit.request": ("spec 3", "exit as a request is answered with {} first"),
    "unknown": ("spec 3", "an unknown method is -32601"),
    "cancel": ("spec 3", "$/cancelRequest, $/progress and unknown notifications are ignored"),
    "end.second": ("issue", "the process has ended a second after exit or the end of stdin, whatever it was indexing"),
    "spawn.light": ("spec 3, issue 3", "nothing heavy is imported before initialize is answered"),
    # Scopes.
    "normalize": ("seed, spec 5", "a name is normalised in six steps"),
    "scope.id": ("seed", "an id is proj_P, proj_P__agent_A or proj_P__agent_A__task_T"),
    "scope.object": ("spec 5", "a scope is an object with a project"),
    "scope.task": ("spec 5", "a task needs an agent"),
    "scope.empty": ("spec 5", "an empty agent or task is none"),
    "scope.raw": ("seed", "scopes come back with the names that they were given"),
    "scope.collision": ("spec 5, 6", "two scopes with one id are MEMORY_SCOPE_COLLISION, and never one memory"),
    "scope.exact": ("spec 5", "a call sees its own scope, and nothing above or below"),
    "scope.limits": ("issue", "a name of more than 256 characters, or one with NUL, is refused"),
    # put.
    "put.result": ("spec 5", "put answers ack, indexed_immediately and record_id"),
    "put.key": ("spec 5", "the key is checked first, and is a non-empty string"),
    "put.value": ("spec 5", "the value is required, and any JSON: null, too"),
    "put.again": ("spec 5", "the last value that is put stands"),
    "put.ttl": ("seed, spec 5", "ttl_secs ends an entry: get and query do not see it any more"),
    "put.ttl-huge": ("spec 5", "any u64 is a ttl: what is beyond a thousand years never ends"),
    "put.immediate": ("seed, spec 5", "what was put is found by the very next query, of any process"),
    "put.limits": ("issue", "what is too large is refused with its limit, and nothing changes"),
    # get.
    "get.key": ("spec 5", "the key is a non-empty string"),
    "get.found": ("spec 5", "get gives the very value"),
    "get.missing": ("spec 5", "an unknown scope or key is found:false without a value"),
    "get.direct": ("seed", "get finds by the key itself, however many entries there are"),
    # query.
    "query.results": ("seed, spec 5", "query answers keys, values and scores, best first"),
    "query.text": ("spec 5", "the query is a non-empty string"),
    "query.top-k": ("spec 5", "top_k is a positive integer"),
    "query.most": ("seed, spec 5", "top_k over 50 is QUERY_TOP_K_EXCEEDED, and says the most"),
    "query.unknown-scope": ("spec 5", "an unknown scope has no results"),
    "query.mode": (
        "issue 3",
        "words alone by default; the caller may ask for meaning, and the answer says what was done",
    ),
    "query.fits": ("spec 1", "an answer stays below the 8 MiB that the host reads, and says what it left out"),
    # list_scopes.
    "list.pages": ("seed, spec 5", "cursors are page numbers, and the last page has none"),
    "list.size": ("spec 5", "a page has 100 scopes unless a size is given, and never more than 500"),
    "list.bad": ("spec 5", "a bad size means 100 and a bad cursor the first page"),
    "list.project": ("seed, spec 5", "the filter compares normalised projects, and never prefixes"),
    # delete_scope.
    "delete": ("seed, spec 5", "deleting is idempotent, exact, and gives up the id"),
    # Errors.
    "errors.codes": ("seed, spec 6", "errors of memory are -323xx, or -324xx for the crate"),
    "errors.category": ("spec 6", "an error's data names its category"),
    "errors.gone": ("spec 6", "a store that was moved or deleted is BACKEND_UNAVAILABLE until the plugin is restarted"),
    "errors.backend": ("seed, spec 6", "a store that fails is BACKEND_UNAVAILABLE, and the next call tries again"),
    # The memory.
    "store.project": ("issue 2", "the memory is the project's, and is made by the first put alone"),
    "store.shared": ("issue 2", "an MCP client in the same project finds what was put"),
    "store.concurrent": ("issue", "many processes on one project lose nothing, and none fails"),
    "store.durable": ("issue", "what was acknowledged survives kill -9"),
    "host": ("spec 7", "a host that plays its part from the manifest to the exit finds all as it expects"),
    "store.indexed": ("ours", "what many short processes put is indexed in the end"),
    "scope.claimed": ("ours", "an id has one owner whoever claims it at once, and keeps it while something is there"),
    "command.usage": ("ours", "wrong usage is told in one line"),
    "docs": ("ours", "the session of the page prints what it says"),
}
