"""Draws what templates can't say in a few lines: Markdown as safe HTML, charts and graphs as SVG."""
