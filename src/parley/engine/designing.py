"""The architecture group: an agent of the soup whose turns are this code."""

from __future__ import annotations

from parley.engine.code_agent import CodeAgent


class Group(CodeAgent):
    """One turn of the architecture group."""

    def run(self) -> None:
        """It has nothing to do yet."""
        self.end(self.report("[DESIGN] nothing was designed."))
