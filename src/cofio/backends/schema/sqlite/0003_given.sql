-- Canonical: the vectors that callers gave with their records, which nothing here could make again.
CREATE TABLE given (
    no   INTEGER NOT NULL REFERENCES record (no),
    part TEXT    NOT NULL,             -- which part of the record it is of, in the caller's words
    dims INTEGER NOT NULL,
    data BLOB    NOT NULL,             -- float32, little endian, of any length
    PRIMARY KEY (no, part)
);
