"""The menu of a question: options that the human may choose besides the protocol's verdicts.

An option is chosen only by its command. Words never choose: they accompany the choice, or are advice without one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

HEADING = (
    "What you can choose, each by its command (words may follow it):"  # from here on a question is not its asker's
)
RETRY, ABANDON, STOP, FAIL = NAMES = ("retry", "abandon", "stop", "fail")

# A verifier's verdicts: `blocked` means that a decision is needed from above.
JUDGEMENTS = ("verified", "rejected", "blocked")


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its name, what it does, the verdict that means the same here, and what follows from it."""

    name: str
    does: str  # in a few words
    verdict: str = ""
    then: str = ""

    @property
    def effect(self) -> str:
        """What it does, with what follows."""
        return f"{self.does}; {self.then}" if self.then else self.does

    def document(self) -> dict[str, str]:
        """The option as `--json` gives it."""
        return {"name": self.name, "does": self.effect, **({"verdict": self.verdict} if self.verdict else {})}


@dataclass(frozen=True, slots=True)
class Menu:
    """The options of one question, and the effect of words without one."""

    options: tuple[Option, ...] = ()
    words: str = ""

    def get(self, name: str) -> Option | None:
        """The option of that name."""
        return next((option for option in self.options if option.name == name), None)

    def meant(self, choice: str, ruling: str) -> str:
        """The option that an answer chooses: by its name, or by the verdict that means the same; empty: none."""
        return choice or next((one.name for one in self.options if ruling and one.verdict == ruling), "")

    def slip(self, text: str) -> str:
        """The option whose name is the whole text: the human meant to choose it, but words choose nothing."""
        said = text.strip().strip(".!`'\"").casefold()
        return said if self.get(said) is not None else ""


NO_MENU = Menu()


def command(question: str, name: str) -> str:
    """The command that chooses an option of a question."""
    return f"parley answer {question} --{name}"


def listed(question: str, menu: Menu, verdicts: Iterable[tuple[str, str]] = ()) -> str:
    """A menu as a question shows it: each option and verdict with its command, then the effect of words."""
    lines = [HEADING]
    for option in menu.options:
        same = f" (so does --{option.verdict})" if option.verdict else ""
        lines.append(f"- {option.name}: {option.effect}{same}: {command(question, option.name)}")
    lines += [f"- {does}: {command(question, flag)}" for flag, does in verdicts]
    return "\n".join([*lines, f"Words without one of these choose nothing: {menu.words}."])


def refusal(menu: Menu, choice: Any) -> str:
    """Why a choice can't be taken; empty: it can."""
    if choice is None or (isinstance(choice, str) and menu.get(choice) is not None):
        return ""
    names: Sequence[str] = [option.name for option in menu.options]
    has = f"it has: {', '.join(names)}" if names else "it has none; answer with a verdict or in words"
    return f"{choice!r:.40} is not a choice of this question; {has}"
