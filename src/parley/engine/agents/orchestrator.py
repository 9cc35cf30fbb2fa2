"""The orchestrator: an agent of the soup whose turns are this code and take no time.

It is woken by the request, by what it observes, by what its leads report and by the human's word on a
failure. Each turn of it ends like any other, with a Send, a question or nothing.
"""

from __future__ import annotations

from parley.base.options import FAIL, RETRY, Menu, Option, listed
from parley.bus.rows import MessageRow
from parley.bus.slots import advice_slot
from parley.engine import giving_up, protocol_messages
from parley.engine.agents.code_agent import CodeAgent
from parley.engine.reduction import message, terminate
from parley.engine.values import message_meta, unfinished_work
from parley.engine.values.message_meta import (
    Answered,
    Begins,
    Dialog,
    Failed,
    Intervened,
    Observed,
    OutcomeRefused,
    PassedOn,
    Requested,
    Rested,
)
from parley.engine.values.step_extra import StepExtra
from parley.protocol.bounds import EXCHANGES, PENDING, REPEATS, STUCK, VIOLATION, spent
from parley.protocol.errors import Disabled, Exhausted, Refused
from parley.protocol.escalation import policy_for
from parley.protocol.gates import NEEDS, REACHES, given_up
from parley.protocol.molecules import (
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
    Record,
    Surface,
    Tally,
    Verdict,
    escalation_thread,
)
from parley.protocol.rule import Ending, Passage
from parley.protocol.states import BACKTRACK, Action, State, is_backtrack, skill_outcomes
from parley.roles.phases import PHASES

DIALOG_MENU = Menu(
    (
        Option(RETRY, "try the state again", "approve", "your words go to its lead as advice"),
        Option(FAIL, "let the job fail"),
    ),
    "they are advice, and the state is tried again with them",
)
"""What can be chosen in the failure dialog, beside going back and giving the job up."""


class Orchestrator(CodeAgent):
    """One turn of the orchestrator of one job."""

    def run(self) -> None:
        """Deal with the message."""
        match self.meta:
            case Requested():
                self.begin(self.job.record)
            case Observed() as report:
                self.weigh(report)
            case Rested():
                self.waited(self.job.record)
            case Failed() as failed:
                self.lead_failed(failed)
            case Answered(kind=Kind.FAILURE) as answer:
                self.decided(answer)
            case Intervened() as said:
                self.pass_on(said)
            case _:
                self.rest()

    def begin(self, record: Record) -> None:
        """Give the first lead the request, unless an intervention that was faster has brought it."""
        if self.job.soup.get(Surface, record.thread) is None:
            self.send([self.letter(record.actor, record.thread, self.begins(record, self.job.row.request), Begins())])
        else:
            self.rest()

    def begins(self, record: Record, why: str) -> str:
        """How a visit of the job's own states begins: with the reason, and with what features add to it."""
        more = (hook(self.job, record) for hook in self.job.guests.state_remark)
        return "\n\n".join((protocol_messages.begins(record, why), *(said for said in more if said)))

    # ---- outcomes ----------------------------------------------------------------------------

    def weigh(self, report: Observed) -> None:
        """An outcome record was written: see whether it counts."""
        record = self.job.soup.get(Record, report.record)
        if record is None or not record.live or self.job.soup.dying(record.thread):
            self.rest()
            return
        if report.problem:
            self.violated(record, report.problem)
            return
        if report.outcome not in list(Action):
            known = ", ".join(skill_outcomes(record.state))
            self.violated(record, f"{report.outcome!r} is not an outcome of {record.state}; write one of: {known}")
            return
        inside = dict(report.contents)
        for hook in self.job.guests.before_outcome:
            hook(self.job, record, inside)
        contents = tuple(sorted(inside.items()))
        action = Action(report.outcome)
        if record.depth and action is Action.APPROVED_INTENT and record.state is State.PLAN:
            # said aloud what setting to work has said already
            self.send(
                [self.letter(record.actor, record.thread, protocol_messages.begins(record, report.reason), Begins())]
            )
            return
        passage = Passage(
            action=action, actor=report.actor, timestamp=self.now, reason=report.reason, contents=contents
        )
        try:
            if record.depth:
                self.move_subteam(record, passage, report.text)
            else:
                self.move(record, passage)
        except Exhausted as bound:
            told = f"{bound}. Go on here; if it has to go back all the same, ask first"
            self.stuck(record, protocol_messages.circling(record.circled, action), told)
        except Refused as refused:
            self.violated(record, str(refused))

    def violated(self, record: Record, reason: str) -> None:
        """An outcome did not count: the lead is told why, and the state has failed once."""
        if not record.depth and self.gave_up(record):
            return
        if any(i.authoritative for i in self.job.soup.all(Interrupt, record.thread)):
            self.rest()  # not its fault, and the intervention wakes it
        elif VIOLATION in spent(self.job.soup, record):
            self.stuck(record, protocol_messages.violations(record.violations + 1, reason), reason)
        else:
            self.fire("strike", record.id, choice=VIOLATION)
            self.send(
                [self.letter(record.actor, record.thread, protocol_messages.violation(reason), OutcomeRefused(reason))]
            )

    def move(self, record: Record, passage: Passage) -> None:
        """Fire the transition, leave the old state's thread, and enter the next."""
        request = self.job.row.request
        led_back = self.verdict_on(record, passage.action)
        left = unfinished_work.lines(self.job.leaves("transition", record.id, choice=passage))
        self.fire("transition", record.id, choice=passage, who=passage.actor)
        after = self.job.record
        if not after.live:
            self.finish(passage)
            return
        back = is_backtrack(record.state, passage.action)
        for hook in self.job.guests.state_left:
            hook(self.job, record, passage)
        why = (
            protocol_messages.led_back(passage.reason, led_back, request)
            if back and (passage.reason or led_back)
            else request
        )
        carried = self.undelivered(record.thread)
        for dialog in self.job.soup.all(AskHuman, self.job.thread):  # about a state that is over
            self.fire("withdraw", escalation_thread(dialog.id), choice=Ending(Origin.PHASE))
            terminate(self.job, self.world, escalation_thread(dialog.id))
        payloads: list[Payload] = []
        if self.job.soup.get(Surface, record.thread) is not None:
            payloads.append(Close(record.thread, Origin.BACKTRACK if back else Origin.PHASE))
        begins = "\n\n".join(part for part in (self.begins(after, why), protocol_messages.unfinished(left)) if part)
        payloads.append(self.letter(after.actor, after.thread, begins, Begins()))
        self.send(payloads)
        for interrupt, row in carried:
            self.interrupt(
                after, row.body, now=interrupt.now, authoritative=interrupt.authoritative, origin=origin_of(row)
            )

    def verdict_on(self, record: Record, action: Action) -> Answered | None:
        """The answer whose verdict an outcome goes by; None where it needs none."""
        needed = NEEDS.get(action)
        for verdict in self.job.soup.all(Verdict, record.id):
            if verdict.ruling is needed:
                return message_meta.read_as(Answered, message(self.job, self.world, verdict.answer))
        return None

    def undelivered(self, thread: str) -> list[tuple[Interrupt, MessageRow]]:
        """The interventions meant for the job that its last state did not take up: the next one will."""
        found = []
        for interrupt in self.job.soup.all(Interrupt, thread):
            row = message(self.job, self.world, interrupt.message)
            if isinstance(message_meta.read(row), PassedOn):
                found.append((interrupt, row))
        return found

    def finish(self, passage: Passage) -> None:
        """A terminal was reached: nothing of the job stays behind."""
        self.rest()
        origin = Origin.WITHDRAWAL if passage.action is Action.WITHDRAW else Origin.END
        self.fire("withdraw", self.job.thread, choice=Ending(origin))
        terminate(self.job, self.world, self.job.thread)

    def gave_up(self, record: Record) -> bool:
        """Carry the human's word out where they have given the job up and its lead did not; whether that was so."""
        word = given_up(self.job.soup)
        if word is not None:
            reason = giving_up.reason_of(self.job, self.world, word)
            self.move(record, Passage(Action.WITHDRAW, HUMAN, self.now, reason))
        return word is not None

    # ---- subteams ----------------------------------------------------------------------------

    def move_subteam(self, record: Record, passage: Passage, text: str) -> None:
        """A subteam's outcome: forward it goes on by itself, all else is its dispatcher's to hear."""
        self.fire("transition", record.id, choice=passage, who=passage.actor)
        after = self.job.soup.need(Record, record.id)
        if after.live and not is_backtrack(record.state, passage.action):
            self.send(
                [self.letter(after.actor, after.thread, protocol_messages.begins(after, passage.reason), Begins())]
            )
            return
        parent = self.job.soup.parent(record.thread)
        above = self.job.soup.get(Surface, parent) if parent else None
        if above is None:
            self.rest()
            return
        if passage.action is Action.APPROVED_WORK:
            made = self.world.workspace.changed(self.job.id, self.job.soup.need(Surface, record.thread).workspace)
            said = protocol_messages.report(record.actor, record.thread, made, text or passage.reason)
            self.send([self.letter(above.agent, above.thread, said)])
            return
        body = protocol_messages.subteam_failed(record, passage.action, passage.reason)
        self.send([self.letter(above.agent, above.thread, body)])

    # ---- failures ----------------------------------------------------------------------------

    def lead_failed(self, failed: Failed) -> None:
        """A lead has lost its turn too often: it keeps its message, and is held until something is decided."""
        record = self.job.record
        if record.thread != failed.thread or Hold(record.thread, STUCK) not in self.job.soup:
            self.rest()
            return
        if self.gave_up(record):
            return
        why = failed.fault if failed.hopeless else protocol_messages.crashed(failed.tries, failed.fault)
        self.stuck(record, why)

    def waited(self, record: Record) -> None:
        """PENDING: the job rests, and its state has no outcome. Its lead is told so, while it may be."""
        if self.gave_up(record):
            return
        used_up = spent(self.job.soup, record)
        if EXCHANGES in used_up or REPEATS in used_up:
            self.stuck(
                record, protocol_messages.looping(self.job.soup.need(Tally, record.thread), self.job.soup.charter)
            )
        elif PENDING in used_up:
            self.stuck(record, protocol_messages.silent(record.pendings + 1))
        else:
            self.fire("strike", record.id, choice=PENDING)
            self.send(
                [
                    self.letter(
                        record.actor, record.thread, protocol_messages.pending(record, self.open_below(record.thread))
                    )
                ]
            )

    def stuck(self, record: Record, why: str, violation: str = "") -> None:
        """A state can't go on by itself: the human is asked, once; else it fails, and a subteam at once."""
        failure = Passage(Action.FAILURE, ORCHESTRATOR, self.now, why)
        if record.depth:
            self.move_subteam(record, failure, "")
        elif policy_for(self.job.soup, self.job.thread) is Policy.NEVER or not self.opens_dialog(record):
            self.move(record, failure)
        else:
            self.ask_human(record, why, violation)

    def opens_dialog(self, record: Record) -> bool:
        """[dialog], where the human may be asked once more."""
        try:
            self.fire("dialog", record.id)
        except Disabled:
            return False
        return True

    def ask_human(self, record: Record, why: str, violation: str) -> None:
        """The failure dialog. `violation`: what its lead is told if it is to go on; else it has its message still."""
        back = [state for state, action in BACKTRACK.items() if action in skill_outcomes(record.state)]
        verdicts = [(f"backtrack {PHASES_BY_STATE[state]}", f"go back to {state}") for state in back]
        identity, hopeless = self.world.ids.new(), isinstance(self.meta, Failed) and self.meta.hopeless
        menu = listed(identity, DIALOG_MENU, [*verdicts, ("withdraw", "give the whole job up")])
        words = protocol_messages.failure_dialog(record, why, menu, hopeless=hopeless)
        letter = self.letter(
            "proxy",
            f"escalation:{identity}",
            words,
            Dialog(text=words, fault=why, menu=DIALOG_MENU, violation=violation),
            kind=MessageKind.QUESTION,
        )
        self.ask([Question(identity, letter.message, Kind.FAILURE)])

    def decided(self, answer: Answered) -> None:
        """The human has said what is to become of a state that can't go on."""
        record, text, ruling = self.job.record, answer.text, answer.ruling
        action = Action.FAILURE if answer.choice == FAIL else REACHES.get(ruling) if ruling else None
        if action is not None:
            try:
                self.move(record, Passage(action, ORCHESTRATOR, self.now, text))
            except Refused:
                pass  # this state has no such way out, or a later verdict has overtaken this one: try again
            else:
                return
        advice = text if text.strip() else ""
        if Hold(record.thread, STUCK) in self.job.soup:
            self.try_again(record, advice)
            return
        dialog = message_meta.read_as(Dialog, message(self.job, self.world, answer.asked))
        if dialog.violation:
            body, meta = protocol_messages.violation(dialog.violation), OutcomeRefused(dialog.violation)
        else:
            body, meta = protocol_messages.pending(record, self.open_below(record.thread)), None
        self.send([self.letter(record.actor, record.thread, protocol_messages.advised(body, advice), meta)])

    def try_again(self, record: Record, advice: str) -> None:
        """A lead that is held wakes with the message that it lost, of the same sender, and with the human's words."""
        self.rest()
        self.fire("release", record.thread, choice=STUCK, extra=StepExtra(advice=advice))
        if advice:
            self.job.keep(advice_slot(record.actor, record.thread), advice)
        self.job.rouse(record.actor, record.thread)

    def open_below(self, thread: str) -> list[str]:
        """What the lead has left open."""
        below = [self.job.soup.get(Surface, child) for child in self.job.soup.children(thread)]
        return [f"{surface.agent} on {surface.thread}" for surface in below if surface is not None]

    # ---- interventions -----------------------------------------------------------------------

    def pass_on(self, said: Intervened) -> None:
        """An intervention on the job's thread reaches whichever state is current."""
        record = self.job.record
        self.begin(record)
        self.interrupt(
            record, self.row.body, now=said.now, authoritative=said.authoritative, origin=origin_of(self.row)
        )

    def interrupt(self, record: Record, body: str, *, now: bool, authoritative: bool, origin: str) -> None:
        """Redirect a state's lead; the next state's gets what is meant for the job and this one did not take.

        `origin`: the message of the human's that the words come from, so that its life can be followed.
        """
        about = PassedOn(origin=origin, now=now, authoritative=authoritative)
        kind = MessageKind.INTERVENTION
        letter = self.letter(record.actor, record.thread, body, about, kind=kind, alone=True)
        moved = Interrupt(record.thread, letter.message, now, authoritative)
        self.fire("intervene", record.thread, choice=moved)


def origin_of(row: MessageRow) -> str:
    """The human's own message that an intervention's letter comes from: itself, if it is that; empty: no human's."""
    match message_meta.read(row):
        case PassedOn(origin=origin):
            return origin
        case Intervened():
            return f"m{row.number}"
        case _:
            return ""


PHASES_BY_STATE = {state: state.lower() for state in PHASES}
