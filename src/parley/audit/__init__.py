"""The audit: a job replayed from its rows, and everything else compared with that."""
