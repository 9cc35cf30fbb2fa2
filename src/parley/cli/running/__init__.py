"""Commands that run jobs, and what they need for it."""
