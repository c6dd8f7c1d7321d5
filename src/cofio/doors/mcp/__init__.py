"""The MCP door: seven tools over the memory, the same on stdin and stdout as over HTTP."""
