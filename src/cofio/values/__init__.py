"""The nouns that cross every layer: records and scopes, queries and hits, changes, errors. They check themselves."""
