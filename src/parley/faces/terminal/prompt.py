"""A line that is being typed, and what becomes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from parley.faces.terminal.keys import Pasted

SHORT = 3  # characters of an id that confirm as well as all of it
LONGEST = 100_000  # characters, as for every other input


@dataclass(slots=True)
class Prompt:
    """One line. Sending it gives a note for the human, or the next line to be typed."""

    label: str
    send: Callable[[str, int], str | Prompt]
    ways: tuple[str, ...] = ()  # how it may be sent; Tab goes on to the next
    way: int = 0
    typed: str = field(default="", kw_only=True)

    @property
    def shown(self) -> str:
        """What stands before the words."""
        return f"{self.label} [{self.ways[self.way]}]" if self.ways else self.label

    @property
    def keys(self) -> list[str]:
        """What can be pressed meanwhile."""
        return ["Enter sends", *(["Tab when"] if self.ways else []), "Esc cancels"]

    def press(self, key: str) -> bool:
        """Take a key; whether the line is ready to be sent."""
        if key == "enter":
            return True
        if isinstance(key, Pasted) or len(key) == 1:
            self.typed = (self.typed + key)[:LONGEST]
        elif key == "backspace":
            self.typed = self.typed[:-1]
        elif key == "word":
            self.typed = self.typed.rstrip().rpartition(" ")[0]
        elif key == "clear":
            self.typed = ""
        elif key == "tab" and self.ways:
            self.way = (self.way + 1) % len(self.ways)
        return False


def confirm(job: str, what: str, then: Callable[[], str]) -> Prompt:
    """Have the human say once more that something is to be given up: any other words, and Esc, leave it as it is."""

    def sure(text: str, way: int) -> str:
        given = text.strip()
        meant = given.lower() in ("y", "yes") or (len(given) >= SHORT and job.startswith(given))
        return then() if meant else "nothing was withdrawn"

    return Prompt(f"{what}? type yes or {job[:4]}", sure)
