"""The texts of an escalation, replayed: the human reads the asker's own words, the asker reads the human's.

A text that one side is given is made by code of rows that are on the bus already. So an audit makes it again and
compares: words that a person did not say can't stand in their name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from parley.audit.row_checks import meta_as, wrong
from parley.base.options import NO_MENU, refusal
from parley.bus.hash_chain import RedactedRows
from parley.bus.rows import MessageRow, StepRow
from parley.engine import protocol_messages
from parley.engine.turn import merge_riders
from parley.engine.values.message_meta import NO_VIEW, Answered, Put, Relayed, Replied, ToProxy
from parley.engine.values.step_names import place_of
from parley.protocol.codec import decode_choice
from parley.protocol.conversation import enclosing
from parley.protocol.escalation import goes_straight
from parley.protocol.molecules import AskHuman, Kind, Proxy, escalation_thread
from parley.protocol.rule import Answer, Reaction
from parley.protocol.soup import Soup

ESCALATION = ("ask", "send-ask", "escalate", "human-reply", "respond", "relay")


@dataclass(frozen=True, slots=True)
class Chosen:
    """What an answer chooses of its question's menu; nothing, where `choice` is empty."""

    question: str
    choice: str


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """An answer that was given, with its words and the proxy's remarks."""

    proxy: Proxy
    answer: Answer
    words: str
    remarks: str


@dataclass(slots=True)
class Questions:
    """What was said on the open questions of a job."""

    asked: dict[str, ToProxy] = field(default_factory=dict)  # by the escalation's thread: the questions
    said: dict[str, Replied] = field(default_factory=dict)  # by the human's message
    threads: dict[str, list[str]] = field(default_factory=dict)  # the human's messages on each escalation
    chosen: dict[str, Chosen] = field(default_factory=dict)  # by the answer's message
    answers: dict[str, GivenAnswer] = field(default_factory=dict)  # by the escalation's thread

    def forget(self, thread: str) -> None:
        """The thread has ended."""
        self.answers.pop(thread, None)
        self.asked.pop(thread, None)
        for name in self.threads.pop(thread, ()):
            self.said.pop(name, None)

    def take(
        self, row: StepRow, reaction: Reaction, letters: Mapping[str, MessageRow], soup: Soup, redacted: RedactedRows
    ) -> None:
        """One step of an escalation. A row that an export shows without its secrets can't be compared."""
        if row.rule in ("ask", "send-ask"):
            for proxy in (m for m in reaction.produced if isinstance(m, Proxy)):
                letter, thread = letters[proxy.question.message], escalation_thread(proxy.id)
                asked = self.asked[thread] = meta_as(ToProxy, letter)
                if ("messages", letter.number) in redacted:
                    continue
                if not letter.body.endswith(asked.text):
                    wrong("messages", letter.number, "it does not quote its asker's own words")
                counts = proxy.question.kind is Kind.QUESTION
                if counts and proxy.question.key != protocol_messages.key_of(asked.text):
                    wrong("messages", letter.number, "it asks something else than its question is counted as")
            return
        choice = decode_choice(row.choice)
        thread = escalation_thread(place_of(row).question)
        if isinstance(choice, Answer):
            letter = letters[choice.message]
            if row.rule == "human-reply":
                self._replied(letter, choice, thread)
            elif ("messages", letter.number) not in redacted:
                proxy = next(m for m in reaction.consumed if isinstance(m, Proxy))
                self._answered(letter, proxy, choice)
            return
        letter = letters[str(choice)]
        if ("messages", letter.number) in redacted:
            return
        if row.rule == "escalate":
            self._put(letter, next(m for m in reaction.produced if isinstance(m, AskHuman)), soup)
        else:
            self._relayed(letter, thread)

    def _replied(self, letter: MessageRow, reply: Answer, thread: str) -> None:
        said = self.said[reply.message] = meta_as(Replied, letter)
        asked = self.asked.get(thread)
        if why := refusal(asked.menu if asked is not None else NO_MENU, said.choice or None):
            wrong("messages", letter.number, f"{why}; the human can't have chosen it")
        self.threads.setdefault(thread, []).append(reply.message)

    def _put(self, letter: MessageRow, asked: AskHuman, soup: Soup) -> None:
        put, thread = meta_as(Put, letter), escalation_thread(asked.id)
        posed = self.asked[thread]
        straight = not asked.words and goes_straight(soup.charter, asked.question, asked.policy)
        if straight and (put.framing or put.view != NO_VIEW):
            wrong("messages", letter.number, "it tells what the proxy thinks, which had no turn before the human")
        if put.menu != posed.menu:
            wrong("messages", letter.number, "it lets the human choose something else than the asker does")
        if put.text != posed.text or put.words != self._words(asked.words):
            wrong("messages", letter.number, "it quotes the asker, or the human, with other words than theirs")
        if put.unfinished != posed.unfinished:
            wrong("messages", letter.number, "it does not tell the unfinished work that was left out of the question")
        if put.warning != posed.warning:
            wrong("messages", letter.number, "it does not tell what tools run or obey of the work")
        record = enclosing(soup, asked.thread)
        about = protocol_messages.subject(record, asked.question)
        if put.subject != about or letter.body != protocol_messages.for_human(record, asked.question, put):
            wrong("messages", letter.number, "it does not put the question as it was asked")

    def _answered(self, letter: MessageRow, proxy: Proxy, answer: Answer) -> None:
        given = meta_as(Answered, letter)
        words = self._words(answer.words) if proxy.heard else given.text
        due = replace(
            given, question=proxy.id, text=words, ruling=answer.ruling, author=answer.author, heard=proxy.heard
        )
        if given != due:
            wrong("messages", letter.number, "it gives another answer than its step, or other words than the human's")
        last = self.said.get(answer.words[-1]) if answer.words else None
        if proxy.heard and given.choice != (last.choice if last is not None else ""):
            wrong("messages", letter.number, "it says that the human has chosen what they have not")
        asked = self.asked.get(escalation_thread(proxy.id))
        menu = asked.menu if asked is not None else NO_MENU
        if why := refusal(menu, given.choice or None):
            wrong("messages", letter.number, why)
        self.chosen[answer.message] = Chosen(proxy.id, menu.meant(given.choice, answer.ruling or ""))
        body = protocol_messages.answer(
            answer.ruling,
            words,
            proxy.id,
            answer.author,
            heard=proxy.heard,
            remarks=given.remarks,
            choice=given.choice,
        )
        if merge_riders.own_words(letter.body, given.riders) != body:
            wrong("messages", letter.number, "it does not say what was answered, and by whom")
        self.answers[escalation_thread(proxy.id)] = GivenAnswer(proxy, answer, words, given.remarks)

    def _relayed(self, letter: MessageRow, thread: str) -> None:
        """The lead is told what the asker was told."""
        given = self.answers.get(thread)
        if given is None:
            return  # the answer is shown without its secrets, so what it says can't be compared
        due = protocol_messages.relayed(
            given.answer.ruling, given.words, given.proxy, given.answer.author, given.remarks
        )
        if merge_riders.own_words(letter.body, meta_as(Relayed, letter).riders) != due:
            wrong("messages", letter.number, "it does not tell the lead what was answered, by whom and to whom")

    def _words(self, names: tuple[str, ...]) -> str:
        return protocol_messages.together(self.said[name].text for name in names)
