"""Reads conversations that other programs have stored: OpenAI's messages, ChatGPT's exports, and plain text."""
