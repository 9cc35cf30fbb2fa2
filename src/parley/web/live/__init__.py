"""How open pages stay up to date: events, and the parts that they ask for then."""
