"""What the terminal's screens use of a repository: its redacted bus, its jobs' files, and commands that run there."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from functools import cached_property
from importlib import import_module

from parley.base.documents.node import DocumentError
from parley.bus.glimpses import Glimpse
from parley.bus.rows import BusError
from parley.bus.sqlite import safe_open
from parley.cli import FAILED, CommandError, home_bus
from parley.cli.common import Workplace, account_name
from parley.cli.looking.ls import look
from parley.cli.looking.need_texts import diff_text, put_forward
from parley.cli.looking.redacted_diffs import RedactedDiffs
from parley.cli.open_bus import RedactedStore, known_secrets
from parley.cli.running.agents_here import agents_here
from parley.cli.running.spawn import program_words, spawn
from parley.cli.shared_home import decisions, job_files, workspaces
from parley.features.secrets.fresh_secrets import FreshSecrets
from parley.machine.checkout_watch import CheckoutWatch
from parley.ports.decisions import Decided, MemoryTrouble
from parley.ports.workspaces import WorkspaceError
from parley.protocol.molecules import job_thread
from parley.views.host_lines import HostLine
from parley.views.job_result import artifacts
from parley.views.questions.gate_view import gate_page
from parley.views.repository_context import CommandEnd, RepositoryContext

RESULTS = "snapshots.git/refs/parley"  # below a job's folder: what was delivered of it
COMMAND_SECONDS = 90.0  # that a command has which a page waits for


def titles_of(places: Sequence[Workplace]) -> list[str]:
    """What repositories are called beside each other: as much of the end of each path as no other one has."""
    found = []
    for place in places:
        parts = place.root.parts
        others = [other.root.parts for other in places if other.root != place.root]
        size = next((size for size in range(1, len(parts)) if parts[-size:] not in (o[-size:] for o in others)), 0)
        found.append("/".join(parts[-size:]) if size else str(place.root))
    return found


def context_of(place: Workplace, title: str = "") -> RepositoryContext:
    """A repository's context. Its bus is opened when it is first looked at."""
    here = _Repository(place)
    made = RepositoryContext(
        home=str(place.home),
        title=title or place.root.name or str(place.root),
        by=account_name(),
        files=job_files(place.home),
        exists=lambda: safe_open.exists(place.home),
        open_store=lambda: RedactedStore(place, secrets=here.secrets),
        glance=here.glance,
        exhibit=lambda need: put_forward(made.store, here.trees, need, here.redact),
        gate=lambda need: gate_page(made.store, need, here.trees, here.redact, remembered=here.remembered),
        diff=lambda job: diff_text(made.store, here.trees, job, here.redact),
        diffs=RedactedDiffs(here.trees, lambda: made.store, lambda: here.redact),
        artifacts=lambda job: artifacts(here.trees.path(job, job_thread(job)), here.redact),
        merged=here.merged,
        redact=here.redact,
        hidden_version=here.hidden_version,
        artifact_text=here.artifact_text,
        artifact_diff=here.artifact_diff,
        command=here.command,
        root=str(place.root),
        checkout_version=here.checkout.version,
        agents=lambda: agents_here(place),
        run_to_end=here.run_to_end,
        program=lambda words: program_words(place, words),
        on_server=here.on_server,
        hosts=here.hosts,
        go_on=lambda job, more: spawn(place, job, place.home / "jobs" / job / "run.log", *more),
    )
    return made


class _Repository:
    """A repository's work trees, and its commands; every text that comes from here is redacted."""

    def __init__(self, place: Workplace) -> None:
        self._place = place
        self.trees = workspaces(place.home, place.root)
        self.checkout = CheckoutWatch(place.root, lambda job: place.home / "jobs" / job / RESULTS)

    @cached_property
    def secrets(self) -> FreshSecrets:
        """What is hidden, the same in all that is shown; read when the first text is."""
        return known_secrets(self._place)

    def redact(self, text: str) -> str:
        """A text without secrets."""
        return self.secrets.redact(text)

    def hidden_version(self) -> int:
        """A number that grows when there is more to hide."""
        return self.secrets.version

    def on_server(self) -> bool:
        """Whether the bus is on a server. Of a home that is refused it is not: what is wrong is said elsewhere."""
        try:
            return home_bus.exists(self._place.home) and home_bus.on_server(self._place.home) is not None
        except BusError:
            return False

    def hosts(self) -> Sequence[HostLine]:
        """The hosts that run turns, without secrets: each has described itself."""
        key = home_bus.on_server(self._place.home)
        if key is None:
            return ()
        try:
            found: list[HostLine] = import_module("parley.cli.looking.home_hosts").hosts_of(key)
        except (CommandError, DocumentError) as error:
            raise BusError(str(error)) from error
        return [replace(host, boundary=self.redact(host.boundary)) for host in found]

    def glance(self) -> list[Glimpse]:
        """Every job, oldest first."""
        try:
            return [seen._replace(request=self.redact(seen.request)) for seen in look(self._place)]
        except CommandError as error:  # it would end a command; a screen shows it, and looks again
            raise BusError(str(error)) from error

    def remembered(self, name: str) -> Decided | None:
        """A decision that the proxy keeps, by its name."""
        try:
            with closing(decisions(self._place.home)) as memory:
                return next(iter(memory.named(name, 1)), None) if memory.exists else None
        except MemoryTrouble:  # its own command says what is wrong with it
            return None

    def merged(self, job: str) -> bool:
        """Whether the user has a job's result."""
        self.checkout.follow(job)
        try:
            return self.trees.is_merged(job)
        except WorkspaceError:  # the repository is gone, or can't be read
            return False

    def artifact_text(self, job: str, question: str, artifact: str, digest: str) -> str | None:
        """A version of an artifact; None if it is not kept."""
        text = self.trees.shown(job, question, artifact, digest)
        return None if text is None else self.redact(text)

    def artifact_diff(self, job: str, artifact: str, before: str, after: str) -> str | None:
        """The diff between two versions of an artifact; None if one is not kept."""
        text = self.trees.since(job, artifact, before, after)
        return None if text is None else self.redact(text)

    def command(self, words: Sequence[str]) -> subprocess.Popen[str]:
        """Start `parley` with these words."""
        return subprocess.Popen(
            program_words(self._place, words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,  # Ctrl-C goes to the watch alone
            env=self._environment(),
        )

    def run_to_end(self, words: Sequence[str], text: str) -> CommandEnd:
        """Run `parley` with these words and this input, for a while at most."""
        try:
            done = subprocess.run(
                program_words(self._place, words),
                input=text,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=COMMAND_SECONDS,
                check=False,
                start_new_session=True,
                env=self._environment(),
            )
        except subprocess.TimeoutExpired:
            return CommandEnd(FAILED, "", f"the command took more than {COMMAND_SECONDS:.0f} seconds, and was ended")
        return CommandEnd(done.returncode, done.stdout, done.stderr)

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "PARLEY_HOME": str(self._place.home)}
