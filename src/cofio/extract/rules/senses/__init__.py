"""What a sentence is, by its words: knowledge of its speaker, an instruction, news of the world, or noise."""
