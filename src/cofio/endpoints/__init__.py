"""How a model behind an OpenAI-compatible endpoint is asked, for chat and for embeddings alike."""
