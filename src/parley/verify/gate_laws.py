"""The laws of records and gates: what may happen to a job's states and to the verdicts that move them.

Like every law they share no code with the rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from parley.protocol.molecules import (
    HUMAN,
    ORCHESTRATOR,
    AskHuman,
    AskQuestion,
    Assertion,
    Charter,
    Crashed,
    Interrupt,
    Kind,
    Origin,
    Policy,
    Proxy,
    Record,
    Ruling,
    Send,
    Surface,
    Terminate,
    Verdict,
    escalation_thread,
    job_thread,
)
from parley.protocol.rule import Answer, Passage
from parley.protocol.soup import Soup
from parley.protocol.states import APPROVAL, LIVE, TRANSITIONS, Action, State, is_backtrack
from parley.verify.bound_laws import backtrack_counts, used_up
from parley.verify.step import Step


def history_only_grows(step: Step) -> Iterator[str]:
    """A record changes by its own rules only, keeps its history, and goes where the table leads."""
    old, new = step.lost(Record), step.new(Record)
    if not old and not new:
        if step.rule in ("open", "transition", "strike", "dialog", "term-record"):
            yield f"[{step.rule}] at {step.at[0]} leaves every record as it was"
        return
    if len(new) != 1 or len(old) > 1:
        yield f"[{step.rule}] at {step.at[0]} makes {len(new)} records of {len(old)}"
        return
    yield from _begins(step, new[0]) if not old else _changes(step, old[0], new[0])


def _begins(step: Step, new: Record) -> Iterator[str]:
    if step.rule not in ("open", "spark") or new.history or new.state is not State.INTENT:
        yield f"[{step.rule}] begins the record {new.id} in {new.state}"
    if step.rule == "spark" and (new.id != step.head().thread or not 0 < new.depth <= 4):  # noqa: PLR2004 - told once more
        yield f"[spark] gives {step.head().thread} the record {new.id}"


def _ended_by(step: Step, old: Record) -> Action:
    """What a subteam's record goes on by whose thread is terminated: only a withdrawal gives it up."""
    origins = {terminate.origin for terminate in step.before.all(Terminate, step.at[0])}
    if Origin.WITHDRAWAL in origins:
        return Action.WITHDRAW
    accepted = origins == {Origin.ACCEPT} and not step.before.all(Crashed, step.at[0])
    return APPROVAL[old.state] if accepted else Action.FAILURE


def _changes(step: Step, old: Record, new: Record) -> Iterator[str]:
    if step.rule in ("transition", "term-record"):
        action = step.choice.action if step.rule == "transition" else _ended_by(step, old)
        if new.history[: len(old.history)] != old.history or len(new.history) != len(old.history) + 1:
            yield f"the history of {old.id} is rewritten"
        elif (new.history[-1].state, new.history[-1].action) != (old.state, action):
            yield f"the history of {old.id} does not say that {action} left {old.state}"
        if TRANSITIONS[old.state].get(action) is not new.state:
            yield f"{action} leads {old.id} from {old.state} to {new.state}"
        back = step.rule == "transition" and is_backtrack(old.state, action)
        circled = old.circled + (back and backtrack_counts(step, old, RULING.get(action)))
        if (new.circled, new.lifted) != (circled, old.lifted):
            yield f"{action} counts {new.circled} backtracks of {old.id}, and {circled} were not the human's"
        kept = {name for name, _ in new.approved} - {name for name, _ in old.approved}
        if kept and (step.rule == "term-record" or action is not APPROVAL.get(old.state)):
            yield f"{action} approves {', '.join(kept)} in {old.id}"
    else:
        if (old.history, old.state, old.approved) != (new.history, new.state, new.approved):
            yield f"[{step.rule}] moves {old.id}"
        yield from _failures(step, old, new)


def _failures(step: Step, old: Record, new: Record) -> Iterator[str]:
    spent = used_up(step.before, old)
    due = (old.pendings, old.violations, old.dialogs, old.lifted)
    if step.rule == "strike":
        due = (due[0] + (step.choice == "pending"), due[1] + (step.choice == "violation"), *due[2:])
        if step.choice in spent:
            yield f"{old.id} is tried again, and has used up what it may: {step.choice}"
    elif step.rule == "dialog":
        lifts = "backtracks" in spent and not old.lifted
        due = (0, 0, 1, old.lifted + lifts)
        if old.dialogs or not (lifts or spent - {"backtracks"}):
            yield f"the human is asked about {old.id}, which may go on, or once too often"
    if (new.pendings, new.violations, new.dialogs, new.lifted, new.circled) != (*due, old.circled):
        yield f"[{step.rule}] counts {new.pendings}, {new.violations} and {new.dialogs} in {old.id}"


def gates_are_kept(step: Step) -> Iterator[str]:
    """An outcome counts on a live verdict alone, an approval on the very content; only the human gives up."""
    # nothing but WITHDRAW moves a job that the human has given up, and nothing gives up what the human has not
    if step.rule != "transition" or not step.lost(Record):
        return
    record = step.lost(Record)[0]
    passage = step.chosen(Passage)
    action, live = passage.action, step.before.all(Verdict, record.id)
    if passage.actor == HUMAN:
        if action is not Action.WITHDRAW:
            yield f"the human moves {record.id} by {action}"
    elif action is Action.WITHDRAW:
        if not _abandoned(step.before):
            yield f"{passage.actor} gives {record.id} up, and the human did not"
    elif not record.depth and _abandoned(step.before):
        yield f"{action} moves {record.id}, which the human has given up"
    elif action is Action.FAILURE:
        if passage.actor != ORCHESTRATOR or not (record.dialogs or used_up(step.before, record)):
            yield f"{record.id} fails by {passage.actor} before its budget is spent"
    else:
        if passage.actor != ORCHESTRATOR:
            yield from _unheard(step, record)
        if action is APPROVAL[record.state]:
            yield from _unapproved(record, passage, live, step.before.charter.phase(record.state).artifact)
            if not record.depth:
                yield from _unaccompanied(step.before.charter, record, passage)
        elif not record.depth and RULING[action] not in {v.ruling for v in live}:
            yield f"{action} moves {record.id} without its verdict"
        circles = is_backtrack(record.state, action) and backtrack_counts(step, record, RULING[action])
        if circles and "backtracks" in used_up(step.before, record):
            yield f"{action} leads {record.id} back once too often"


def _abandoned(soup: Soup) -> bool:
    return any((v.ruling, v.author) == (Ruling.WITHDRAW, HUMAN) for v in soup.all(Verdict, soup.charter.job))


RULING: Mapping[Action, Ruling] = MappingProxyType(
    {
        Action.REALIGN: Ruling.BACKTRACK_INTENT,
        Action.REPLAN: Ruling.BACKTRACK_PLAN,
        Action.WITHDRAW: Ruling.WITHDRAW,
    }
)


def _unapproved(record: Record, passage: Passage, live: tuple[Verdict, ...], own: str) -> Iterator[str]:
    contents = dict(passage.contents)
    approved = {(v.artifact, v.digest) for v in live if v.ruling is Ruling.APPROVE}
    before = dict(record.approved)
    inherited = record.depth and record.state is LIVE[0]
    needed = {*before, own} if not inherited else {*before}
    for artifact in needed:
        digest = contents.get(artifact, "")
        if digest != before.get(artifact) and (artifact, digest) not in approved:
            yield f"{passage.action} moves {record.id} on {artifact} that was not approved"


def _unaccompanied(charter: Charter, record: Record, passage: Passage) -> Iterator[str]:
    """A companion is what follows a plus sign in an artifact's digest; its standing has the name with one."""
    contents = dict(passage.contents)
    artifact = charter.phase(record.state).artifact
    if artifact in charter.companions and "+" not in contents.get(artifact, ""):
        yield f"{passage.action} moves {record.id} on {artifact} without the companion that it has to bring along"
    for name, digest in contents.items() if record.state is State.EXECUTE else ():
        if "+" in digest and contents.get(f"{name}+") != "clear":
            yield f"{passage.action} moves {record.id} while the companion of {name} is not carried through"


def _unheard(step: Step, record: Record) -> Iterator[str]:
    thread = record.thread
    send = step.before.get(Send, thread)
    kinds: tuple[type[Any], ...] = (Proxy, AskHuman, AskQuestion)
    if any(step.before.get(kind, thread) for kind in kinds) or (send is not None and send.questions):
        yield f"{record.id} moves while a question on {thread} is open"
    for where in (thread, job_thread(record.id)):
        if any(i.authoritative for i in step.before.all(Interrupt, where)):
            yield f"{record.id} moves past an authoritative Interrupt on {where}"


def verdicts_come_from_answers(step: Step) -> Iterator[str]:
    """A verdict is made by [respond], on the newest assert; the next supersedes it, and leaving spends it."""
    made, lost = step.new(Verdict), step.lost(Verdict)
    leaves = step.rule in ("transition", "term-record")
    if step.rule == "relay":
        untold = [replace(v, told=False) for v in made]
        if len(lost) != 1 or untold != lost or (lost[0].record, lost[0].question) != step.at:
            yield f"[relay] at {step.at[0]} does more to the verdict on {step.at[1]} than to tell it"
    elif (made and step.rule != "respond") or (lost and step.rule != "respond" and not leaves):
        yield f"[{step.rule}] at {step.at[0]} makes {len(made)} verdicts and takes {len(lost)}"
    for record in step.lost(Record):
        if leaves and (bool(step.kept(Verdict, record.id)) or bool(step.kept(Assertion, record.id))):
            yield f"a verdict or an assertion outlives the state of {record.id}"
    if step.rule == "respond":
        yield from _verdict_given(step, made)


def _verdict_given(step: Step, made: list[Verdict]) -> Iterator[str]:
    proxy = step.had(Proxy, escalation_thread(step.at[0]))
    answer = step.chosen(Answer)
    asked = proxy.question
    if len(made) > 1 or (answer.ruling is None and made):
        yield f"question {proxy.id} gives {len(made)} verdicts"
    record = _record_of(step.before, proxy.thread)
    if answer.ruling is Ruling.WITHDRAW:
        record = step.had(Record, step.before.charter.job)
    for verdict in made:
        bound = (answer.ruling, asked.artifact, asked.digest, asked.id, answer.author, answer.message)
        given = (verdict.ruling, verdict.artifact, verdict.digest, verdict.question, verdict.author, verdict.answer)
        if given != bound:
            yield f"the verdict on question {proxy.id} is not its answer's"
        steers = verdict.ruling in RULING.values()
        newest = Assertion(verdict.record, asked.artifact, asked.id, asked.digest)
        if asked.kind is Kind.ASSERT and newest not in step.before and not steers:
            yield f"the verdict on question {proxy.id} counts, though its assert was superseded"
        lead = proxy.thread in (record.thread, job_thread(record.id))
        if verdict.record != record.id or verdict.told is not (lead or verdict.ruling is Ruling.WITHDRAW or not steers):
            yield f"the verdict on question {proxy.id} is another record's, or its lead does not hear of it"
        if not record.depth and _abandoned(step.before):
            yield f"the verdict on question {proxy.id} counts, and the human has given {record.id} up"
        if any(v.artifact == asked.artifact for v in step.kept(Verdict, verdict.record)):
            yield f"the verdict on question {proxy.id} leaves an older one on {asked.artifact or 'nothing'}"
    if not made and answer.ruling is not None and record.live and (record.depth or not _abandoned(step.before)):
        current = Assertion(record.id, asked.artifact, asked.id, asked.digest) in step.before
        leads = any(action for action, ruling in RULING.items() if ruling is answer.ruling and _leaves(record, action))
        if leads or (current and asked.kind is Kind.ASSERT):
            yield f"the verdict on question {proxy.id} is lost"


def _leaves(record: Record, action: Action) -> bool:
    return action in TRANSITIONS[record.state]


def assertions_are_the_newest(step: Step) -> Iterator[str]:
    """An assert is a lead's, or its deputy's on what that may assert, and takes the place of the older one."""
    asserted = {q.id: q for q in step.asks() if q.kind is Kind.ASSERT}
    for new in step.new(Assertion):
        asked = asserted.get(new.question)
        if asked is None or (asked.artifact, asked.digest) != (new.artifact, new.digest):
            yield f"[{step.rule}] at {step.at[0]} asserts {new.artifact}, which no agent asserted"
        agent, thread = step.at
        lead = step.had(Record, new.record).thread
        asserts = step.had(Surface, thread, agent).asserts
        deputy = new.artifact in asserts and step.before.parent(thread) == lead
        if thread != lead and not deputy:
            yield f"{agent} on {thread} asserts {new.artifact}, and does not lead {new.record}"
        if any(a.artifact == new.artifact for a in step.kept(Assertion, new.record)):
            yield f"an older assert of {new.artifact} stays in {new.record}"
    if step.lost(Assertion) and step.rule not in ("ask", "send-ask", "transition", "term-record"):
        yield f"[{step.rule}] at {step.at[0]} takes an assertion away"


def _record_of(soup: Soup, thread: str) -> Record:
    here: str | None = thread
    while here is not None:
        record = soup.get(Record, here)
        if record is not None and record.live:
            return record
        here = soup.parent(here)
    return soup.need(Record, soup.charter.job)


def policy_at(soup: Soup, thread: str) -> Policy:
    """The policy of the state that a thread belongs to."""
    record = _record_of(soup, thread)
    return soup.charter.phase(record.state).policy if record.live else Policy.NEVER
