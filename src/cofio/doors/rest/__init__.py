"""The REST door: conversations in, episodes, facts, profiles, cases and skills out."""
