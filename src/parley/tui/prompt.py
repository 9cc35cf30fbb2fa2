"""A prompt: what the user types, and what is done with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from parley.tui.terminal.keys import Pasted

SHORT = 3  # characters of an id that confirm as well as all of it
OPTIONAL = "sends; words are optional"  # where an empty line says something too
LONGEST = 100_000  # characters, as for every other input


@dataclass(slots=True)
class Prompt:
    """A line, or several if they were pasted. Sending it returns a note for the user, or the next prompt."""

    label: str
    send: Callable[[str, int], str | Prompt]
    ways: tuple[str, ...] = ()  # how it may be sent; Tab selects the next
    way: int = 0
    typed: str = field(default="", kw_only=True)
    cancelled: str = field(default="nothing was sent", kw_only=True)  # the note at Esc
    enter: str = field(default="sends", kw_only=True)  # what Enter does
    cursor: int = field(init=False)  # before which character of it something is typed

    def __post_init__(self) -> None:
        self.cursor = len(self.typed)

    @property
    def shown(self) -> str:
        """The text before the typed line."""
        return f"{self.label} [{self.ways[self.way]}]" if self.ways else self.label

    @property
    def keys(self) -> list[str]:
        """The keys meanwhile."""
        return [f"Enter {self.enter}", *(["Tab says when"] if self.ways else []), "Esc cancels"]

    def press(self, key: str) -> bool:
        """Handle a key; whether the line is ready to be sent."""
        before, after = self.typed[: self.cursor], self.typed[self.cursor :]
        if key == "enter":
            return True
        if isinstance(key, Pasted) or len(key) == 1:
            self._change(before + key[: max(0, LONGEST - len(self.typed))], after)
        elif key == "backspace":
            self._change(before[:-1], after)
        elif key == "delete":
            self._change(before, after[1:])
        elif key == "word":
            self._change(before.rstrip()[: -len(_last_word(before)) or None], after)
        elif key == "clear":
            self._change("", "")
        elif key in ("left", "right", "home", "end"):
            ends = {"left": self.cursor - 1, "right": self.cursor + 1, "home": 0, "end": len(self.typed)}
            self.cursor = max(0, min(ends[key], len(self.typed)))
        elif key == "tab" and self.ways:
            self.way = (self.way + 1) % len(self.ways)
        return False

    def _change(self, before: str, after: str) -> None:
        self.typed, self.cursor = before + after, len(before)


def _last_word(text: str) -> str:
    return (text.split() or [""])[-1]


def confirm(job: str, what: str, then: Callable[[], str], otherwise: str = "nothing was withdrawn") -> Prompt:
    """Ask the user to confirm what can't be taken back: any other words, and Esc, cancel."""

    def sure(text: str, way: int) -> str:
        given = text.strip()
        meant = given.lower() in ("y", "yes") or (len(given) >= SHORT and job.startswith(given))
        return then() if meant else otherwise

    return Prompt(f"{what}? type yes or {job[:4]}", sure, cancelled=otherwise, enter="confirms")
