"""Pure functions over text: words, suggestions, and records as lines of JSON."""
