"""What hooks are worth to a coding agent, and what they cost it."""
