"""The gates: which outcome counts, and on whose word.

An approval is bound to what it approved. It comes from [respond] alone, it is superseded by the next
verdict, and it is worth nothing once the content is another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from parley.core.bounds import backtracks_left, spent
from parley.core.errors import Exhausted, Refused
from parley.core.rule import Answer, Passage
from parley.core.soup import Soup
from parley.core.states import APPROVAL, LIVE, PHASES, Action, Record, State, is_backtrack, skill_outcomes
from parley.core.terms import (
    BACKWARD,
    EXECUTOR,
    HUMAN,
    ORCHESTRATOR,
    PROXY,
    STEERING,
    AskHuman,
    AskQuestion,
    Assertion,
    Interrupt,
    Kind,
    Proxy,
    Question,
    Ruling,
    Send,
    Surface,
    Verdict,
    job_thread,
)

JOIN = "+"  # in a plan's digest, before that of the workflow's design which the plan brings along
GATE = "overall_completion_drive_gate"  # of a workflow, among the contents that an outcome is about
CLEAR, BLOCKED = "clear", "blocked"

UNDESIGNED = (
    "the human has activated the workflow architect, and this plan has no workflow; have one designed by"
    " architecture-group, then assert PLAN.md with it"
)

NEEDS: Mapping[Action, Ruling] = MappingProxyType(
    {
        Action.REALIGN: Ruling.BACKTRACK_INTENT,
        Action.REPLAN: Ruling.BACKTRACK_PLAN,
        Action.WITHDRAW: Ruling.WITHDRAW,
    }
)


REACHES: Mapping[Ruling, Action] = MappingProxyType({ruling: action for action, ruling in NEEDS.items()})


def given_up(soup: Soup) -> Verdict | None:
    """The human's word that the job is given up, where it is not carried out yet. Nothing supersedes it."""
    for verdict in soup.all(Verdict, soup.charter.job):
        if verdict.ruling is Ruling.WITHDRAW and verdict.author == HUMAN:
            return verdict
    return None


def has_workflow(digest: str) -> bool:
    """Whether what was approved as a plan had a workflow with it."""
    return JOIN in digest


def refuse_assert(soup: Soup, record: Record, thread: str, question: Question) -> None:
    """Only a record's lead asserts, or its executor the plan, and only what its state or an earlier one produces.

    What the proxy has sent back is not asserted again as it is: the two could go on like that for ever,
    with no human to end it. A human may be asked as often as the lead likes.
    """
    reached = [PHASES[state].artifact for state in LIVE[: LIVE.index(record.state) + 1]] if record.live else []
    if not may_assert(soup, record, thread, question.artifact):
        raise Refused("only the lead of a state may assert an artifact")
    if question.artifact not in reached:
        known = ", ".join(reached) or "none, the job has ended"
        raise Refused(f"{question.artifact!r} is not an artifact of this state; assert one of: {known}")
    if not question.digest:
        raise Refused(f"{question.artifact} does not exist; write it before you assert it")
    sent_back = Verdict(record.id, question.artifact, Ruling.REVISE, question.digest, PROXY, "")
    if any(replace(v, question="", answer="") == sent_back for v in soup.all(Verdict, record.id)):
        raise Refused(f"{question.artifact} is what was sent back; change it before you assert it again")


def may_assert(soup: Soup, record: Record, thread: str, artifact: str) -> bool:
    """Whether whoever works on the thread speaks for the record: its lead, or of the plan the executor below it."""
    if record.thread == thread:
        return True
    executes = soup.get(Surface, thread, EXECUTOR) is not None and soup.parent(thread) == record.thread
    return executes and artifact == PHASES[State.PLAN].artifact


def assertion(soup: Soup, record: Record, question: Question) -> tuple[tuple[Assertion, ...], Assertion]:
    """The assertion that a question makes, and the ones it supersedes."""
    older = tuple(a for a in soup.all(Assertion, record.id) if a.artifact == question.artifact)
    return older, Assertion(record.id, question.artifact, question.id, question.digest)


def verdict(
    soup: Soup, record: Record, thread: str, question: Question, answer: Answer
) -> tuple[tuple[Verdict, ...], tuple[Verdict, ...]]:
    """The verdicts that an answer supersedes, and the one it makes, if it makes one.

    A withdrawal gives the job up, and a backtrack leads the enclosing record back, whoever has asked and whatever was
    put forward since. Any other verdict is words only where it is given to an agent that does not lead the record, or
    on an assert that a newer one has superseded.
    """
    ruling = answer.ruling
    if ruling is Ruling.WITHDRAW:
        record = soup.need(Record, soup.charter.job)
    if ruling is None or not record.live or (record.id == soup.charter.job and given_up(soup) is not None):
        return (), ()
    own = thread in (record.thread, job_thread(record.id))
    if ruling not in STEERING:
        current = Assertion(record.id, question.artifact, question.id, question.digest)
        if current not in soup if question.kind is Kind.ASSERT else not own:
            return (), ()
    elif not own and REACHES[ruling] not in skill_outcomes(record.state):
        return (), ()
    older = tuple(
        v
        for v in soup.all(Verdict, record.id)
        if ruling in STEERING or v.artifact == question.artifact or v.ruling in STEERING
    )
    told = own or ruling not in BACKWARD
    made = Verdict(
        record.id, question.artifact, ruling, question.digest, answer.author, question.id, answer.message, told
    )
    return older, (made,)


def refuse_passage(soup: Soup, record: Record, passage: Passage) -> None:
    """Say why an outcome does not count, or nothing."""
    if passage.actor == HUMAN:
        if passage.action is not Action.WITHDRAW:
            raise Refused("the human moves a job by verdicts; only WITHDRAW is theirs to give directly")
        return
    gives_up = passage.action is Action.WITHDRAW
    if not gives_up and record.id == soup.charter.job and given_up(soup) is not None:
        raise Refused("the human has given the job up; write WITHDRAW with their reason")
    if passage.action is Action.FAILURE:
        if passage.actor != ORCHESTRATOR:
            raise Refused("FAILURE is the orchestrator's to emit")
        if not spent(soup, record) and not record.dialogs:
            raise Refused("the state may still be retried")
        return
    if passage.action not in skill_outcomes(record.state):
        allowed = ", ".join(skill_outcomes(record.state))
        raise Refused(f"{passage.action} is not an outcome of {record.state}; write one of: {allowed}")
    if gives_up:
        if given_up(soup) is None:
            other = ", or tell your dispatcher what keeps you from your task" if record.depth else ""
            raise Refused(f"WITHDRAW needs the verdict 'withdraw'; ask first{other}. Only the human gives it")
        return
    if passage.actor != ORCHESTRATOR:
        _refuse_unheard(soup, record)
    if passage.action is APPROVAL[record.state]:
        _refuse_unapproved(soup, record, passage)
        _refuse_undesigned(soup, record, passage)
        _refuse_unclear(record, passage)
    elif not record.depth and not _rulings(soup, record) & {NEEDS[passage.action]}:
        raise Refused(f"{passage.action} needs the verdict '{NEEDS[passage.action]}'; ask first")
    _refuse_circling(soup, record, passage.action)


def circles(soup: Soup, record: Record, action: Action) -> bool:
    """Whether an outcome leads back, and no verdict of the human's own asks for that."""
    own = any(v.ruling is NEEDS.get(action) and v.author == HUMAN for v in soup.all(Verdict, record.id))
    return is_backtrack(record.state, action) and not own


def _refuse_circling(soup: Soup, record: Record, action: Action) -> None:
    if circles(soup, record, action) and backtracks_left(soup, record) <= 0:
        raise Exhausted(
            f"{action} does not count: it went back {record.circled} times already, and not on the human's word"
        )


def _refuse_unheard(soup: Soup, record: Record) -> None:
    send = soup.get(Send, record.thread)
    asks = soup.get(AskQuestion, record.thread) is not None or (send is not None and send.questions)
    put = (*soup.all(Proxy, record.thread), *soup.all(AskHuman, record.thread))
    if asks or put:
        raise Refused("a question of yours is still open; wait for its answer")
    for thread in (record.thread, job_thread(record.id)):
        if any(i.authoritative for i in soup.all(Interrupt, thread)):
            raise Refused("an authoritative intervention waits for you; take it up first")


def _rulings(soup: Soup, record: Record) -> set[Ruling]:
    return {v.ruling for v in soup.all(Verdict, record.id)}


def _refuse_unapproved(soup: Soup, record: Record, passage: Passage) -> None:
    contents = dict(passage.contents)
    live = {(v.artifact, v.digest) for v in soup.all(Verdict, record.id) if v.ruling is Ruling.APPROVE}
    for artifact, digest in record.approved:
        now = contents.get(artifact, "")
        if now != digest and (artifact, now) not in live:
            raise Refused(f"{artifact} is not what was approved; restore it or assert it again")
    artifact = PHASES[record.state].artifact
    inherited = any(name == artifact for name, _ in record.approved)
    if inherited or (record.depth and record.state is LIVE[0]):
        return  # a subteam acknowledges the intent it was given; checked above to be untouched
    if not any(name == artifact for name, _ in live):
        raise Refused(f"{artifact} has no live approval; assert it and wait for the verdict")
    if (artifact, contents.get(artifact, "")) not in live:
        raise Refused(f"{artifact} was changed after it was approved; assert it again")


def _refuse_undesigned(soup: Soup, record: Record, passage: Passage) -> None:
    """Where the human has activated the workflow architect, a plan without a workflow is not what they asked for."""
    plan = dict(passage.contents).get(PHASES[State.PLAN].artifact, "")
    if soup.charter.activated and record.state is State.PLAN and not record.depth and not has_workflow(plan):
        raise Refused(UNDESIGNED)


def _refuse_unclear(record: Record, passage: Passage) -> None:
    """A workflow that is not through keeps the work from being done: nobody's word makes up for it."""
    contents = dict(passage.contents)
    plan = contents.get(PHASES[State.PLAN].artifact, "")
    if record.state is State.EXECUTE and not record.depth and has_workflow(plan) and contents.get(GATE) != CLEAR:
        raise Refused(f"{GATE} is blocked; have the workflow carried through first")


def approvals(soup: Soup, record: Record, passage: Passage) -> tuple[tuple[str, str], ...]:
    """What stands approved after a forward passage: content by artifact, upstream first."""
    contents = dict(passage.contents)
    artifacts = [PHASES[state].artifact for state in LIVE[: LIVE.index(record.state) + 1]]
    return tuple((name, contents[name]) for name in artifacts if contents.get(name))
