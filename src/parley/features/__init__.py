"""Features: each hangs on the engine by its hooks, and knows no other feature."""
