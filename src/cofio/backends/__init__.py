"""Where records live: the interface of a backend, and the backends themselves."""
