"""The bounds that end loops: how often an instance speaks while nothing comes of it, and what a state has used up.

Every loop of a job goes through a letter down the tree, a question, a backtrack, a lost turn, a PENDING or an
outcome that does not count. Each of these is counted here or in `lifecycle`, and none of the counts grows for ever. A
report to a dispatcher is never refused: it answers a letter that was counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec.structs import replace

from parley.protocol.errors import Exhausted
from parley.protocol.molecules import (
    ORCHESTRATOR,
    PROXY,
    Deliver,
    Hold,
    Payload,
    Question,
    Record,
    Rounds,
    Surface,
    Tally,
)
from parley.protocol.soup import Soup

STUCK = "stuck"  # the cause of a lead's Hold: its turn was lost too often, and its message waits at the head
UNCOUNTED = (ORCHESTRATOR, PROXY)  # other bounds end the rounds of the protocol's own two agents
DEEPEST = 4  # how deep subteams are nested: each may dispatch as often as its dispatcher
IN_ALL = 2  # so many times `exchanges` an instance may speak, whatever comes of it

PENDING, VIOLATION = "pending", "violation"  # what [strike] counts
CRASH, EXCHANGES, REPEATS, BACKTRACKS = "crash", "exchanges", "repeats", "backtracks"


def _speaks(soup: Soup, thread: str, payloads: Sequence[Payload], questions: Sequence[Question]) -> bool:
    above = soup.parent(thread)
    return bool(questions) or any(isinstance(p, Deliver) and p.thread != above for p in payloads)


def _grown(before: Tally, questions: Sequence[Question], *, progress: bool) -> Tally:
    """One exchange more, however many letters a turn sends: what is handed out at once is no loop."""
    vain, total = 1 if progress else before.vain + 1, before.total + 1
    if not questions:
        return replace(before, vain=vain, total=total)
    asked = Counter(dict(before.asked))
    asked.update(question.subject for question in questions if question.subject)
    return replace(before, vain=vain, total=total, asked=tuple(sorted(asked.items())))


def counted(
    soup: Soup,
    agent: str,
    thread: str,
    payloads: Sequence[Payload],
    questions: Sequence[Question] = (),
    *,
    progress: bool = False,
) -> tuple[tuple[Tally, ...], tuple[Tally, ...]]:
    """What a turn's end makes of its instance's count: the one that goes, and the one that comes. Raises Exhausted."""
    if agent in UNCOUNTED or not _speaks(soup, thread, payloads, questions):
        return (), ()
    if soup.need(Surface, thread, agent).rounds is Rounds.FREE:
        return (), ()
    before = soup.get(Tally, thread, agent)
    was = before or Tally(agent, thread)
    after = _grown(was, questions, progress=progress)
    refuse_beyond(soup, was, after)
    return (before,) if before else (), (after,)


def refuse_beyond(soup: Soup, was: Tally, after: Tally) -> None:
    """Say why an instance may not speak once more, or nothing."""
    charter, before = soup.charter, dict(was.asked)
    for subject, times in after.asked:
        if times > max(charter.repeats, before.get(subject, 0)):
            raise Exhausted(
                f"you have asked this {charter.repeats} times, and the human has said nothing new; it is not asked"
                " again: go on with what you were told, or end your turn"
            )
    surface = soup.need(Surface, was.thread, was.agent)
    if surface.rounds is Rounds.TEAM:  # what a turn says is not cut in half: it is refused from the next on
        if was.total >= IN_ALL * charter.exchanges * max(1, len(surface.team)):
            raise Exhausted(f"{was.agent} has sent and asked {was.total} times, and does not come to its end")
    elif after.vain > charter.exchanges:
        raise Exhausted(
            f"you have sent and asked {charter.exchanges} times, and nothing came of it: no file of yours has changed,"
            " and the human has said nothing; end your turn, and say what you have"
        )
    elif after.total > IN_ALL * charter.exchanges:
        raise Exhausted(
            f"you have sent and asked {IN_ALL * charter.exchanges} times here; end your turn, and say what you have"
        )


def heard(soup: Soup, agent: str, thread: str) -> tuple[tuple[Tally, ...], tuple[Tally, ...]]:
    """What the human's word to an instance makes of its count: it may ask anew, though not for ever."""
    before = soup.get(Tally, thread, agent)
    after = replace(before, vain=0, asked=()) if before else None
    return ((), ()) if before is None or after is None or after == before else ((before,), (after,))


def backtracks_left(soup: Soup, record: Record) -> int:
    """How many more backtracks a record has that go by no verdict of the human's own."""
    return soup.charter.backtracks * (1 + record.lifted) - record.circled


def spent(soup: Soup, record: Record) -> tuple[str, ...]:
    """What a record has used up of its bounds: with any of these it may fail, and the human may be asked."""
    charter, tally = soup.charter, soup.get(Tally, record.thread, record.actor)
    vain = tally is not None and (tally.vain >= charter.exchanges or tally.total >= IN_ALL * charter.exchanges)
    again = tally is not None and any(times >= charter.repeats for _, times in tally.asked)
    found = {
        CRASH: Hold(record.thread, STUCK) in soup,
        EXCHANGES: vain,
        REPEATS: again,
        PENDING: record.pendings >= charter.retry_budget,
        VIOLATION: record.violations >= charter.retry_budget,
        BACKTRACKS: backtracks_left(soup, record) <= 0,
    }
    return tuple(name for name, used_up in found.items() if used_up)
