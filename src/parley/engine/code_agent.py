"""An agent of the soup whose turns are code and take no time: how such a turn reads, speaks and ends.

A turn is woken by a message like any other's, and ends in the transaction that began it: with a Send, with
questions, or with nothing. So no turn of code is ever lost, and what it decides follows from the bus alone.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from parley.core.conversation import enclosing, letter_kind
from parley.core.rule import Asking, Broadcast
from parley.core.terms import (
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
from parley.engine import texts
from parley.engine.live import LiveJob
from parley.engine.names import tree_slot
from parley.engine.records import dumps
from parley.engine.reduce import drain, message, pose
from parley.engine.world import World


class CodeAgent(ABC):
    """One turn of such an agent. `run` deals with the message that woke it, and must end the turn once."""

    def __init__(self, live: LiveJob, world: World, turn: str, name: str, agent: str, thread: str) -> None:
        self.live = live
        self.world = world
        self.turn = turn
        self.agent = agent
        self.thread = thread
        self.row = message(live, world, name)
        self.meta: dict[str, Any] = json.loads(self.row.meta) if self.row.meta else {}
        self.now = world.clock.now()
        self.letters = 0
        self.opened: set[str] = set()  # the conversations that its letters have opened

    @abstractmethod
    def run(self) -> None:
        """Deal with the message."""

    # ---- how its turn ends -------------------------------------------------------------------

    def rest(self, extra: str = "") -> None:
        """End the turn with nothing to say."""
        self.fire("nosend-step", self.agent, self.thread, extra=extra)

    def send(self, payloads: Sequence[Payload], questions: Sequence[Question] = (), extra: str = "") -> None:
        """End the turn with a Send, and with questions if there are any."""
        chosen = Broadcast(tuple(payloads), tuple(questions))
        self.fire("send-step", self.agent, self.thread, choice=chosen, extra=extra)
        drain(self.live, self.world, self.agent, self.thread, self.now)

    def ask(self, questions: Sequence[Question], extra: str = "") -> None:
        """End the turn with questions."""
        self.fire("ask-step", self.agent, self.thread, choice=Asking(tuple(questions)), extra=extra)
        pose(self.live, self.world, "ask", self.agent, self.thread, self.now)

    def end(self, payloads: Sequence[Payload], questions: Sequence[Question] = (), extra: str = "") -> None:
        """End the turn in the way that fits what is to be said."""
        if payloads:
            self.send(payloads, questions, extra)
        elif questions:
            self.ask(questions, extra)
        else:
            self.rest(extra)

    # ---- what it may do meanwhile ------------------------------------------------------------

    def fire(self, rule: str, *at: str, choice: Any = None, who: str = "", extra: str = "") -> None:
        """Fire a rule in the agent's name."""
        self.live.fire(rule, *at, choice=choice, who=who or self.agent, time=self.now, extra=extra)

    def letter(
        self,
        agent: str,
        thread: str,
        body: str,
        meta: Mapping[str, Any] | None = None,
        *,
        kind: MessageKind | None = None,
        alone: bool = False,
    ) -> Deliver:
        """A message, written and ready to be sent; `kind`, where it is no letter but a question or an intervention."""
        self.letters += 1
        if kind is None:
            kind = letter_kind(self.live.soup, self.agent, self.thread, thread, self.opened)
            self.opened.add(thread)
        name = self.live.write(
            (self.agent, self.thread),
            (agent, thread),
            body,
            kind=kind,
            key=f"{self.turn}/{self.letters}",
            time=self.now,
            meta=dict(meta) if meta else None,
            alone=alone,
        )
        return Deliver(agent, thread, name)

    def question(self, body: str, asked: Question, more: Mapping[str, Any] | None = None) -> Question:
        """A question to the human, which the proxy deals with like anybody's; its answer comes as a message."""
        record = enclosing(self.live.soup, self.thread)
        state = record.state if record.live else record.history[-1].state
        what = {"question": asked.id, "state": str(state), "kind": str(asked.kind)}
        meta = {**what, "artifact": asked.artifact, "digest": asked.digest, **(more or {})}
        words, kind = texts.question(record, asked, body), MessageKind.QUESTION
        letter = self.letter(PROXY, escalation_thread(asked.id), words, meta, kind=kind)
        return replace(asked, message=letter.message, key="" if asked.artifact else texts.key_of(body))

    def open(self) -> str:
        """The name of a new conversation."""
        return dispatch_thread(self.world.ids.new())

    def close(self, thread: str) -> Close:
        """The end of a conversation that it opened."""
        return Close(thread)

    def dispatcher(self) -> Surface | None:
        """Who dispatched it."""
        parent = self.live.soup.parent(self.thread)
        return self.live.soup.get(Surface, parent) if parent else None

    def report(self, body: str, meta: Mapping[str, Any] | None = None) -> list[Deliver]:
        """A message to whoever dispatched it, if anybody is there to read it."""
        above = self.dispatcher()
        return [self.letter(above.agent, above.thread, body, meta)] if above is not None else []

    def enrol(self, roles: Sequence[Mapping[str, Any]], agent: str = "", thread: str = "") -> None:
        """[enrol]: roles in full, with `bus`, the protocol's tools of each, join a team: its own, or one below it."""
        self.live.enrol(agent or self.agent, thread or self.thread, roles, self.now)

    # ---- its workspace -----------------------------------------------------------------------

    @property
    def workspace(self) -> str:
        """The name of its own workspace."""
        return self.live.soup.need(Surface, self.thread, self.agent).workspace

    def keep_tree(self) -> str:
        """Commit its workspace as it is now; the tree, for the extra of the step that ends the turn."""
        said = f"{self.agent} on {self.thread}, turn {self.turn} of job {self.live.job}\n\n{self.live.witness()}"
        tree = self.world.workspace.snapshot(self.live.job, self.workspace, said).tree
        if tree:
            self.live.keep(tree_slot(self.workspace), tree)
        return tree

    def extra(self, **left: Any) -> str:
        """What the step that ends the turn tells: its turn, and whatever else is not empty."""
        return dumps({"turn": self.turn, **{name: value for name, value in left.items() if value}})
