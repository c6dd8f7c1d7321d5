"""What looks like a secret in a text, and what each door does with one."""
