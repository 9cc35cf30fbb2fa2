"""A turn's place carried by git between the coordinator and a host: packed, pushed, fetched, laid out, and back."""
