"""The proxy and its memory, as they hang on the engine."""

from __future__ import annotations

from collections.abc import Iterable

from parley.bus.rows import MessageRow
from parley.engine import protocol_messages
from parley.engine.hooks import Feature, Guest
from parley.engine.owned_job import OwnedJob
from parley.engine.turn.running_turn import Turn
from parley.engine.turn.stages import AnsweredQuestion, Gate, Start
from parley.engine.world import World
from parley.features.proxy import answering, remembering, tools
from parley.features.proxy.remembering import EXCERPT, Remember
from parley.ports.decisions import Decided
from parley.protocol.molecules import Proxy

RETRY_SECONDS = 1.0  # between two tries to write to a memory that can't be written to


class ProxyFeature(Feature):
    """Lets the proxy speak for the human, and remembers what the human decides."""

    def __init__(self, world: World) -> None:
        super().__init__(effects={Remember: _perform})
        self._world = world

    def guests(self, job: OwnedJob) -> Iterable[Guest]:
        """Every job has a proxy."""
        return (ProxyGuest(self._world),)


class ProxyGuest(Guest):
    """The proxy of one job."""

    tools = tools.TOOLS

    def __init__(self, world: World) -> None:
        self._world = world
        self.trouble = ""  # why the memory can't be used, if it can't
        self.tried = 0.0  # when it was last tried in vain, by a clock that is never set

    def note(self, trouble: str) -> None:
        """The memory can't be used for now."""
        self.trouble = trouble

    def brief_proxy(self, job: OwnedJob, start: Start) -> None:
        """What the proxy is told behind its question."""
        start.briefing = answering.briefing(job, self._world, start.turn, self.note)

    def proxy_ended(self, job: OwnedJob, turn: Turn, question: str) -> bool:
        """What the proxy said takes effect, if it said anything."""
        return answering.settle(job, self._world, turn, question, self.note)

    def question_remark(self, job: OwnedJob, proxy: Proxy) -> str:
        """The human is told where what they say can't be remembered for now."""
        return f"What you say can't be remembered for now: {self.trouble}." if self.trouble else ""

    def describe_gate(self, job: OwnedJob, gate: Gate) -> None:
        """How the artifact begins, by which a question like it is recognised later."""
        if remembering.in_use(job):
            beginning = self._world.workspace.beginning(job.id, gate.tree, gate.artifact, EXCERPT)
            gate.excerpt = protocol_messages.fit(beginning)

    def proxy_answered(self, job: OwnedJob, asked: MessageRow, answer: MessageRow) -> None:
        """The proxy has answered by itself."""
        _remember(job, remembering.answered(job, asked, answer))

    def human_answered(self, job: OwnedJob, answer: AnsweredQuestion) -> None:
        """The human has answered."""
        _remember(job, remembering.replied(job, answer))

    def restored(self, job: OwnedJob) -> None:
        """What the last commit decided is remembered again."""
        for made in remembering.last_decided(job, self._world):
            _remember(job, made)


def _perform(job: OwnedJob, world: World, effect: Remember) -> bool:
    """Keep a decision; a memory that can't be written to is tried again with a later commit."""
    guest, now = job.guests.find(ProxyGuest), world.clock.monotonic()
    if guest is None:
        return True
    if guest.trouble and now - guest.tried < RETRY_SECONDS:
        return False
    guest.trouble, guest.tried = remembering.remember(world, effect.decided), now
    return not guest.trouble


def _remember(job: OwnedJob, made: Decided | None) -> None:
    if made is not None:
        job.ask(Remember(made))
