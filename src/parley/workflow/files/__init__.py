"""The files of a workflow: each module reads and writes one format, and reports findings."""
