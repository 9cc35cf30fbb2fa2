"""The orchestrator: an agent of the soup whose turns are this code and take no time.

It is woken by the request, by what it observes, by what its leads report and by the human's word on a
failure. Each turn of it ends like any other, with a Send, a question or nothing.
"""

from __future__ import annotations

import json
from typing import Any

from parley.core.bounds import EXCHANGES, PENDING, REPEATS, STUCK, VIOLATION, spent
from parley.core.errors import Disabled, Exhausted, Refused
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
    Tally,
    Verdict,
    escalation_thread,
)
from parley.engine import flows, giving_up, texts, unfinished
from parley.engine.code_agent import CodeAgent
from parley.engine.designs import at_the_gate
from parley.engine.names import advice_slot
from parley.engine.records import dumps
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
            self.waited(self.live.record)
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
        except Exhausted as bound:
            told = f"{bound}. Go on here; if it has to go back all the same, ask first"
            self.stuck(record, texts.circling(record.circled, action), texts.violation(told))
        except Refused as refused:
            self.violated(record, str(refused))

    def violated(self, record: Record, reason: str) -> None:
        """An outcome did not count: the lead is told why, and the state has failed once."""
        if not record.depth and self.gave_up(record):
            return
        if any(i.authoritative for i in self.live.soup.all(Interrupt, record.thread)):
            self.rest()  # not its fault, and the intervention wakes it
        elif VIOLATION in spent(self.live.soup, record):
            self.stuck(record, texts.violations(record.violations + 1, reason), texts.violation(reason))
        else:
            self.fire("strike", record.id, choice=VIOLATION)
            self.send([self.letter(record.actor, record.thread, texts.violation(reason))])

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
        body = texts.subteam_failed(record, passage.action, passage.reason)
        self.send([self.letter(above.agent, above.thread, body)])

    # ---- failures ----------------------------------------------------------------------------

    def lead_failed(self, meta: dict[str, Any]) -> None:
        """A lead has lost its turn too often: it keeps its message, and is held until something is decided."""
        record = self.live.record
        if record.thread != meta["failed"] or Hold(record.thread, STUCK) not in self.live.soup:
            self.rest()
            return
        if self.gave_up(record):
            return
        why = str(meta["fault"]) if meta.get("hopeless") else texts.crashed(int(meta["tries"]), meta["fault"])
        self.stuck(record, why)

    def waited(self, record: Record) -> None:
        """PENDING: the job rests, and its state has no outcome. Its lead is told so, while it may be."""
        if self.gave_up(record):
            return
        used_up = spent(self.live.soup, record)
        if EXCHANGES in used_up or REPEATS in used_up:
            self.stuck(record, texts.looping(self.live.soup.need(Tally, record.thread), self.live.soup.charter))
        elif PENDING in used_up:
            self.stuck(record, texts.silent(record.pendings + 1))
        else:
            self.fire("strike", record.id, choice=PENDING)
            self.send([self.letter(record.actor, record.thread, texts.pending(record, self.open_below(record.thread)))])

    def stuck(self, record: Record, why: str, again: str = "") -> None:
        """A state can't go on by itself: the human is asked, once; else it fails, and a subteam at once."""
        failure = Passage(Action.FAILURE, ORCHESTRATOR, self.now, why)
        if record.depth:
            self.move_subteam(record, failure, "")
        elif policy_for(self.live.soup, self.live.thread) is Policy.NEVER or not self.opens_dialog(record):
            self.move(record, failure)
        else:
            self.ask_human(record, why, again)

    def opens_dialog(self, record: Record) -> bool:
        """[dialog], where the human may be asked once more."""
        try:
            self.fire("dialog", record.id)
        except Disabled:
            return False
        return True

    def ask_human(self, record: Record, why: str, again: str) -> None:
        """The failure dialog. `again`: what its lead is told if it is to go on; else it has its message still."""
        back = [state for state, action in BACKTRACK.items() if action in skill_outcomes(record.state)]
        verdicts = [(f"backtrack {PHASES_BY_STATE[state]}", f"go back to {state}") for state in back]
        identity = self.world.ids.new()
        menu = listed(identity, DIALOG_MENU, [*verdicts, ("withdraw", "give the whole job up")])
        letter = self.letter(
            "proxy",
            f"escalation:{identity}",
            texts.failure_dialog(record, why, menu, hopeless=bool(self.meta.get("hopeless"))),
            {"failure": again, "fault": why, "menu": DIALOG_MENU.document()},
            kind=MessageKind.QUESTION,
        )
        self.ask([Question(identity, letter.message, Kind.FAILURE)])

    def decided(self, meta: dict[str, Any]) -> None:
        """The human has said what is to become of a state that can't go on."""
        record, text = self.live.record, meta["text"]
        ruling = Ruling(meta["ruling"]) if meta["ruling"] else None
        action = Action.FAILURE if meta.get("choice") == FAIL else REACHES.get(ruling) if ruling else None
        if action is not None:
            try:
                self.move(record, Passage(action, ORCHESTRATOR, self.now, text))
            except Refused:
                pass  # this state has no such way out, or a later verdict has overtaken this one: try again
            else:
                return
        advice = text if text.strip() else ""
        if Hold(record.thread, STUCK) in self.live.soup:
            self.try_again(record, advice)
            return
        again = json.loads(message(self.live, self.world, meta["asked"]).meta).get("failure")
        body = again or texts.pending(record, self.open_below(record.thread))
        self.send([self.letter(record.actor, record.thread, texts.advised(body, advice))])

    def try_again(self, record: Record, advice: str) -> None:
        """A lead that is held wakes with the message that it lost, of the same sender, and with the human's words."""
        self.rest()
        self.fire("release", record.thread, choice=STUCK, extra=dumps({"advice": advice}) if advice else "")
        if advice:
            self.live.keep(advice_slot(record.actor, record.thread), advice)
        self.live.ready[record.actor, record.thread] = None

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
