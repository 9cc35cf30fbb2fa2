"""What the terminal's screens use of a repository: its redacted bus, its jobs' files, and commands that run there."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from functools import cache

from parley.bus.sqlite import safe_open
from parley.bus.sqlite.quick_read import Glimpse
from parley.cli.common import Workplace, account_name
from parley.cli.looking.ls import look
from parley.cli.looking.need_texts import diff_text, put_forward
from parley.cli.open_bus import RedactedStore, known_secrets
from parley.cli.running.spawn import program_words, spawn
from parley.machine.job_files import JobFiles
from parley.ports.workspaces import WorkspaceError
from parley.protocol.molecules import job_thread
from parley.tui import WatchContext
from parley.views.job_result import artifacts
from parley.workspaces import JobWorkspaces


def titles_of(places: Sequence[Workplace]) -> list[str]:
    """What repositories are called beside each other: as much of the end of each path as no other one has."""
    found = []
    for place in places:
        parts = place.root.parts
        others = [other.root.parts for other in places if other.root != place.root]
        size = next((size for size in range(1, len(parts)) if parts[-size:] not in (o[-size:] for o in others)), 0)
        found.append("/".join(parts[-size:]) if size else str(place.root))
    return found


def context_of(place: Workplace, title: str = "") -> WatchContext:
    """A repository's context. Its bus is opened when it is first looked at."""
    trees = JobWorkspaces(place.home, place.root)

    @cache
    def redact() -> Callable[[str], str]:
        return known_secrets(place).redact

    def merged(job: str) -> bool:
        try:
            return trees.is_merged(job)
        except WorkspaceError:  # the repository is gone, or can't be read
            return False

    def glance() -> list[Glimpse]:
        return [seen._replace(request=redact()(seen.request)) for seen in look(place)]

    def command(words: Sequence[str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            program_words(place, words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,  # Ctrl-C goes to the watch alone
            env={**os.environ, "PARLEY_HOME": str(place.home)},
        )

    made = WatchContext(
        home=str(place.home),
        title=title or place.root.name or str(place.root),
        by=account_name(),
        files=JobFiles(place.home),
        exists=lambda: safe_open.exists(place.home),
        open_store=lambda: RedactedStore(place),
        glance=glance,
        exhibit=lambda need: put_forward(made.store, trees, need, redact()),
        diff=lambda job: diff_text(made.store, trees, job, redact()),
        artifacts=lambda job: artifacts(trees.path(job, job_thread(job)), redact()),
        merged=merged,
        command=command,
        program=lambda words: program_words(place, words),
        go_on=lambda job, more: spawn(place, job, place.home / "jobs" / job / "run.log", *more),
    )
    return made
