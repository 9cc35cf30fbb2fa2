"""What needs the human, as notices tell it: in a few short lines."""

from __future__ import annotations

from collections.abc import Callable

from parley.bus.rows import JobRow
from parley.bus.store import Store
from parley.ports.machine import Files
from parley.ports.notices import NEEDS, Notice, PutQuestion
from parley.views.questions.needs import Need, needs

_TITLES = {
    "question": "a question for you",
    "gate": "{artifact} waits for your verdict",
    "failure": "it can't go on without you",
    "budget": "a budget is spent",
    "stall": "an agent shows no sign of life",
    "unreadable": "its record can't be read",
    "undelivered": "your words reached no agent",
}


def need_notices(store: Store, files: Files, row: JobRow, inert: Callable[[str], str]) -> list[Notice]:
    """All that needs the human in a job. `inert` takes all that works out of another's words."""
    return [_notice(need, row, inert) for need in needs(store, files, [row])]


def _notice(need: Need, row: JobRow, inert: Callable[[str], str]) -> Notice:
    said, stat = inert(need.headline), need.asked.stat if need.asked else None
    lines = (
        f"job {need.job} ({need.state}): {inert(row.request)}",
        f"{need.who}: {said}" if need.who else said,
        *([f"{inert(stat.words())}; see it: parley diff {need.job}"] if stat else ()),
        *([inert(stat.warning_words())] if stat and stat.warning_words() else ()),
        f"parley inbox {need.id}",
    )
    title = _TITLES.get(need.kind, need.kind).format(artifact=need.artifact)
    # a question that is put anew needs the human anew
    asked = need.asked
    name = f"{need.id}.{asked.framing}" if asked else need.id
    about = PutQuestion(asked.id, asked.framing, asked.digest, row.decider) if asked else None
    return Notice(id=name, job=need.job, occasion=NEEDS, title=title, text="\n".join(lines), about=about)
