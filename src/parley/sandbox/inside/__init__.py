"""What runs in a cage before the agent: Landlock, and the attempts to escape. Only the standard library."""
