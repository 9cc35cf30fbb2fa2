"""Any program as an agent: it gets the message, works in its cage, and calls the protocol's tools from there.

The engine uses `command_runner`; `configured_agents` reads parley.toml; `tool_socket` takes the calls from the cage.
`mcp_bridge`, `tool_caller` and `tool_schemas` run inside it, on the bare interpreter.
"""
