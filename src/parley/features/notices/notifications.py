"""Notifications: the human is told when something starts to need them, and when a job has ended, each once.

What is told is short and holds nothing of an agent's but the beginning of its words, in which nothing works: no link,
no mention, no markup, no control character.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from parley.base.text import inert
from parley.bus.rows import JobRow
from parley.engine.hooks import Feature, Guest
from parley.engine.outbox import Notify
from parley.engine.owned_job import OwnedJob
from parley.engine.world import NoNotices, World
from parley.ports.notices import DONE, Notice
from parley.protocol.molecules import AskHuman, Hold, Interrupt

NoticesOf = Callable[[JobRow, Callable[[str], str]], Iterable[Notice]]
"""All that needs the human in a job, as the bus has it; what is given takes all that works out of another's words."""


class Notifications(Feature):
    """Tells the human wherever they are. It reads the bus only when something has changed that could need them."""

    def __init__(self, world: World, notices_of: NoticesOf) -> None:
        super().__init__()
        self._world = world
        self._notices_of = notices_of

    def guests(self, job: OwnedJob) -> Iterable[Guest]:
        """No job has one where the user has named no service."""
        return (
            ()
            if isinstance(self._world.notices, NoNotices)
            else (NotificationGuest(self._world.secrets.redact, self._notices_of),)
        )


class NotificationGuest(Guest):
    """Looks at one job for what needs the human."""

    def __init__(self, redact: Callable[[str], str], notices_of: NoticesOf) -> None:
        self._redact = redact
        self._notices_of = notices_of
        self._seen: frozenset[object] = frozenset()

    def tick(self, job: OwnedJob) -> bool:
        """Tell of what has come up since the last look. All that the soup holds is committed."""
        now = frozenset[object]((*job.soup.of(AskHuman), *job.soup.of(Hold), *job.soup.of(Interrupt)))
        if now != self._seen:
            self._seen = now
            self._tell(job)
        return False

    def job_released(self, job: OwnedJob) -> None:
        """Tell that a job has come to its end."""
        if job.record.live:
            return
        self._tell(job)
        text = f"job {job.id}: {self._inert(job.row.request)}\nparley show {job.id}"
        job.ask(Notify(id=f"{job.id}.ended", occasion=DONE, title=f"{job.record.state}: {job.id}", text=text))

    def _tell(self, job: OwnedJob) -> None:
        for one in self._notices_of(job.row, self._inert):
            job.ask(Notify(id=one.id, occasion=one.occasion, title=one.title, text=one.text, about=one.about))

    def _inert(self, text: str) -> str:
        return inert(self._redact(text))
