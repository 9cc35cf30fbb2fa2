"""Any program as an agent: it gets the message, works in its cage, and calls the protocol's tools from there.

`runner` is what the engine uses, `agents` what parley.toml says, `hatch` where the calls come out of the cage;
`bridge` and `caller` run inside it, on the bare interpreter, and so does `tools`.
"""
