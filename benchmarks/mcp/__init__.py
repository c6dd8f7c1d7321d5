"""The MCP door beside agent-memory-store."""
