"""The bus: rows, the hash chain over them, the contract of a store, and the stores."""
