"""The ways into the memory: each door speaks one protocol and calls the engine's verbs."""
