"""Settings: `parley.toml` over the user's own, and what a repository's file may not widen by itself."""
