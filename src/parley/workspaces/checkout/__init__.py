"""The user's own repository: where a job starts from, read and written with their git and their settings."""
