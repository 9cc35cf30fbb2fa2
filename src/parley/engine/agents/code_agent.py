"""An agent of the soup whose turns are code and take no time: how such a turn reads, speaks and ends.

A turn is woken by a message like any other's, and ends in the transaction that began it: with a Send, with
questions, or with nothing. So no turn of code is ever lost, and what it decides follows from the bus alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from msgspec import Raw, Struct
from msgspec.structs import replace

from parley.base.json_codec import encode
from parley.base.options import Menu
from parley.base.quoting import quoted
from parley.bus.slots import tree_slot
from parley.engine import protocol_messages
from parley.engine.owned_job import OwnedJob
from parley.engine.reduction import message, pose
from parley.engine.turn.finish import drain
from parley.engine.turn.stages import Gate
from parley.engine.values import message_meta
from parley.engine.values.message_meta import Meta, Posed
from parley.engine.values.step_extra import NO_FEATURE, StepExtra
from parley.engine.world import World
from parley.protocol.conversation import enclosing, letter_kind
from parley.protocol.molecules import (
    PROXY,
    Close,
    Deliver,
    MessageKind,
    Payload,
    Question,
    Surface,
    dispatch_thread,
    escalation_thread,
)
from parley.protocol.rule import Asking, Broadcast
from parley.roles.role_snapshot import RoleSnapshot


class CodeAgent(ABC):
    """One turn of such an agent. `run` deals with the message that woke it, and must end the turn once."""

    def __init__(self, job: OwnedJob, world: World, turn: str, name: str, agent: str, thread: str) -> None:
        self.job = job
        self.world = world
        self.turn = turn
        self.agent = agent
        self.thread = thread
        self.row = message(job, world, name)
        self.meta = message_meta.read(self.row)
        self.now = world.clock.now()
        self.letters = 0
        self.opened: set[str] = set()  # the conversations that its letters have opened

    @abstractmethod
    def run(self) -> None:
        """Deal with the message."""

    # ---- how its turn ends -------------------------------------------------------------------

    def rest(self, extra: StepExtra | None = None) -> None:
        """End the turn with nothing to say."""
        self.fire("nosend-step", self.agent, self.thread, extra=extra)

    def send(
        self, payloads: Sequence[Payload], questions: Sequence[Question] = (), extra: StepExtra | None = None
    ) -> None:
        """End the turn with a Send, and with questions if there are any."""
        chosen = Broadcast(tuple(payloads), tuple(questions))
        self.fire("send-step", self.agent, self.thread, choice=chosen, extra=extra)
        drain(self.job, self.world, self.agent, self.thread, self.now)

    def ask(self, questions: Sequence[Question], extra: StepExtra | None = None) -> None:
        """End the turn with questions."""
        self.fire("ask-step", self.agent, self.thread, choice=Asking(tuple(questions)), extra=extra)
        pose(self.job, self.world, "ask", self.agent, self.thread, self.now)

    def end(
        self, payloads: Sequence[Payload], questions: Sequence[Question] = (), extra: StepExtra | None = None
    ) -> None:
        """End the turn in the way that fits what is to be said."""
        if payloads:
            self.send(payloads, questions, extra)
        elif questions:
            self.ask(questions, extra)
        else:
            self.rest(extra)

    # ---- what it may do meanwhile ------------------------------------------------------------

    def fire(self, rule: str, *at: str, choice: Any = None, who: str = "", extra: StepExtra | None = None) -> None:
        """Fire a rule in the agent's name."""
        self.job.fire(rule, *at, choice=choice, who=who or self.agent, time=self.now, extra=extra)

    def letter(
        self,
        agent: str,
        thread: str,
        body: str,
        meta: Meta | None = None,
        *,
        kind: MessageKind | None = None,
        alone: bool = False,
    ) -> Deliver:
        """A message, written and ready to be sent; `kind`, where it is no letter but a question or an intervention."""
        self.letters += 1
        if kind is None:
            kind = letter_kind(self.job.soup, self.agent, self.thread, thread, self.opened)
            self.opened.add(thread)
        name = self.job.write(
            (self.agent, self.thread),
            (agent, thread),
            body,
            kind=kind,
            key=f"{self.turn}/{self.letters}",
            time=self.now,
            meta=meta,
            alone=alone,
        )
        return Deliver(agent, thread, name)

    def question(self, body: str, asked: Question, menu: Menu, gate: Gate | None = None, draft: str = "") -> Question:
        """A question to the human, which the proxy deals with like any agent's; its answer comes as a message.

        `gate`: what it asserts; `draft`: what the proxy is told of an artifact that holds nowhere yet.
        """
        record = enclosing(self.job.soup, self.thread)
        meta = Posed(
            question=asked.id,
            text=quoted(body),
            state=str(record.state if record.live else record.history[-1].state),
            kind=asked.kind,
            artifact=asked.artifact,
            digest=asked.digest,
            excerpt=gate.excerpt if gate is not None else "",
            outline=gate.outline if gate is not None else (),
            draft=draft,
            menu=menu,
        )
        words, kind = protocol_messages.question(record, asked, body), MessageKind.QUESTION
        letter = self.letter(PROXY, escalation_thread(asked.id), words, meta, kind=kind)
        return replace(asked, message=letter.message, key="" if asked.artifact else protocol_messages.key_of(body))

    def open(self) -> str:
        """The name of a new conversation."""
        return dispatch_thread(self.world.ids.new())

    def close(self, thread: str) -> Close:
        """The end of a conversation that it opened."""
        return Close(thread)

    def dispatcher(self) -> Surface | None:
        """Who dispatched it."""
        parent = self.job.soup.parent(self.thread)
        return self.job.soup.get(Surface, parent) if parent else None

    def report(self, body: str) -> list[Deliver]:
        """A message to its dispatcher, if that is there to read it."""
        above = self.dispatcher()
        return [self.letter(above.agent, above.thread, body)] if above is not None else []

    def enrol(self, roles: Sequence[RoleSnapshot], agent: str = "", thread: str = "") -> None:
        """[enrol]: roles in full, with `bus`, the protocol's tools of each, join a team: its own, or one below it."""
        self.job.enrol(agent or self.agent, thread or self.thread, roles, self.now)

    # ---- its workspace -----------------------------------------------------------------------

    @property
    def workspace(self) -> str:
        """The name of its own workspace."""
        return self.job.soup.need(Surface, self.thread, self.agent).workspace

    def keep_tree(self) -> str:
        """Commit its workspace as it is now; the tree, for the extra of the step that ends the turn."""
        said = f"{self.agent} on {self.thread}, turn {self.turn} of job {self.job.id}\n\n{self.job.witness()}"
        tree = self.world.workspace.snapshot(self.job.id, self.workspace, said).tree
        if tree:
            self.job.keep(tree_slot(self.workspace), tree)
        return tree

    def extra(self, tree: str = "", left: Struct | None = None) -> StepExtra:
        """What the step that ends the turn tells: its turn, its tree, and what the agent's feature left."""
        feature = Raw(encode(left).encode()) if left is not None else NO_FEATURE
        return StepExtra(turn=self.turn, tree=tree, feature=feature)
