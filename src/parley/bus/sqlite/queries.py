"""The statements of the SQLite bus, by name. Light: `parley ls` starts with it."""

from __future__ import annotations

from pathlib import Path

from parley.bus.named_queries import read_queries

QUERIES = read_queries(Path(__file__).with_name("queries.sql"))
