"""Audits that were started from the page: each is a process of its own, and its last verdict is kept."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from parley.base.text import BadText, last_of, read_json
from parley.base.wording import count
from parley.views.repository_context import JobContext
from parley.web.reads.page_commands import PageCommands

AUDIT = "audit"  # what the hub tells of: an audit began or is over
FINDINGS = 50  # that are shown
MOST_AUDITS = 3  # at once: each is a process that replays a whole job
NOTES = 500  # characters of what a failed command says
LONGEST_REPORT = 64 << 20  # characters of what the audit says


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditVerdict:
    """What an audit found."""

    ok: bool
    time: float
    transaction: int  # the last that it covers
    words: str  # what was verified, or why it could not be
    head: str = ""  # of the hash chain
    findings: tuple[str, ...] = ()
    unreported: int = 0  # findings beyond those


@dataclass(frozen=True, slots=True)
class AuditState:
    """How the audit of a job stands."""

    began: float = 0.0  # 0: none is under way
    verdict: AuditVerdict | None = None

    @property
    def runs(self) -> bool:
        """Whether one is under way."""
        return self.began > 0


@dataclass
class AuditRuns:
    """The audits of all jobs, one at a time for each."""

    tell: Callable[[str, str], None]
    commands: PageCommands = field(default_factory=PageCommands)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _states: dict[tuple[str, str], AuditState] = field(default_factory=dict)
    _processes: set[subprocess.Popen[str]] = field(default_factory=set)

    def state(self, key: str, job: str) -> AuditState:
        """How the audit of a job stands."""
        with self._lock:
            return self._states.get((key, job), AuditState())

    def start(self, key: str, at: JobContext) -> bool:
        """Begin one, unless one is under way; False: too many others are."""
        with self._lock:
            before = self._states.get((key, at.id), AuditState())
            if before.runs:
                return True
            if len(self._processes) >= MOST_AUDITS:
                return False
            process = self.commands.start(at.context, ["audit", at.id, "--json"])
            self._processes.add(process)
            self._states[key, at.id] = replace(before, began=time.time())
        threading.Thread(target=self._wait, args=(key, at.id, process), name="audit", daemon=True).start()
        self.tell(key, at.id)
        return True

    def _wait(self, key: str, job: str, process: subprocess.Popen[str]) -> None:
        output, errors = process.communicate()
        self.commands.forget(process)
        verdict = _verdict(output, errors)
        with self._lock:
            self._processes.discard(process)
            self._states[key, job] = AuditState(verdict=verdict)
        self.tell(key, job)


def _verdict(output: str, errors: str) -> AuditVerdict:
    try:
        said: Any = read_json(output, LONGEST_REPORT)
        found = [f"{one['table']} {one['number']}: {one['what']}" for one in said["findings"]]
        words = ", ".join(count(said[name], name[:-1]) for name in ("steps", "messages", "transactions", "transitions"))
        return AuditVerdict(
            ok=bool(said["ok"]),
            time=time.time(),
            transaction=int(said["transactions"]),
            words=f"replayed {words}",
            head=str(said["head"]),
            findings=tuple(found[:FINDINGS]),
            unreported=max(0, len(found) - FINDINGS),
        )
    except (BadText, KeyError, TypeError):
        said = last_of(errors.strip() or output.strip() or "the audit ended without a word", NOTES)
        return AuditVerdict(ok=False, time=time.time(), transaction=0, words=f"it could not be run: {said}")
