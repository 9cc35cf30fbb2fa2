"""The bus as one SQLite file: its schema, how it is opened, read and written."""
