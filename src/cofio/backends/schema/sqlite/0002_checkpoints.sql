-- Canonical: thread, checkpoint, pending. Derived: checkpoint_word (made again from checkpoint whenever it is asked for).
-- Times are microseconds since 1970 UTC.

CREATE TABLE thread (
    no    INTEGER PRIMARY KEY,
    space TEXT NOT NULL,                -- whose threads: "library", "langgraph"
    name  TEXT NOT NULL,
    ns    TEXT NOT NULL DEFAULT '',     -- a part of the thread with checkpoints of its own, as a subgraph has
    UNIQUE (space, name, ns)
);

CREATE TABLE checkpoint (
    no         INTEGER PRIMARY KEY,     -- rises with each save; a number stands for one state, for ever
    thread     INTEGER NOT NULL REFERENCES thread (no),
    id         TEXT    NOT NULL,
    parent     TEXT,                    -- the id of the checkpoint that the thread went on from
    base       INTEGER REFERENCES checkpoint (no),  -- what the body is a change of; NULL when it is the whole state
    depth      INTEGER NOT NULL,        -- how many changes lead to it from a whole state, at most
    place      INTEGER NOT NULL,        -- counts the saves since a whole one: says what the next is a change of
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    metadata   TEXT    NOT NULL,        -- JSON
    body       BLOB    NOT NULL         -- a byte that says how it is compressed, and the state or the change
);
CREATE UNIQUE INDEX checkpoint_id ON checkpoint (thread, id);
CREATE INDEX checkpoint_thread ON checkpoint (thread);
CREATE INDEX checkpoint_expiry ON checkpoint (expires_at) WHERE expires_at IS NOT NULL;

-- The highest number that was ever deleted, which is not to be given again: caches hold it. Written when something is
-- deleted, so that a save need not write it, as it would for AUTOINCREMENT.
CREATE TABLE checkpoint_gone (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    no  INTEGER NOT NULL DEFAULT 0
);
INSERT INTO checkpoint_gone (one) VALUES (1);

-- What the tasks of a step have written, before the step's checkpoint is there.
CREATE TABLE pending (
    thread  INTEGER NOT NULL REFERENCES thread (no),
    id      TEXT    NOT NULL,           -- of the checkpoint that the step goes on from
    task    TEXT    NOT NULL,
    at      INTEGER NOT NULL,
    path    TEXT    NOT NULL,
    channel TEXT    NOT NULL,
    type    TEXT    NOT NULL,
    value   BLOB    NOT NULL,           -- as a checkpoint's body
    PRIMARY KEY (thread, id, task, at)
) WITHOUT ROWID;

-- The words that each checkpoint brought, for the searches of its space; taken in when one is made.
CREATE VIRTUAL TABLE checkpoint_word USING fts5 (
    words, content='', contentless_delete=1, tokenize="unicode61 remove_diacritics 0"
);
CREATE TABLE checkpoint_sought (
    space TEXT PRIMARY KEY,
    upto  INTEGER NOT NULL              -- the checkpoints up to here have their words taken in
) WITHOUT ROWID;
