-- compatible: a server that does not know of them stores vectors without, and others make them later.
-- Derived: what texts are compared by word by word.
ALTER TABLE @vector ADD COLUMN token_codes bytea;  -- as embed/token_codes.py makes them, NULL where they are not made yet

-- Which process makes those that are missing, and until when others leave that to it.
ALTER TABLE @embedder ADD COLUMN coder text;
ALTER TABLE @embedder ADD COLUMN coder_until timestamptz
