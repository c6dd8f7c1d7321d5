"""The HTTP server: one function that builds the application, and the processes that run it."""
