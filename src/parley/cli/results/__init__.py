"""Commands that take a job's result: look at it, merge it, open a pull request."""
