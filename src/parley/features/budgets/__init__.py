"""Budgets: what a job, and all jobs of a day, may use up."""
