"""Commands that look at jobs and their results."""
