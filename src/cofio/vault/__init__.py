"""The vault: every episode, fact, profile, case and skill as a Markdown file that people can edit."""
