"""What people say of themselves that lasts: the table of statements, and the entries that they become."""
