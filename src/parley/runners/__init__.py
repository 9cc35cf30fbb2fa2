"""Runners: each carries out the turns of one kind of agent."""
