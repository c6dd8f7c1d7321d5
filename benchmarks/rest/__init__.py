"""The REST door beside EverOS."""
