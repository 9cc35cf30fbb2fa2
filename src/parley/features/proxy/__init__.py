"""The proxy: what it is told, whether its answer stands, and what is remembered of the human."""
