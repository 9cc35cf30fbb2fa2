"""A prompt: a line that the user types, and what is done with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from parley.tui.terminal.keys import Pasted

SHORT = 3  # characters of an id that confirm as well as all of it
OPTIONAL = "sends; words are optional"  # where an empty line says something too
LONGEST = 100_000  # characters, as for every other input


@dataclass(slots=True)
class Prompt:
    """One line. Sending it returns a note for the user, or the next prompt."""

    label: str
    send: Callable[[str, int], str | Prompt]
    ways: tuple[str, ...] = ()  # how it may be sent; Tab selects the next
    way: int = 0
    typed: str = field(default="", kw_only=True)
    cancelled: str = field(default="nothing was sent", kw_only=True)  # the note at Esc
    enter: str = field(default="sends", kw_only=True)  # what Enter does

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


def confirm(job: str, what: str, then: Callable[[], str], otherwise: str = "nothing was withdrawn") -> Prompt:
    """Ask the user to confirm what can't be taken back: any other words, and Esc, cancel."""

    def sure(text: str, way: int) -> str:
        given = text.strip()
        meant = given.lower() in ("y", "yes") or (len(given) >= SHORT and job.startswith(given))
        return then() if meant else otherwise

    return Prompt(f"{what}? type yes or {job[:4]}", sure, cancelled=otherwise, enter="confirms")
