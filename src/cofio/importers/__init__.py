"""Readers of what other programs have stored."""
