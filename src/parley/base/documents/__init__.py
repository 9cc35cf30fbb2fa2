"""One reader for YAML, TOML and JSON: text in, a tree out in which every value knows its line and column."""
