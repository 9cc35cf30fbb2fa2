"""Reads a workflow's files, and collects all that is wrong with one as findings."""

from __future__ import annotations

from typing import Self

from parley.base.documents.node import DocumentError
from parley.base.documents.reader import Reader
from parley.workflow.model.terms import Finding

MOST_FINDINGS = 100  # in one file; an author who has so many corrects these first


class FindingReader(Reader):
    """Collects what is wrong; a harmless value stands in for what could not be read."""

    def __init__(self, agent: str = "", findings: list[Finding] | None = None) -> None:
        self.agent = agent
        self.findings: list[Finding] = [] if findings is None else findings

    def about(self, agent: str) -> Self:
        """A reader of what is said of one agent; it collects in the same list."""
        return type(self)(agent, self.findings)

    @property
    def full(self) -> bool:
        """Whether there are as many findings as are told."""
        return len(self.findings) >= MOST_FINDINGS

    def report(self, error: DocumentError) -> None:
        """Collect an error."""
        if not self.full:
            self.findings.append(finding_of(error, self.agent))


def finding_of(error: DocumentError, agent: str = "", rule: str = "") -> Finding:
    """An error as a finding."""
    return Finding(
        file=error.place.file,
        line=error.place.line,
        agent=agent,
        rule=rule or error.rule,
        text=error.problem,
        remedy=error.remedy,
    )
