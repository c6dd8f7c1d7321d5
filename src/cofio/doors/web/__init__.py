"""The HTTP server that every door with an address stands behind."""
