"""The laws of the bounds that end loops: what is counted, what clears a count, and what no count exceeds.

Like every law they share no code with the rules.
"""

from __future__ import annotations

from collections.abc import Iterator

from parley.protocol.molecules import (
    HUMAN,
    ORCHESTRATOR,
    PROXY,
    Close,
    Hold,
    Parent,
    Proxy,
    Question,
    Record,
    Rounds,
    Surface,
    Tally,
    Verdict,
    escalation_thread,
)
from parley.protocol.rule import Asking, Broadcast
from parley.protocol.soup import Soup
from parley.verify.step import Step


def speech_is_counted(step: Step) -> Iterator[str]:
    """A letter down the tree and a question are counted and bounded; progress, the human's word and a dialog clear."""
    made, lost = step.new(Tally), step.lost(Tally)
    if step.rule in ("send-step", "ask-step"):
        yield from _spoken(step, made, lost)
        return
    due: list[Tally] = []
    if step.rule == "respond":
        proxy = step.had(Proxy, escalation_thread(step.at[0]))
        old = step.before.get(Tally, proxy.thread, proxy.agent)
        if old is not None and proxy.heard and (old.vain or old.asked):
            due = [Tally(old.agent, old.thread, 0, old.total)]
    if made != due:
        yield f"[{step.rule}] at {step.at[-1]} counts {made}"
    if step.rule == "term-final":
        return
    cleared = [old] if due and (old := step.before.get(Tally, due[0].thread, due[0].agent)) else []
    if step.rule == "dialog":
        cleared = list(step.before.all(Tally, step.had(Record, step.at[0]).thread))
    if lost != cleared:
        yield f"[{step.rule}] at {step.at[-1]} forgets how often was sent and asked"
    if step.rule == "escalate":
        asked = len(step.had(Proxy, escalation_thread(step.at[0])).words)
        if asked >= step.before.charter.repeats:
            yield f"the human is asked {asked + 1} times on question {step.at[0]}"


def _spoken(step: Step, made: list[Tally], lost: list[Tally]) -> Iterator[str]:
    agent, thread = step.at
    chosen: Broadcast | Asking = step.choice
    asked: tuple[Question, ...] = chosen.questions
    down = int(bool(asked))
    for payload in chosen.payloads if isinstance(chosen, Broadcast) else ():
        down |= not isinstance(payload, Close) and Parent(thread, payload.thread) not in step.before
    old = step.before.get(Tally, thread, agent)
    surface = step.before.get(Surface, thread, agent)
    free = agent in (ORCHESTRATOR, PROXY) or (surface is not None and surface.rounds is Rounds.FREE)
    if not down or free:
        if made or lost:
            yield f"{agent} on {thread} says nothing that counts, and its count changes"
        return
    times = dict(old.asked) if old else {}
    for question in asked:
        what = question.artifact or question.key
        if what:
            times[what] = times.get(what, 0) + 1
    vain = down + (old.vain if old and not chosen.progress else 0)
    due = Tally(
        agent=agent,
        thread=thread,
        vain=vain,
        total=down + (old.total if old else 0),
        asked=tuple(sorted(times.items())),
    )
    if made != [due] or lost != ([old] if old else []):
        yield f"{agent} on {thread} is counted as {made}, not as {due}"
    yield from _beyond(step.before, due, down)


def _beyond(soup: Soup, tally: Tally, down: int) -> Iterator[str]:
    limit = soup.charter.exchanges
    if any(times > soup.charter.repeats for _, times in tally.asked):
        yield f"{tally.agent} on {tally.thread} asks the same once too often"
    surface = soup.get(Surface, tally.thread)
    if surface is not None and surface.rounds is Rounds.TEAM:
        if tally.total - down >= 2 * limit * max(1, len(surface.team)):
            yield f"{tally.agent} on {tally.thread} goes on after it has sent in {tally.total - down} of its turns"
    elif tally.vain > limit or tally.total > 2 * limit:
        yield f"{tally.agent} on {tally.thread} speaks once too often: {tally.vain} of {tally.total} times in vain"


def used_up(soup: Soup, record: Record) -> set[str]:
    """What a record has used up of its bounds, told once more."""
    charter, found = soup.charter, set()
    if record.pendings >= charter.retry_budget:
        found.add("pending")
    if record.violations >= charter.retry_budget:
        found.add("violation")
    if any(hold.cause == "stuck" for hold in soup.all(Hold, record.thread)):
        found.add("crash")
    for tally in soup.all(Tally, record.thread):
        if max(2 * tally.vain, tally.total) >= 2 * charter.exchanges:
            found.add("exchanges")
        if any(times >= charter.repeats for _, times in tally.asked):
            found.add("repeats")
    if record.circled >= charter.backtracks + charter.backtracks * record.lifted:
        found.add("backtracks")
    return found


def backtrack_counts(step: Step, record: Record, ruling: str | None) -> bool:
    """Whether a backtrack of a record counts: no verdict of the human's own asks for it."""
    return not any(v.author == HUMAN and v.ruling == ruling for v in step.before.all(Verdict, record.id))
