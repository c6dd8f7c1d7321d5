-- Canonical: scope, record, tag. Derived: gone, embedder, vector, segment (all can be rebuilt from record).
-- Times are microseconds since 1970 UTC. seq numbers every change in the order of commit.

CREATE TABLE state (
    one         INTEGER PRIMARY KEY CHECK (one = 1),
    store       TEXT    NOT NULL,              -- tells this store from all others
    seq         INTEGER NOT NULL DEFAULT 0,    -- the newest change
    records     INTEGER NOT NULL DEFAULT 0,    -- how many records there are
    words       INTEGER NOT NULL DEFAULT 0,    -- how many words they have together
    updated     INTEGER NOT NULL DEFAULT 0,    -- the newest updated_at
    index_name  TEXT    NOT NULL DEFAULT '',   -- the folder that the word index is in
    indexed_seq INTEGER NOT NULL DEFAULT 0,    -- changes up to here are in the word index
    indexed_at  INTEGER NOT NULL DEFAULT 0,    -- the newest updated_at when indexed_seq was set
    tail_seq    INTEGER NOT NULL DEFAULT 0,    -- changes after here are in the tail
    fault       TEXT    NOT NULL DEFAULT '',   -- why background work last failed
    mended      INTEGER NOT NULL DEFAULT 0     -- how often a commit that failed was written over
);

INSERT INTO state (one, store) VALUES (1, lower(hex(randomblob(16))));

CREATE TABLE scope (
    no   INTEGER PRIMARY KEY AUTOINCREMENT,  -- never used again: the vector codes hold it
    path BLOB NOT NULL UNIQUE                -- each name followed by NUL
);

CREATE TABLE record (
    no         INTEGER PRIMARY KEY,    -- the seq of its first write; never used again
    id         TEXT    NOT NULL UNIQUE,
    scope      INTEGER NOT NULL REFERENCES scope (no),
    kind       TEXT    NOT NULL,
    key        TEXT,
    seq        INTEGER NOT NULL,       -- its last change
    text_seq   INTEGER NOT NULL,       -- the last change of what its vector is made of
    words      INTEGER NOT NULL,       -- how many words it is found by
    digest     BLOB    NOT NULL,       -- equal for equal text
    parent     TEXT,
    position   INTEGER,
    author     TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    expires_at INTEGER,
    version    INTEGER NOT NULL,
    importance TEXT    NOT NULL,
    source     TEXT    NOT NULL,
    tags       TEXT    NOT NULL,       -- JSON
    title      TEXT    NOT NULL,
    data       TEXT    NOT NULL,       -- JSON
    text       TEXT    NOT NULL
);

CREATE UNIQUE INDEX record_key ON record (scope, kind, key) WHERE key IS NOT NULL;
CREATE INDEX record_seq ON record (seq);
CREATE INDEX record_scope ON record (scope, seq);
CREATE INDEX record_digest ON record (digest);
CREATE INDEX record_author ON record (author) WHERE author <> '';
CREATE INDEX record_parent ON record (parent, position) WHERE parent IS NOT NULL;
CREATE INDEX record_expiry ON record (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE tag (
    tag TEXT    NOT NULL,              -- case folded
    no  INTEGER NOT NULL REFERENCES record (no),
    PRIMARY KEY (tag, no)
) WITHOUT ROWID;

-- What the word index has yet to forget.
CREATE TABLE gone (
    seq INTEGER PRIMARY KEY,
    no  INTEGER NOT NULL
);

CREATE TABLE embedder (
    no         INTEGER PRIMARY KEY AUTOINCREMENT,
    name       TEXT    NOT NULL UNIQUE,
    dimensions INTEGER NOT NULL DEFAULT 0,
    seen_seq   INTEGER NOT NULL DEFAULT 0,  -- every change up to here has its vector
    seen_at    INTEGER NOT NULL DEFAULT 0,  -- the newest updated_at when seen_seq was set
    vseq       INTEGER NOT NULL DEFAULT 0   -- numbers the vectors in the order of commit
);

CREATE TABLE vector (
    embedder INTEGER NOT NULL REFERENCES embedder (no),
    no       INTEGER NOT NULL REFERENCES record (no),
    vseq     INTEGER NOT NULL,
    text_seq INTEGER NOT NULL,         -- the vector is of this state of the record's text
    data     BLOB    NOT NULL,         -- float16, little endian
    PRIMARY KEY (embedder, no)
) WITHOUT ROWID;
CREATE INDEX vector_vseq ON vector (embedder, vseq);

-- The files of vector codes: each holds the vectors with low < vseq <= high.
CREATE TABLE segment (
    embedder INTEGER NOT NULL REFERENCES embedder (no),
    high     INTEGER NOT NULL,
    low      INTEGER NOT NULL,
    name     TEXT    NOT NULL,
    PRIMARY KEY (embedder, high)
) WITHOUT ROWID;
