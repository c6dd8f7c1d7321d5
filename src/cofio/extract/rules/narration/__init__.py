"""What was said, retold: episodes and facts in the third person, with dates and telling phrases."""
