"""The bus on a PostgreSQL server: its schema, how it is reached, read and written. Imported only where one is used."""
