"""How messages become memory: the Extractor protocol, profiles, and the rules that need no model."""
