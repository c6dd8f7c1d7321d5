"""The prompts: one Markdown file for each task, and how they are loaded."""
