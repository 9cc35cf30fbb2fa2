"""Commands that start work: from a request, from a finished job's result, or as a demo."""
