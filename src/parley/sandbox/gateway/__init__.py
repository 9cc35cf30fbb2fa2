"""The one way out of a cage: the gateway, the upstream behind it, and what is done when that fails."""
