"""How coding agents keep their transcripts: where they are, and what a line of each says."""
