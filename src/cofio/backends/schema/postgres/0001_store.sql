-- Canonical: scope, record, record_id, given. Derived: posting, scope_size, embedder, vector, unembedded.
-- Every table but `scope` begins its keys with the scope, or the id, so that it can be partitioned by it. No row is
-- changed by every writer, and no foreign key locks one that all have in common.
-- Times are microseconds since 1970 UTC. What begins with @ is in the store's own schema.

CREATE TABLE @state (
    one    boolean PRIMARY KEY DEFAULT true CHECK (one),
    store  text    NOT NULL DEFAULT replace(gen_random_uuid()::text, '-', ''),  -- tells this store from all others
    schema integer NOT NULL,
    needs  integer NOT NULL,                    -- a cofio that does not know this step may not use the store
    fault  text    NOT NULL DEFAULT '',         -- why background work last failed
    copy   text                                 -- whose copy it is to be, and by which process, until it is whole
);

-- What all processes on the store have in common: digests of tokens, settings.
CREATE TABLE @shared (
    name  text COLLATE "C" PRIMARY KEY,
    value text NOT NULL
);

CREATE SEQUENCE @change;                        -- numbers every change; one that comes late has a lower number

-- The time of the newest change and how many there were, by slots, of which each writer takes one that no other has: the
-- store's time is the latest of them.
CREATE TABLE @moment (
    slot    integer  PRIMARY KEY,
    at      bigint   NOT NULL,
    changes bigint   NOT NULL
) WITH (fillfactor = 10);

-- What each transaction that writes leaves for an hour: whether it was committed, if its connection is lost just then.
CREATE TABLE @commit_mark (
    at      bigint  NOT NULL,                   -- when it began, by the server's clock
    token   bigint  NOT NULL,                   -- chosen at random
    is_void boolean NOT NULL DEFAULT false,     -- left by one who asked, so that it cannot be committed any more
    PRIMARY KEY (at, token)
);

CREATE TABLE @scope (
    no     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    digest bytea  NOT NULL UNIQUE,              -- of the path, which may be too long for an index
    path   bytea  NOT NULL,                     -- each name followed by NUL
    start  bytea  NOT NULL GENERATED ALWAYS AS (substring(path FROM 1 FOR 800)) STORED
);
CREATE INDEX scope_start ON @scope (start);     -- of a column: an expression would be of no use under row security

CREATE TABLE @record (
    scope      bigint  NOT NULL,
    no         bigint  NOT NULL,                -- the change of its first write
    id         text    COLLATE "C" NOT NULL,
    kind       text    COLLATE "C" NOT NULL,
    key        text    COLLATE "C",
    key_digest bytea,                           -- of the key, which may be too long for an index
    seq        bigint  NOT NULL,                -- its last change
    text_seq   bigint  NOT NULL,                -- the last change of what its vector is made of
    words      integer NOT NULL,                -- how many words it is found by
    terms      bigint[] NOT NULL,               -- the words that it is found by, as in `posting`
    digest     bytea   NOT NULL,                -- equal for equal text
    parent     text    COLLATE "C",
    position   bigint,
    author     text    COLLATE "C" NOT NULL,
    created_at bigint  NOT NULL,
    updated_at bigint  NOT NULL,
    expires_at bigint,
    version    bigint  NOT NULL,
    importance text    COLLATE "C" NOT NULL,
    source     text    COLLATE "C" NOT NULL,
    tags       text    NOT NULL,                -- JSON
    folded     text[]  COLLATE "C" NOT NULL,    -- the tags, without regard to case
    title      text    COLLATE "C" NOT NULL,
    data       text    NOT NULL,                -- JSON, as it was given
    fields     jsonb,                           -- the same for filters
    text       text    NOT NULL,
    PRIMARY KEY (scope, no)
);
CREATE UNIQUE INDEX record_key ON @record (scope, kind, key_digest) WHERE key IS NOT NULL;
CREATE INDEX record_key_order ON @record (scope, kind, left(key, 200)) WHERE key IS NOT NULL;
CREATE INDEX record_scope ON @record (scope, seq);
CREATE INDEX record_digest ON @record (scope, digest);
CREATE INDEX record_parent ON @record (scope, parent, position) WHERE parent IS NOT NULL;
CREATE INDEX record_expiry ON @record (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX record_seq ON @record (seq);

-- Where the record with an id is.
CREATE TABLE @record_id (
    id    text   COLLATE "C" PRIMARY KEY,
    scope bigint NOT NULL,
    no    bigint NOT NULL
);

-- How often a record holds a word. The word is a number, of its digest.
CREATE TABLE @posting (
    scope bigint   NOT NULL,
    term  bigint   NOT NULL,
    no    bigint   NOT NULL,
    words integer  NOT NULL,                    -- how many words the record has
    count smallint NOT NULL,
    PRIMARY KEY (scope, term, no) INCLUDE (words, count)
);

-- How many records and words a scope has: the sum of its slots, of which each writer takes one that no other has.
CREATE TABLE @scope_size (
    scope   bigint   NOT NULL,
    slot    integer  NOT NULL,
    records bigint   NOT NULL,
    words   bigint   NOT NULL,
    PRIMARY KEY (scope, slot)
) WITH (fillfactor = 50);

-- The vectors that callers gave with their records.
CREATE TABLE @given (
    scope bigint  NOT NULL,
    no    bigint  NOT NULL,
    place integer NOT NULL,
    part  text    COLLATE "C" NOT NULL,         -- which part of the record it is of, in the caller's words
    dims  integer NOT NULL,
    data  bytea   NOT NULL,                     -- float32, little endian
    PRIMARY KEY (scope, no, place)
);

CREATE TABLE @embedder (
    no         integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       text    COLLATE "C" NOT NULL UNIQUE,
    dimensions integer NOT NULL DEFAULT 0,
    since      xid8,                            -- every transaction that began before it was known has a lower number
    filled     boolean NOT NULL DEFAULT false,  -- whether all records are in `unembedded` that were there before it was
    breadth    integer,                         -- how wide a search of the index must be; 0 where none is wide enough
    vectors    bigint  NOT NULL DEFAULT 0       -- how many there were when that was measured
);

CREATE TABLE @vector (
    scope    bigint  NOT NULL,
    embedder integer NOT NULL,
    no       bigint  NOT NULL,
    data     @@halfvec NOT NULL,                -- of the present text: it goes when the text is changed
    PRIMARY KEY (scope, no, embedder)
);

-- The records that need a vector, and until when another has them to itself.
CREATE TABLE @unembedded (
    scope    bigint  NOT NULL,
    embedder integer NOT NULL,
    no       bigint  NOT NULL,
    seq      bigint  NOT NULL,
    claim    text,
    until    timestamptz,
    PRIMARY KEY (scope, no, embedder)
);
CREATE INDEX unembedded_order ON @unembedded (embedder, seq);

-- Canonical: thread, checkpoint, pending. Derived: checkpoint_word.

CREATE TABLE @thread (
    no    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    digest bytea NOT NULL UNIQUE,               -- of space, name and ns, which may be too long for an index
    space text   COLLATE "C" NOT NULL,          -- whose threads: "library", "langgraph"
    name  text   COLLATE "C" NOT NULL,
    ns    text   COLLATE "C" NOT NULL           -- a part of the thread with checkpoints of its own, as a subgraph has
);
CREATE INDEX thread_name ON @thread (left(space, 100), left(name, 200));

CREATE SEQUENCE @save;                          -- a number stands for one state, for ever

CREATE TABLE @checkpoint (
    thread     bigint NOT NULL,
    no         bigint NOT NULL,
    id         text   COLLATE "C" NOT NULL,
    id_digest  bytea  NOT NULL,
    parent     text   COLLATE "C",              -- the id of the checkpoint that the thread went on from
    base       bigint,                          -- what the body is a change of; NULL when it is the whole state
    depth      integer NOT NULL,                -- how many changes lead to it from a whole state, at most
    place      integer NOT NULL,                -- counts the saves since a whole one
    created_at bigint NOT NULL,
    expires_at bigint,
    metadata   text   NOT NULL,                 -- JSON
    body       bytea  NOT NULL,
    is_indexed boolean NOT NULL DEFAULT false,  -- whether its words are in checkpoint_word
    PRIMARY KEY (thread, no)
);
CREATE UNIQUE INDEX checkpoint_id ON @checkpoint (thread, id_digest);
CREATE INDEX checkpoint_order ON @checkpoint (thread, left(id, 200));
CREATE INDEX checkpoint_no ON @checkpoint (no);
CREATE INDEX checkpoint_base ON @checkpoint (base) WHERE base IS NOT NULL;
CREATE INDEX checkpoint_unindexed ON @checkpoint (no) WHERE NOT is_indexed;
CREATE INDEX checkpoint_expiry ON @checkpoint (expires_at) WHERE expires_at IS NOT NULL;
ALTER TABLE @checkpoint ALTER COLUMN body SET STORAGE EXTERNAL;  -- it is compressed already

-- What the tasks of a step have written, before the step's checkpoint is there.
CREATE TABLE @pending (
    thread  bigint NOT NULL,
    digest  bytea  NOT NULL,                    -- of id, task and at
    id      text   COLLATE "C" NOT NULL,        -- of the checkpoint that the step goes on from
    task    text   COLLATE "C" NOT NULL,
    at      bigint NOT NULL,
    path    text   COLLATE "C" NOT NULL,
    channel text   COLLATE "C" NOT NULL,
    type    text   COLLATE "C" NOT NULL,
    value   bytea  NOT NULL,
    PRIMARY KEY (thread, digest)
);

-- The words that each checkpoint brought, for the searches of its space.
CREATE TABLE @checkpoint_word (
    thread bigint NOT NULL,
    no     bigint NOT NULL,
    term   bigint NOT NULL,
    PRIMARY KEY (thread, no, term)
);
CREATE INDEX checkpoint_word_term ON @checkpoint_word (term, thread, no);

-- Row-level security, which the setting row_security turns on. A transaction says in cofio.scopes what it may see: * for
-- all, or the paths of scopes in hex with commas between. One that says nothing sees nothing.

CREATE POLICY reach ON @scope USING (
    (SELECT current_setting('cofio.scopes', true)) = '*' OR EXISTS (
        SELECT FROM unnest(string_to_array(current_setting('cofio.scopes', true), ',')) AS prefix
        WHERE path >= decode(prefix, 'hex') AND path < decode(prefix, 'hex') || decode('ff', 'hex')
    )
);
CREATE POLICY reach ON @record USING (
    (SELECT current_setting('cofio.scopes', true)) = '*' OR EXISTS (SELECT FROM @scope s WHERE s.no = record.scope)
);
CREATE POLICY reach ON @record_id USING (
    (SELECT current_setting('cofio.scopes', true)) = '*' OR EXISTS (SELECT FROM @scope s WHERE s.no = record_id.scope)
);
CREATE POLICY reach ON @posting USING (
    (SELECT current_setting('cofio.scopes', true)) = '*' OR EXISTS (SELECT FROM @scope s WHERE s.no = posting.scope)
);
CREATE POLICY reach ON @scope_size USING (
    (SELECT current_setting('cofio.scopes', true)) = '*' OR EXISTS (SELECT FROM @scope s WHERE s.no = scope_size.scope)
);
CREATE POLICY reach ON @given USING (
    (SELECT current_setting('cofio.scopes', true)) = '*' OR EXISTS (SELECT FROM @scope s WHERE s.no = given.scope)
);
CREATE POLICY reach ON @vector USING (
    (SELECT current_setting('cofio.scopes', true)) = '*' OR EXISTS (SELECT FROM @scope s WHERE s.no = vector.scope)
);
CREATE POLICY reach ON @unembedded USING (
    (SELECT current_setting('cofio.scopes', true)) = '*' OR EXISTS (SELECT FROM @scope s WHERE s.no = unembedded.scope)
);
-- Threads belong to no scope.
CREATE POLICY reach ON @thread USING ((SELECT current_setting('cofio.scopes', true)) = '*');
CREATE POLICY reach ON @checkpoint USING ((SELECT current_setting('cofio.scopes', true)) = '*');
CREATE POLICY reach ON @pending USING ((SELECT current_setting('cofio.scopes', true)) = '*');
CREATE POLICY reach ON @checkpoint_word USING ((SELECT current_setting('cofio.scopes', true)) = '*');
