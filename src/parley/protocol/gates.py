"""The gates: which outcome of a state counts, and on whose word.

An approval is bound to what it approved. It comes from [respond] alone, it is superseded by the next verdict, and it is
worth nothing once the content is another.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec.structs import replace

from parley.protocol.bounds import backtracks_left, spent
from parley.protocol.errors import Exhausted, Refused
from parley.protocol.molecules import (
    BACKWARD,
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
    Record,
    Ruling,
    Send,
    Surface,
    Verdict,
    job_thread,
)
from parley.protocol.rule import Answer, Passage
from parley.protocol.soup import Soup
from parley.protocol.states import ACTION_TO_STATE, APPROVAL, LIVE, Action, is_backtrack, skill_outcomes
from parley.protocol.transitions import transition

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


# ---- companions: an artifact may bring one along, approved with it and carried through before the job is done

JOIN = "+"  # between an artifact's own digest and its companion's
CLEAR, BLOCKED = "clear", "blocked"  # what an outcome says of a companion: carried through, or not yet


def has_companion(digest: str) -> bool:
    """Whether an artifact of this digest brings a companion along."""
    return JOIN in digest


def own_digest(digest: str) -> str:
    """The digest of an artifact alone."""
    return digest.partition(JOIN)[0]


def companion_of(digest: str) -> str:
    """The digest of what an artifact brings along; empty: nothing."""
    return digest.partition(JOIN)[2]


def standing(artifact: str) -> str:
    """What the standing of an artifact's companion is called among the contents that an outcome is about."""
    return f"{artifact}{JOIN}"


# ---- asserts and verdicts ------------------------------------------------------------------------


def refuse_assert(soup: Soup, record: Record, thread: str, question: Question) -> None:
    """Only who speaks for a record asserts, and only what its state or an earlier one produces.

    What the proxy has sent back is not asserted again as it is: the two could go on like that for ever,
    with no human to end it. A human may be asked as often as the lead likes.
    """
    reached = _artifacts(soup, record) if record.live else []
    if not may_assert(soup, record, thread, question.artifact):
        raise Refused("only the lead of a state may assert an artifact")
    if question.artifact not in reached:
        known = ", ".join(reached) or "none, the job has ended"
        raise Refused(f"{question.artifact!r} is not an artifact of this state; assert one of: {known}")
    if not question.digest:
        raise Refused(f"{question.artifact} does not exist; write it before you assert it")
    sent_back = Verdict(
        record=record.id,
        artifact=question.artifact,
        ruling=Ruling.REVISE,
        digest=question.digest,
        author=PROXY,
        question="",
    )
    if any(replace(v, question="", answer="") == sent_back for v in soup.all(Verdict, record.id)):
        raise Refused(f"{question.artifact} is what was sent back; change it before you assert it again")


def may_assert(soup: Soup, record: Record, thread: str, artifact: str) -> bool:
    """Whether the instance on a thread speaks for the record on an artifact: its lead, or a deputy right below it."""
    if record.thread == thread:
        return True
    surface = soup.get(Surface, thread)
    return surface is not None and artifact in surface.asserts and soup.parent(thread) == record.thread


def assertion(soup: Soup, record: Record, question: Question) -> tuple[tuple[Assertion, ...], Assertion]:
    """The assertion that a question makes, and the ones it supersedes."""
    older = tuple(a for a in soup.all(Assertion, record.id) if a.artifact == question.artifact)
    return older, Assertion(record.id, question.artifact, question.id, question.digest)


def verdict(
    soup: Soup, record: Record, thread: str, question: Question, answer: Answer
) -> tuple[tuple[Verdict, ...], tuple[Verdict, ...]]:
    """The verdicts that an answer supersedes, and the one it makes, if it makes one.

    A withdrawal gives the job up, and a backtrack leads the enclosing record back, for any asker and whatever was
    asserted since. Any other verdict is words only where it is given to an agent that does not lead the record, or
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
        record=record.id,
        artifact=question.artifact,
        ruling=ruling,
        digest=question.digest,
        author=answer.author,
        question=question.id,
        answer=answer.message,
        told=told,
    )
    return older, (made,)


# ---- outcomes ------------------------------------------------------------------------------------


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
        _refuse_alone(soup, record, passage)
        _refuse_unfinished(soup, record, passage)
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
    artifact = soup.charter.phase(record.state).artifact
    inherited = any(name == artifact for name, _ in record.approved)
    if inherited or (record.depth and record.state is LIVE[0]):
        return  # a subteam acknowledges the intent it was given; checked above to be untouched
    if not any(name == artifact for name, _ in live):
        raise Refused(f"{artifact} has no live approval; assert it and wait for the verdict")
    if (artifact, contents.get(artifact, "")) not in live:
        raise Refused(f"{artifact} was changed after it was approved; assert it again")


def _refuse_alone(soup: Soup, record: Record, passage: Passage) -> None:
    """An artifact that the charter wants a companion of is not approved alone."""
    artifact = soup.charter.phase(record.state).artifact
    alone = not has_companion(dict(passage.contents).get(artifact, ""))
    if not record.depth and artifact in soup.charter.companions and alone:
        raise Refused(f"{artifact} has to bring its companion along; assert it with that")


def _refuse_unfinished(soup: Soup, record: Record, passage: Passage) -> None:
    """A companion that is not carried through keeps the job from being done: no agent's word makes up for it."""
    if record.depth or record.state is not LIVE[-1]:
        return
    contents = dict(passage.contents)
    for artifact in _artifacts(soup, record):
        if has_companion(contents.get(artifact, "")) and contents.get(standing(artifact)) != CLEAR:
            raise Refused(f"what {artifact} brings along is not carried through; have it carried through first")


def _artifacts(soup: Soup, record: Record) -> list[str]:
    """What a live record's state and the states before it produce, upstream first."""
    return [phase.artifact for phase in soup.charter.phases[: LIVE.index(record.state) + 1]]


def moved(soup: Soup, record: Record, passage: Passage) -> Record:
    """The record after an outcome that counts: led by whom the charter says, with what stands approved then."""
    action, target = passage.action, ACTION_TO_STATE[passage.action]
    lead = record.team_id if record.depth else soup.charter.phase(target).lead if target in LIVE else ""
    after = transition(record, action, lead=lead, actor=passage.actor, at=passage.timestamp, reason=passage.reason)
    if not is_backtrack(record.state, action):
        return after
    void = {phase.artifact for phase in soup.charter.phases[LIVE.index(target) :]}
    if record.depth:  # the intent that a subteam inherited is not its own to void
        void.discard(soup.charter.phases[0].artifact)
    return replace(after, approved=tuple(pair for pair in record.approved if pair[0] not in void))


def approvals(soup: Soup, record: Record, passage: Passage) -> tuple[tuple[str, str], ...]:
    """What stands approved after a forward passage: content by artifact, upstream first."""
    contents = dict(passage.contents)
    return tuple((name, contents[name]) for name in _artifacts(soup, record) if contents.get(name))
