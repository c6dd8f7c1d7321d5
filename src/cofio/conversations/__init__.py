"""Conversations: messages are stored at once, and carved into episodes, facts, profiles, cases and skills."""
