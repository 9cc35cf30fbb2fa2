"""A job's files that people and programs read: state records, streams, outcomes. All are made from the bus."""
