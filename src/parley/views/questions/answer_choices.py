"""The ways to answer a question, each with its key, and how a question is shown: the same for every face."""

from __future__ import annotations

from typing import NamedTuple

from parley.base.options import ABANDON, FAIL, RETRY, STOP
from parley.engine.protocol_messages import review
from parley.engine.values.human_inputs import AnswerInput
from parley.protocol.molecules import Ruling
from parley.views.job_view import Asked

KEYS = {RETRY: "a", ABANDON: "n", STOP: "o", FAIL: "f"}
BACK = {"intent": "i", "plan": "p"}


class AnswerChoice(NamedTuple):
    """One way to answer: the key's label, and the verdict or the menu's option."""

    label: str
    ruling: str | None
    option: str | None = None

    def gives_up(self, asked: Asked) -> str:
        """What this answer ends for good, in words; empty: nothing."""
        if self.ruling == "withdraw":
            return f"give up {asked.stake} for good"
        return {FAIL: "let the job fail", ABANDON: self.label, STOP: "stop the workflow"}.get(self.option or "", "")

    def as_input(self, asked: Asked) -> AnswerInput:
        """This answer as it would be given, for who may give it."""
        ruling = Ruling(self.ruling) if self.ruling else None
        return AnswerInput(question=asked.id, framing=asked.framing, ruling=ruling, choice=self.option or "", text="-")


def choices(asked: Asked) -> dict[str, AnswerChoice]:
    """The keys that answer a question."""
    words, give_up = AnswerChoice("answer in words", None), AnswerChoice("give up the job", "withdraw")
    yes, no = AnswerChoice("approve", "approve"), AnswerChoice("revise", "revise")
    chosen = {KEYS[option.name]: AnswerChoice(option.does, None, option.name) for option in asked.menu.options}
    if asked.kind == "question":
        if chosen:
            said = AnswerChoice("answer in words", None)
            return {"a": AnswerChoice("let it go on", "approve"), **chosen, "t": said, "w": give_up}
        return {
            "t": words,
            "a": AnswerChoice("say yes", "approve"),
            "r": AnswerChoice("say no, and why", "revise"),
            "w": give_up,
        }
    back = {BACK[state]: AnswerChoice(f"back to {state}", f"backtrack {state}") for state in asked.backtracks}
    if asked.kind == "failure":
        yes, no = AnswerChoice("try again", "approve"), AnswerChoice("try again with advice", "revise")
        return {
            "a": yes,
            "r": no,
            **back,
            "w": give_up,
            **{key: choice for key, choice in chosen.items() if key != "a"},
        }
    return {"a": yes, "r": no, **back, **chosen, "w": give_up, "t": words}


def about(asked: Asked) -> str:
    """Who asks about what, in one line."""
    return f"{asked.asker} asks ({asked.state}{f', {asked.artifact}' if asked.artifact else ''})"


def words_of(asked: Asked) -> str:
    """The question without its head; at the work gate, after a summary of the changes."""
    below = asked.body[len(asked.subject) :].lstrip("\n")
    words = "\n".join(text for text in (review(asked.state, asked.artifact), below) if text) or asked.body
    if asked.stat is None:
        return words
    return "\n".join(line for line in (f"{asked.stat.words()} (d shows it)", asked.stat.warning_words(), words) if line)
