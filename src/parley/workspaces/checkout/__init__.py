"""The user's own repository: where a job starts from, and where its result goes."""
