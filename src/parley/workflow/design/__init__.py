"""The design of a workflow: its checks, role drafts, outline, and binding to its approval."""
