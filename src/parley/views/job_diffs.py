"""What a job or one of its instances has changed, file by file, as a face asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from parley.ports.workspaces import Change
from parley.workspaces.delivery.instance_diff import LAST, WorkVersion


@dataclass(frozen=True, slots=True)
class DiffOf:
    """Whose changes are wanted: of the whole job, or of the workspace of one instance, and which version of it."""

    job: str
    workspace: str = ""  # empty: the job's result, at a gate as it was put forward
    version: str = LAST


class JobDiffs(Protocol):
    """The changes, without secrets. WorkspaceError where there are none to show."""

    def question(self, job: str) -> str:
        """The open question that puts the job's work forward; empty: none does, and the work is shown as it is now."""

    def versions(self, of: DiffOf) -> Sequence[WorkVersion]:
        """The versions of a workspace that are kept."""

    def changes(self, of: DiffOf) -> Sequence[Change]:
        """What was changed."""

    def file_diff(self, of: DiffOf, path: str, *, spaces: bool = True) -> str:
        """The diff of one file, bounded; with or without changes of white space alone."""
