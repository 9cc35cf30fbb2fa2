"""The texts of an escalation, replayed: the human reads the asker's own words, the asker reads the human's.

A text that one side is given is made by code of rows that are on the bus already. So an audit makes it again and
compares: words that a person did not say can't stand in their name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from parley.core.conversation import enclosing
from parley.core.escalation import goes_straight
from parley.core.rule import Answer, Reaction
from parley.core.soup import Soup
from parley.core.terms import AskHuman, Kind, Proxy, escalation_thread
from parley.core.wire import decode
from parley.engine import riders, texts, unfinished
from parley.engine.chain import Sealed
from parley.engine.changed import warning_of
from parley.engine.evidence import meta_of, wrong
from parley.options import menu_of, refusal
from parley.ports import MessageRow, StepRow

ESCALATION = ("ask", "send-ask", "escalate", "human-reply", "respond", "relay")
VIEW = ("found", "would", "reads", "predicted", "recalled", "weighed")  # what only a proxy's turn can have brought


@dataclass(slots=True)
class Questions:
    """What was said on the open questions of a job."""

    asked: dict[str, str] = field(default_factory=dict)  # by the escalation's thread: the asker's own words
    left: dict[str, list[Any]] = field(default_factory=dict)  # the same: the unfinished work that was left out
    warnings: dict[str, str] = field(default_factory=dict)  # the same: what tools run or obey of the work
    said: dict[str, str] = field(default_factory=dict)  # by the human's message: its words
    threads: dict[str, list[str]] = field(default_factory=dict)  # the human's messages on each escalation
    menus: dict[str, dict[str, Any]] = field(default_factory=dict)  # by the escalation's thread: what can be chosen
    chosen: dict[str, str] = field(default_factory=dict)  # by the human's message: what it chooses
    given: dict[str, tuple[str, str]] = field(default_factory=dict)  # by the answer's message: question and choice
    answers: dict[str, tuple[Proxy, Answer, str, str]] = field(default_factory=dict)  # with its words and the remarks

    def forget(self, thread: str) -> None:
        """The thread has ended."""
        self.answers.pop(thread, None)
        self.asked.pop(thread, None)
        self.left.pop(thread, None)
        self.warnings.pop(thread, None)
        self.menus.pop(thread, None)
        for name in self.threads.pop(thread, ()):
            self.said.pop(name, None)
            self.chosen.pop(name, None)

    def take(
        self, row: StepRow, reaction: Reaction, letters: Mapping[str, MessageRow], soup: Soup, sealed: Sealed
    ) -> None:
        """One step of an escalation. A row that an export shows without its secrets can't be compared."""
        if row.rule in ("ask", "send-ask"):
            for proxy in (m for m in reaction.produced if isinstance(m, Proxy)):
                letter = letters[proxy.question.message]
                self.left[escalation_thread(proxy.id)] = meta_of(letter).get(unfinished.KEY, [])
                self.warnings[escalation_thread(proxy.id)] = warning_of(meta_of(letter))
                self.menus[escalation_thread(proxy.id)] = {"menu": meta_of(letter).get("menu")}
                own = self.asked[escalation_thread(proxy.id)] = texts.own_words(letter.body)
                counts = proxy.question.kind is Kind.QUESTION and ("messages", letter.number) not in sealed
                if counts and proxy.question.key != texts.key_of(own):
                    wrong("messages", letter.number, "it asks something else than its question is counted as")
            return
        choice = decode(json.loads(row.choice))
        thread = escalation_thread(row.at.rpartition(" ")[2])
        letter = letters[choice if isinstance(choice, str) else choice.message]
        if row.rule == "human-reply":
            about = meta_of(letter)
            self.said[choice.message] = str(about["text"])
            self.chosen[choice.message] = about.get("choice") or ""
            if why := refusal(menu_of(self.menus.get(thread, {})), about.get("choice")):
                wrong("messages", letter.number, f"{why}; the human can't have chosen it")
            self.threads.setdefault(thread, []).append(choice.message)
        elif ("messages", letter.number) in sealed:
            return
        elif row.rule == "escalate":
            asked = next(m for m in reaction.produced if isinstance(m, AskHuman))
            self._put(letter, asked, soup)
        elif row.rule == "relay":
            self._relayed(letter, thread)
        else:
            proxy = next(m for m in reaction.consumed if isinstance(m, Proxy))
            self._answered(letter, proxy, choice)

    def _put(self, letter: MessageRow, asked: AskHuman, soup: Soup) -> None:
        about, own = meta_of(letter), self.asked[escalation_thread(asked.id)]
        straight = not asked.words and goes_straight(soup.charter, asked.question, asked.policy)
        if straight and (about["framing"] or any(name in about for name in VIEW)):
            wrong("messages", letter.number, "it tells what the proxy thinks, which had no turn before the human")
        if about.get("menu") != self.menus[escalation_thread(asked.id)]["menu"]:
            wrong("messages", letter.number, "it lets the human choose something else than the asker does")
        if about["text"] != own or about.get("words", "") != self._words(asked.words):
            wrong("messages", letter.number, "it quotes the asker, or the human, with other words than theirs")
        if about.get(unfinished.KEY, []) != self.left[escalation_thread(asked.id)]:
            wrong("messages", letter.number, "it does not tell the unfinished work that was left out of the question")
        if about.get("warning", "") != self.warnings[escalation_thread(asked.id)]:
            wrong("messages", letter.number, "it does not tell what tools run or obey of the work")
        if letter.body != texts.for_human(enclosing(soup, asked.thread), asked.question, about["framing"], own, about):
            wrong("messages", letter.number, "it does not put the question as it was asked")

    def _answered(self, letter: MessageRow, proxy: Proxy, answer: Answer) -> None:
        about: dict[str, Any] = meta_of(letter)
        words = self._words(answer.words) if proxy.heard else about["text"]
        given = (about["answer"], about["text"], about["ruling"], about["author"], bool(about.get("heard")))
        if given != (proxy.id, words, answer.ruling, answer.author, proxy.heard):
            wrong("messages", letter.number, "it gives another answer than its step, or other words than the human's")
        chosen = about.get("choice") or ""
        if proxy.heard and chosen != self.chosen.get(answer.words[-1] if answer.words else "", ""):
            wrong("messages", letter.number, "it says that the human has chosen what they have not")
        menu = menu_of(self.menus.get(escalation_thread(proxy.id), {}))
        if why := refusal(menu, chosen or None):
            wrong("messages", letter.number, why)
        self.given[answer.message] = proxy.id, menu.meant(chosen, answer.ruling or "")
        remarks = str(about.get("remarks", ""))
        due = texts.answer(
            answer.ruling, words, proxy.id, answer.author, heard=proxy.heard, remarks=remarks, choice=chosen
        )
        if riders.own_words(letter.body, about) != due:
            wrong("messages", letter.number, "it does not say what was answered, and by whom")
        self.answers[escalation_thread(proxy.id)] = (proxy, answer, words, remarks)

    def _relayed(self, letter: MessageRow, thread: str) -> None:
        """The lead is told what the asker was told."""
        if thread not in self.answers:
            return  # the answer is shown without its secrets, so what it says can't be compared
        proxy, answer, words, remarks = self.answers[thread]
        due = texts.relayed(answer.ruling, words, proxy, answer.author, remarks)
        if riders.own_words(letter.body, meta_of(letter)) != due:
            wrong("messages", letter.number, "it does not tell the lead what was answered, by whom and to whom")

    def _words(self, names: tuple[str, ...]) -> str:
        return texts.together(self.said[name] for name in names)
