"""What coding agents did and said, taken from their transcripts into the memory of the repository they worked in."""
