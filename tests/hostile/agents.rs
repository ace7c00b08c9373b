//! An agent that reads hostile text, and an MCP client that breaks the protocol.
