"""Parley's own folder, the home: what of it is private, how it is adopted, and how it is cleaned up."""
