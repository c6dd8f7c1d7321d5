-- Derived: what texts are compared by word by word. It is given with the first codes, so that a store without any stays
-- open to programs that know no more than schema 4.
ALTER TABLE vector ADD COLUMN token_codes BLOB;  -- as embed/token_codes.py makes them; NULL where they are not made yet
CREATE INDEX vector_uncoded ON vector (embedder, no) WHERE token_codes IS NULL;
