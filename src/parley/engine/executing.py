"""The workflow executor: an agent of the soup whose turns are this code."""

from __future__ import annotations

from parley.engine.code_agent import CodeAgent


class Executor(CodeAgent):
    """One turn of the workflow executor."""

    def run(self) -> None:
        """It has nothing to do yet."""
        self.end(self.report("[WORKFLOW] nothing was run."))
