"""The page for people: what is remembered, why it was found, and how to correct it, in the browser."""
