"""What can be said to a question, key by key, and how it is put to people."""

from __future__ import annotations

from typing import NamedTuple

from parley.engine.projections import Asked
from parley.options import ABANDON, FAIL, RETRY, STOP, Option

KEYS = {RETRY: "a", ABANDON: "n", STOP: "o", FAIL: "f"}
BACK = {"intent": "i", "plan": "p"}


class Choice(NamedTuple):
    """One way to answer: what the key is called, the verdict, or what is chosen of the question's menu."""

    label: str
    ruling: str | None
    option: str | None = None

    def gives_up(self, asked: Asked) -> str:
        """What ends with this answer for good, in words; empty: nothing does."""
        if self.ruling == "withdraw":
            return f"give up {asked.stake} for good"
        return {FAIL: "let the job fail", ABANDON: self.label, STOP: "stop the workflow"}.get(self.option or "", "")


def choices(asked: Asked) -> dict[str, Choice]:
    """The keys that answer a question."""
    words, give_up = Choice("answer", None), Choice("give up the job", "withdraw")
    yes, no = Choice("approve", "approve"), Choice("revise", "revise")
    chosen = {KEYS[option.name]: Choice(_label(option), None, option.name) for option in asked.menu.options}
    if asked.kind == "question":
        if chosen:
            said = Choice("answer in words", None)
            return {"a": Choice("let it go on", "approve"), **chosen, "t": said, "w": give_up}
        return {"t": words, "a": yes, "r": no, "w": give_up}
    back = {BACK[state]: Choice(f"back to {state}", f"backtrack {state}") for state in asked.backtracks}
    if asked.kind == "failure":
        yes, no = Choice("try again", "approve"), Choice("try again with advice", "revise")
        return {
            "a": yes,
            "r": no,
            **back,
            "w": give_up,
            **{key: choice for key, choice in chosen.items() if key != "a"},
        }
    return {"a": yes, "r": no, **back, **chosen, "w": give_up, "t": words}


def _label(option: Option) -> str:
    """What a key is called: the option in a few words."""
    return option.does.partition(";")[0]


def about(asked: Asked) -> str:
    """Who asks, and about what: one line."""
    return f"{asked.asker} asks ({asked.state}{f', {asked.artifact}' if asked.artifact else ''})"


def words_of(asked: Asked) -> str:
    """What is asked, without what its head says; at the work gate, before it, what was changed."""
    words = asked.body.partition(": " if asked.artifact else "\n")[2] or asked.body
    if asked.stat is None:
        return words
    return "\n".join(line for line in (f"{asked.stat.words()} (d shows it)", asked.stat.warning_words(), words) if line)
