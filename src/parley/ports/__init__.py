"""The contracts between the engine and the world. Adapters implement them; the engine knows nothing else."""
