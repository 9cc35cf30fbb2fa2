"""Agents whose turns are code."""
