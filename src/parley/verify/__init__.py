"""What is checked about the protocol: what holds of every soup, of every step, and of every soup within bounds.

Nothing here is the protocol itself, and none of the rules' code is used to judge them. `invariants` look at a soup,
`laws` (with `gate_laws` and `bound_laws`) at a `step`; the `explorer` visits every soup that choices from the
`exploration_menu` reach, and checks both.
"""
