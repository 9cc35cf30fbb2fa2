"""What the server reads once for all visitors, and keeps until it changes."""
