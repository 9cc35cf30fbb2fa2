"""Tells the human when something starts to need them, and when a job has ended: each once.

What is told is short and holds nothing of an agent's but the beginning of its words, in which nothing works: no link,
no mention, no markup, no control character.
"""

from __future__ import annotations

import re

from parley.core.terms import AskHuman, Hold, Interrupt
from parley.engine.attention import Need, needs
from parley.engine.budgets import Line
from parley.engine.live import LiveJob
from parley.engine.texts import excerpt
from parley.engine.world import Silence, World
from parley.notices import Notice
from parley.text import printable

NEEDS, DONE = "needs", "done"
WORDS = 120  # characters of what somebody else wrote
_KINDS = {
    "question": "a question for you",
    "gate": "{artifact} waits for your verdict",
    "failure": "it can't go on without you",
    "budget": "a budget is spent",
    "stall": "an agent shows no sign of life",
    "undelivered": "your words reached no agent",
}


class Herald:
    """Looks at jobs for what needs the human. It reads the bus only when something has changed that could."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._seen: dict[str, frozenset[object]] = {}
        self._silent = isinstance(world.notices, Silence)

    def look(self, live: LiveJob) -> None:
        """Tell of what has come up since the last look. All that the soup holds is committed."""
        if self._silent:
            return
        now = frozenset[object]((*live.soup.of(AskHuman), *live.soup.of(Hold), *live.soup.of(Interrupt)))
        if now == self._seen.get(live.job, frozenset()):
            return
        self._seen[live.job] = now
        for need in needs(self._world.store, self._world.files, [live.row]):
            self._world.notices.tell(self._notice(live, need))

    def nearly(self, live: LiveJob, line: Line) -> None:
        """Tell that a budget is nearly spent."""
        name = f"{live.job}.nearly.{line.scope}.{line.what}.{line.limit:g}"
        text = f"job {live.job}: {self._plain(live.row.request)}\n{line.words()}\nparley show {live.job}"
        self._world.notices.tell(Notice(name, live.job, NEEDS, "a budget is nearly spent", text))

    def ended(self, live: LiveJob) -> None:
        """Tell that a job has come to its end."""
        self._seen.pop(live.job, None)
        text = f"job {live.job}: {self._plain(live.row.request)}\nparley show {live.job}"
        state = str(live.record.state)
        for need in needs(self._world.store, self._world.files, [live.row]):
            self._world.notices.tell(self._notice(live, need))
        self._world.notices.tell(Notice(f"{live.job}.ended", live.job, DONE, f"{state}: {live.job}", text))

    def _notice(self, live: LiveJob, need: Need) -> Notice:
        title = _KINDS.get(need.kind, need.kind).format(artifact=need.artifact)
        said = self._plain(need.headline)
        stat = need.asked.stat if need.asked else None
        lines = (
            f"job {need.job} ({need.state}): {self._plain(live.row.request)}",
            f"{need.who}: {said}" if need.who else said,
            *([f"{self._plain(stat.words())}; see it: parley diff {need.job}"] if stat else ()),
            *([self._plain(stat.warning_words())] if stat and stat.warning_words() else ()),
            f"parley inbox {need.id}",
        )
        # a question that is put anew needs the human anew
        name = f"{need.id}.{need.asked.framing}" if need.asked else need.id
        return Notice(name, need.job, NEEDS, title, "\n".join(lines))

    def _plain(self, text: str) -> str:
        """Somebody's words, redacted before they are cut, with nothing left in them that a service would act on."""
        words = excerpt(self._world.secrets.redact(text), WORDS)
        shown = printable(words)
        return re.sub(r"[<>`*_\[\]|@#\\]", " ", shown.replace("://", ": //")).strip()
