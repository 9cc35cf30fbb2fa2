"""The orchestrator: an agent of the soup whose turns are this code and take no time.

It is woken by the request, by what it observes, by what its leads report and by the human's word on a
failure. Each turn of it ends like any other, with a Send, a question or nothing.
"""

from __future__ import annotations

import json
from typing import Any

from parley.core.errors import Refused
from parley.core.escalation import policy_for
from parley.core.gates import NEEDS, REACHES, given_up
from parley.core.rule import Ending, Passage
from parley.core.states import BACKTRACK, PHASES, Action, Record, State, is_backtrack, skill_outcomes
from parley.core.terms import (
    HUMAN,
    ORCHESTRATOR,
    AskHuman,
    Close,
    Hold,
    Interrupt,
    Kind,
    MessageKind,
    Origin,
    Payload,
    Policy,
    Question,
    Ruling,
    Surface,
    Verdict,
    escalation_thread,
)
from parley.engine import flows, giving_up, texts, unfinished
from parley.engine.code_agent import CodeAgent
from parley.engine.designs import at_the_gate
from parley.engine.endings import discarded
from parley.engine.holds import DIALOG
from parley.engine.reduce import message, terminate
from parley.options import FAIL, RETRY, Menu, Option, listed
from parley.ports import MessageRow
from parley.workflow.activation import activation_of

DIALOG_MENU = Menu(
    (
        Option(RETRY, "try the state again; your words go to its lead as advice", "approve"),
        Option(FAIL, "let the job fail"),
    ),
    "they are advice, and the state is tried again with them",
)
"""What can be chosen in the failure dialog, beside going back and giving the job up."""


class Orchestrator(CodeAgent):
    """One turn of the orchestrator of one job."""

    def run(self) -> None:
        """Deal with the message."""
        meta = self.meta
        if "request" in meta:
            self.begin(self.live.record)
        elif "report" in meta:
            self.weigh(meta["report"])
        elif "pending" in meta:
            self.struck(self.live.record, "it goes on without an outcome record", None)
        elif "failed" in meta:
            self.lead_failed(meta)
        elif "withdrawn" in meta:
            self.move(self.live.record, Passage(Action.WITHDRAW, HUMAN, self.now, meta.get("reason", "")))
        elif meta.get("kind") == Kind.FAILURE:
            self.decided(meta)
        elif "intervene" in meta:
            self.pass_on(meta)
        else:
            self.rest()

    def begin(self, record: Record) -> None:
        """Give the first lead the request, unless an intervention that was faster has brought it."""
        if self.live.soup.get(Surface, record.thread) is None:
            self.send([self.letter(record.actor, record.thread, self.begins(record, self.live.row.request))])
        else:
            self.rest()

    def begins(self, record: Record, why: str) -> str:
        """How a visit of the job's own states begins: with what the human has activated, where they have."""
        given = activation_of(self.live.settings)
        more = texts.activated(record, given) if given is not None else ""
        return f"{texts.begins(record, why)}\n\n{more}" if more else texts.begins(record, why)

    # ---- outcomes ----------------------------------------------------------------------------

    def weigh(self, report: dict[str, Any]) -> None:
        """An outcome record was written: see whether it counts."""
        record = self.live.soup.get(Record, report["record"])
        if record is None or not record.live or self.live.soup.dying(record.thread):
            self.rest()
            return
        if report["problem"]:
            self.violated(record, report["problem"])
            return
        if report["outcome"] not in list(Action):
            known = ", ".join(skill_outcomes(record.state))
            self.violated(record, f"{report['outcome']!r} is not an outcome of {record.state}; write one of: {known}")
            return
        inside = {**dict(report["contents"]), **at_the_gate(self.live, record)}
        contents = tuple(sorted(inside.items()))
        action = Action(report["outcome"])
        if record.depth and action is Action.APPROVED_INTENT and record.state is State.PLAN:
            # said aloud what setting to work has said already
            self.send([self.letter(record.actor, record.thread, texts.begins(record, report["reason"]))])
            return
        passage = Passage(action, report["actor"], self.now, report["reason"], contents)
        try:
            if record.depth:
                self.move_subteam(record, passage, report["text"])
            else:
                self.move(record, passage)
        except Refused as refused:
            self.violated(record, str(refused))

    def violated(self, record: Record, reason: str) -> None:
        """An outcome did not count: the lead is told why, and the state has failed once."""
        if not record.depth and self.gave_up(record):
            return
        if any(i.authoritative for i in self.live.soup.all(Interrupt, record.thread)):
            self.rest()  # not its fault, and the intervention wakes it
        elif not record.depth:
            self.struck(record, reason, texts.violation(reason))
        elif record.failures < self.live.soup.charter.retry_budget:
            self.fire("strike", record.id)
            self.send([self.letter(record.actor, record.thread, texts.violation(reason))])
        else:
            self.move_subteam(record, Passage(Action.FAILURE, ORCHESTRATOR, self.now, reason), "")

    def move(self, record: Record, passage: Passage) -> None:
        """Fire the transition, leave the old state's thread, and enter the next."""
        request = self.live.row.request
        led_back = self.verdict_on(record, passage.action)
        left = unfinished.lines(self.live.leaves("transition", record.id, choice=passage))
        self.fire("transition", record.id, choice=passage, who=passage.actor)
        after = self.live.record
        if not after.live:
            self.finish(passage)
            return
        back = is_backtrack(record.state, passage.action)
        if back:
            flows.void(self.live)
        why = texts.led_back(passage.reason, led_back, request) if back and (passage.reason or led_back) else request
        carried = self.undelivered(record.thread)
        for dialog in self.live.soup.all(AskHuman, self.live.thread):  # about a state that is over
            self.fire("withdraw", escalation_thread(dialog.id), choice=Ending(Origin.PHASE))
            terminate(self.live, self.world, escalation_thread(dialog.id))
        payloads: list[Payload] = []
        if self.live.soup.get(Surface, record.thread) is not None:
            payloads.append(Close(record.thread, Origin.BACKTRACK if back else Origin.PHASE))
        begins = "\n\n".join(part for part in (self.begins(after, why), texts.unfinished(left)) if part)
        payloads.append(self.letter(after.actor, after.thread, begins))
        self.send(payloads)
        for interrupt, row in carried:
            self.interrupt(
                after, row.body, now=interrupt.now, authoritative=interrupt.authoritative, origin=origin_of(row)
            )

    def verdict_on(self, record: Record, action: Action) -> dict[str, Any]:
        """What is known of the answer whose verdict an outcome goes by; nothing where it needs none."""
        needed = NEEDS.get(action)
        for verdict in self.live.soup.all(Verdict, record.id):
            if verdict.ruling is needed:
                return dict(json.loads(message(self.live, self.world, verdict.answer).meta))
        return {}

    def undelivered(self, thread: str) -> list[tuple[Interrupt, MessageRow]]:
        """The interventions meant for the job that its last state did not take up: the next one will."""
        found = []
        for interrupt in self.live.soup.all(Interrupt, thread):
            row = message(self.live, self.world, interrupt.message)
            if row.meta and json.loads(row.meta).get("job"):
                found.append((interrupt, row))
        return found

    def finish(self, passage: Passage) -> None:
        """A terminal was reached: nothing of the job stays behind."""
        self.rest()
        origin = Origin.WITHDRAWAL if passage.action is Action.WITHDRAW else Origin.END
        self.fire("withdraw", self.live.thread, choice=Ending(origin))
        terminate(self.live, self.world, self.live.thread)

    def gave_up(self, record: Record) -> bool:
        """Carry the human's word out where they have given the job up and its lead did not; whether that was so."""
        word = given_up(self.live.soup)
        if word is not None:
            reason = giving_up.reason_of(self.live, self.world, word)
            self.move(record, Passage(Action.WITHDRAW, HUMAN, self.now, reason))
        return word is not None

    # ---- subteams ----------------------------------------------------------------------------

    def move_subteam(self, record: Record, passage: Passage, text: str) -> None:
        """A subteam's outcome: forward it goes on by itself, all else is its dispatcher's to hear."""
        self.fire("transition", record.id, choice=passage, who=passage.actor)
        after = self.live.soup.need(Record, record.id)
        if after.live and not is_backtrack(record.state, passage.action):
            self.send([self.letter(after.actor, after.thread, texts.begins(after, passage.reason))])
            return
        parent = self.live.soup.parent(record.thread)
        above = self.live.soup.get(Surface, parent) if parent else None
        if above is None:
            self.rest()
            return
        if passage.action is Action.APPROVED_WORK:
            made = self.world.workspace.changed(self.live.job, self.live.soup.need(Surface, record.thread).workspace)
            said = texts.report(record.actor, record.thread, made, text or passage.reason)
            self.send([self.letter(above.agent, above.thread, said)])
            return
        body = f"[FAILED] {record.team_id} on {record.thread} says {passage.action}: {passage.reason}"
        self.send([self.letter(above.agent, above.thread, body)])

    # ---- failures ----------------------------------------------------------------------------

    def lead_failed(self, meta: dict[str, Any]) -> None:
        """A lead lost its turn: give it the same message again, while the state may be retried."""
        record = self.live.record
        lost = message(self.live, self.world, meta["message"])
        if record.thread != meta["failed"]:
            self.rest()
            return
        if self.gave_up(record):
            return
        again = texts.recovered(lost.body, discarded(self.live, record.actor, record.thread))
        while meta.get("hopeless") and record.failures < self.live.soup.charter.retry_budget:
            self.fire("strike", record.id)  # trying again would end the same way
            record = self.live.record
        self.struck(record, meta["fault"], again)

    def struck(self, record: Record, fault: str, again: str | None) -> None:
        """A state-level failure: try again, or ask the human, or fail."""
        budget = self.live.soup.charter.retry_budget
        if record.failures < budget:
            self.fire("strike", record.id)
            body = again if again is not None else texts.pending(record, self.open_below(record.thread))
            self.give_again(record, body)
            return
        if record.dialogs or policy_for(self.live.soup, self.live.thread) is Policy.NEVER:
            self.move(record, Passage(Action.FAILURE, ORCHESTRATOR, self.now, fault))
            return
        self.fire("dialog", record.id)
        self.ask_human(record, fault, again)

    def give_again(self, record: Record, body: str) -> None:
        """A lead gets its message again: what an interrupt had brought comes back as one, before its mail."""
        if not self.lost_intervention():
            self.send([self.letter(record.actor, record.thread, body)])
            return
        self.rest()
        self.interrupt_again(record, body)

    def lost_intervention(self) -> dict[str, Any]:
        """What is known of the intervention that a lead lost with its turn; nothing if it lost something else."""
        lost = message(self.live, self.world, self.meta["message"]) if "failed" in self.meta else None
        meta: dict[str, Any] = json.loads(lost.meta) if lost is not None and lost.meta else {}
        return meta if meta.get("intervene") or meta.get("intervened") else {}

    def interrupt_again(self, record: Record, body: str) -> None:
        """The intervention that was lost comes back."""
        meta = self.lost_intervention()
        how = meta.get("intervene") or meta["intervened"]
        for_job, origin = bool(meta.get("job")), origin_of(message(self.live, self.world, self.meta["message"]))
        self.interrupt(
            record, body, now=False, authoritative=bool(how["authoritative"]), for_job=for_job, origin=origin
        )

    def ask_human(self, record: Record, fault: str, again: str | None) -> None:
        """The failure dialog."""
        back = [state for state, action in BACKTRACK.items() if action in skill_outcomes(record.state)]
        verdicts = [(f"backtrack {PHASES_BY_STATE[state]}", f"go back to {state}") for state in back]
        identity = self.world.ids.new()
        menu = listed(identity, DIALOG_MENU, [*verdicts, ("withdraw", "give the whole job up")])
        letter = self.letter(
            "proxy",
            f"escalation:{identity}",
            texts.failure_dialog(record, fault, menu, hopeless=bool(self.meta.get("hopeless"))),
            {"failure": again, "fault": fault, "menu": DIALOG_MENU.document()},
            kind=MessageKind.QUESTION,
        )
        self.ask([Question(identity, letter.message, Kind.FAILURE)])
        self.live.keep(f"handle retry {identity}", again or "")
        if self.lost_intervention():
            # it is not lost, and no outcome counts before it; but nobody is tried with it until the human says so
            self.interrupt_again(record, again or "")
            self.fire("hold", record.thread, choice=f"{DIALOG} {identity}")

    def decided(self, meta: dict[str, Any]) -> None:
        """The human has said what is to become of a state that can't go on."""
        record, text = self.live.record, meta["text"]
        ruling = Ruling(meta["ruling"]) if meta["ruling"] else None
        slot = f"handle retry {meta['answer']}"
        again = self.live.kept.get(slot) or texts.pending(record, self.open_below(record.thread))
        self.live.drop(slot)
        action = Action.FAILURE if meta.get("choice") == FAIL else REACHES.get(ruling) if ruling else None
        if action is not None:
            try:
                self.move(record, Passage(action, ORCHESTRATOR, self.now, text))
            except Refused:
                pass  # this state has no such way out, or a later verdict has overtaken this one: try again
            else:
                return
        advice = text.strip() and text
        hold = Hold(record.thread, f"{DIALOG} {meta['answer']}")
        if hold not in self.live.soup:
            said = f"\n\nThe human says: {advice}" if advice else ""
            self.send([self.letter(record.actor, record.thread, f"{again}{said}")])
            return
        self.rest()  # what it is to try again waits for it as an interrupt
        self.fire("release", record.thread, choice=hold.cause)
        self.live.ready[record.actor, record.thread] = None
        if advice:
            words = texts.intervene(advice, authoritative=False)
            self.interrupt(record, words, now=False, authoritative=False, for_job=False)

    def open_below(self, thread: str) -> list[str]:
        """What the lead has left open."""
        below = [self.live.soup.get(Surface, child) for child in self.live.soup.children(thread)]
        return [f"{surface.agent} on {surface.thread}" for surface in below if surface is not None]

    # ---- interventions -----------------------------------------------------------------------

    def pass_on(self, meta: dict[str, Any]) -> None:
        """An intervention on the job's thread reaches whichever state is current."""
        record = self.live.record
        how = meta["intervene"]
        self.begin(record)
        flags = bool(how["now"]), bool(how["authoritative"])
        self.interrupt(record, self.row.body, now=flags[0], authoritative=flags[1], origin=origin_of(self.row))

    def interrupt(
        self, record: Record, body: str, *, now: bool, authoritative: bool, for_job: bool = True, origin: str = ""
    ) -> None:
        """Redirect a state's lead; the next state's gets what is meant for the job and this one did not take.

        `origin`: the message of the human's that the words come from, so that its life can be followed.
        """
        how = {"now": now, "authoritative": authoritative}
        about = {"intervened": how, "job": for_job, **({"origin": origin} if origin else {})}
        kind = MessageKind.INTERVENTION
        letter = self.letter(record.actor, record.thread, body, about, kind=kind, alone=True)
        moved = Interrupt(record.thread, letter.message, now, authoritative)
        self.fire("intervene", record.thread, choice=moved)


def origin_of(row: MessageRow) -> str:
    """The human's own message that an intervention's letter comes from: itself, if it is that."""
    about = json.loads(row.meta) if row.meta else {}
    return f"m{row.number}" if "intervene" in about else str(about.get("origin", ""))


PHASES_BY_STATE = {state: state.lower() for state in PHASES}
