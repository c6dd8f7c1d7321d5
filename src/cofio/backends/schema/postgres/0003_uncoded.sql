-- compatible
-- concurrent
CREATE INDEX CONCURRENTLY vector_uncoded ON @vector (embedder) WHERE token_codes IS NULL
