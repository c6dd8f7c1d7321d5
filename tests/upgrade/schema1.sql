-- A store as cofio 0.1 wrote it, at schema 1. Never to be changed: it stands for the stores that are out there.

PRAGMA application_id = 1668245097;
PRAGMA user_version = 1;

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
CREATE TABLE segment (
    embedder INTEGER NOT NULL REFERENCES embedder (no),
    high     INTEGER NOT NULL,
    low      INTEGER NOT NULL,
    name     TEXT    NOT NULL,
    PRIMARY KEY (embedder, high)
) WITHOUT ROWID;

INSERT INTO state VALUES (1, '663e3be466a7bb55307c52f38259c662', 8, 5, 42, 1767323047678901, '', 0, 0, 0, '', 0);

INSERT INTO scope VALUES (1, X'64656D6F00');
INSERT INTO scope VALUES (2, X'C3BC6EC3AF2F636F64650061256200');
INSERT INTO scope VALUES (3, X'');
INSERT INTO scope VALUES (4, X'676F6E6500');

INSERT INTO record VALUES (1, '01aaaaaaaaaaaaaaaaaaaaaaaa', 1, 'note', NULL, 1, 1, 13, X'C491C193DE9B1A76427B69B10A28CDF7', NULL, NULL, 'pm', 1767323045678901, 1767323045678901, NULL, 1, 'medium', 'python', '["auth","API"]', 'Auth: chose JWT', 'null', 'Stateless, no session store.');
INSERT INTO record VALUES (2, '01ffffffffffffffffffffffff', 1, 'state', 'phase', 3, 3, 6, X'5AF3D950A7C7923896832F9ACE3AC66B', NULL, NULL, '', 1767323046678901, 1767323047678901, NULL, 2, 'medium', 'python', '[]', '', '{"n":2,"naïve":[true,null,1.5]}', '');
INSERT INTO record VALUES (4, '01bbbbbbbbbbbbbbbbbbbbbbbb', 2, 'turn', NULL, 4, 4, 15, X'58E8E9D744B7E761A0C8B0248D9CAC35', 'session', -3, 'Zoë', 946598400000000, 1767323047678901, NULL, 1, 'critical', 'mcp', '[]', '', 'null', '東京タワー 🚀 O’Brien''s "quote"
second line');
INSERT INTO record VALUES (5, '01cccccccccccccccccccccccc', 3, 'note', NULL, 5, 5, 5, X'07161752F4DD0D63425F0D8CA3E12113', NULL, NULL, '', 1767323047678901, 1767323047678901, 4102444800000000, 1, 'medium', 'python', '[]', '', 'null', 'lasts until the year 2100');
INSERT INTO record VALUES (6, '01dddddddddddddddddddddddd', 3, 'note', NULL, 6, 6, 3, X'62F305FBBCF0461A5935164E99A61F68', NULL, NULL, '', 1767323047678901, 1767323047678901, 1767398400000000, 1, 'medium', 'python', '[]', '', 'null', 'expired long ago');

INSERT INTO tag VALUES ('api', 1);
INSERT INTO tag VALUES ('auth', 1);

INSERT INTO gone VALUES (8, 7);

INSERT INTO embedder VALUES (1, 'hashed-384', 384, 1, 1767323040000000, 1);

INSERT INTO vector VALUES (1, 1, 1, 1, X'F02F00000000000000000000000000000000F0AF00000000000000000000000000000000000000000000F0AF000000000000000000000000000000000000F02F00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000F0B30000000000000000000000000000000000000000000000000000F0AFF02F000000000000000000000000000000000000F0B3000000000000000000000000F02F000000000000000000000000F0B3F02F00000000000000000000000000000000000000000000000000000000000000000000F0AF00000000000000000000000000000000000000000000F0B3000000000000000000000000000000000000F0AF000000000000F02FF02F000000000000000000000000F0330000000000000000000000000000000000000000000000000000000000000000000000000000F0AF00000000F02F000000000000000000000000F0B300000000000000000000000000000000000000000000F033000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000F02F000000000000F02FF02F00000000000000000000F0AF0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000F02F0000F02F0000000000000000000000000000000000000000000000000000F0AF0000000000000000F02F0000000000000000000000000000000000000000000000000000000000000000000000000000F02F0000F0AF0000F02F0000000000000000F0AF000000000000000000000000000000000000000000000000000000000000000000000000F02F000000000000F02F00000000000000000000F0B3000000000000F03300000000000000000000F0AF0000');

