"""The escalation model: a question, the proxy that answers it, and the human it may ask."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import cast

from parley.core.bounds import counted, heard
from parley.core.conversation import enclosing, forgiven, install, refuse_untaken, run_sites
from parley.core.conversation import refuse_unless_askable as refuse_unless_askable  # noqa: PLC0414 - also found here
from parley.core.errors import Disabled, Exhausted, Refused
from parley.core.gates import assertion, may_assert, verdict
from parley.core.rule import Answer, Asking, Firing, Menu, Reaction, Rule, Sites
from parley.core.soup import Soup
from parley.core.states import LIVE, Record
from parley.core.terms import (
    HUMAN,
    PROXY,
    AskHuman,
    AskQuestion,
    Assertion,
    Charter,
    Idle,
    Kind,
    Mailbox,
    MessageKind,
    Molecule,
    Origin,
    Policy,
    Proxy,
    Question,
    Ruling,
    Run,
    Send,
    Terminate,
    Verdict,
    escalation_thread,
)


def policy_for(soup: Soup, thread: str) -> Policy:
    """The escalation policy of the state that a thread works for."""
    record = enclosing(soup, thread)
    return soup.charter.policies[LIVE.index(record.state)] if record.live else Policy.NEVER


def goes_straight(charter: Charter, question: Question, policy: Policy) -> bool:
    """Whether a question goes to the human in the asker's own words, with no turn of the proxy before."""
    return question.kind is Kind.FAILURE or (policy is Policy.ALWAYS and not charter.brief_human)


def unconfirmed(proxy: Proxy, ruling: Ruling | None) -> str:
    """Why the human has to confirm what the proxy would answer; empty where the proxy may answer it.

    Only a human withdraws, and under `always` only a human approves: the proxy's reading of words is neither.
    """
    if proxy.said is not None:
        return "" if ruling is proxy.said else f"the human said '{proxy.said}'; no other verdict is passed on"
    if ruling is Ruling.WITHDRAW:
        return "only the human withdraws"
    if ruling is Ruling.APPROVE and proxy.policy is Policy.ALWAYS:
        return "the policy is `always`, so only the human approves"
    return ""


def _ask_step(soup: Soup, firing: Firing) -> Reaction:
    agent, thread = firing.at
    run = soup.need(Run, thread, agent)
    chosen = cast("Asking", firing.choice)
    questions = chosen.questions
    if not questions:
        raise Disabled("nothing was asked")
    refuse_unless_askable(soup, agent, thread, questions)
    asked = AskQuestion(agent, thread, questions, policy_for(soup, thread))
    gone, tally = counted(soup, agent, thread, (), questions, progress=chosen.progress)
    return Reaction((run, *forgiven(soup, agent, thread), *gone), (asked, *tally))


def _posed(soup: Soup, asked: AskQuestion) -> Reaction:
    """A Proxy of each question, each on a thread of its own, and one Idle."""
    role = soup.charter.role(PROXY)
    if role is None or MessageKind.QUESTION not in role.takes:
        raise Disabled("the job has no proxy that takes questions")
    record = enclosing(soup, asked.thread)
    made: list[Molecule] = [Idle(asked.agent, asked.thread)]
    gone: list[Molecule] = []
    asserted: dict[str, Assertion] = {}
    for question in asked.questions:
        # what goes straight to the human is no mail for the proxy: it is not woken for it
        mail = () if goes_straight(soup.charter, question, asked.policy) else (question.message,)
        made.append(Proxy(question.id, asked.agent, asked.thread, question, asked.policy))
        made.extend(install(soup, role, escalation_thread(question.id), asked.thread, mail))
        speaks = record.live and may_assert(soup, record, asked.thread, question.artifact)
        if question.kind is Kind.ASSERT and speaks:
            # else its state was left before the question was put: the answer will be words only
            older, new = assertion(soup, record, question)
            gone.extend(a for a in older if a not in gone)
            asserted[question.artifact] = new
    return Reaction((asked, *gone), (*made, *asserted.values()))


def _ask_sites(soup: Soup, menu: Menu) -> Iterator[Firing]:
    for asked in soup.of(AskQuestion):
        yield Firing("ask", (asked.agent, asked.thread))


def _ask(soup: Soup, firing: Firing) -> Reaction:
    agent, thread = firing.at
    return _posed(soup, soup.need(AskQuestion, thread, agent))


def _send_ask_sites(soup: Soup, menu: Menu) -> Iterator[Firing]:
    for send in soup.of(Send):
        if not send.payloads and send.questions:
            yield Firing("send-ask", (send.agent, send.thread))


def _send_ask(soup: Soup, firing: Firing) -> Reaction:
    agent, thread = firing.at
    send = soup.need(Send, thread, agent)
    if send.payloads or not send.questions:
        raise Disabled(f"{agent} is still sending on {thread}, or asks nothing")
    posed = _posed(soup, AskQuestion(agent, thread, send.questions, policy_for(soup, thread)))
    return Reaction((send, *posed.consumed[1:]), posed.produced)


def _escalation(kind: type[Proxy | AskHuman], name: str) -> Sites:
    def sites(soup: Soup, menu: Menu) -> Iterator[Firing]:
        for molecule in soup.of(kind):
            for choice in menu(name, soup, molecule):
                yield Firing(name, (molecule.id,), choice)

    return sites


def _escalate(soup: Soup, firing: Firing) -> Reaction:
    proxy = soup.need(Proxy, escalation_thread(firing.at[0]))
    if proxy.policy is Policy.NEVER:
        raise Refused("the policy never asks the human here; answer from what you know")
    if proxy.said is not None:
        raise Refused(f"the human said '{proxy.said}'; that is not asked again")
    if len(proxy.words) >= soup.charter.repeats:
        raise Exhausted(f"the human was asked {len(proxy.words)} times, and has answered each; answer from their words")
    framing = cast("str", firing.choice)
    asked = AskHuman(proxy.id, proxy.agent, proxy.thread, proxy.question, proxy.policy, framing, proxy.words)
    return Reaction((proxy,), (asked,))


def _human_reply(soup: Soup, firing: Firing) -> Reaction:
    asked = soup.need(AskHuman, escalation_thread(firing.at[0]))
    answer = cast("Answer", firing.choice)
    words = (*asked.words, answer.message)
    proxy = Proxy(asked.id, asked.agent, asked.thread, asked.question, asked.policy, True, answer.ruling, words)
    if answer.ruling is not None or asked.question.kind is Kind.FAILURE:
        return Reaction((asked,), (proxy,))  # nothing is left for the proxy to say: it is not woken
    mailbox = soup.need(Mailbox, escalation_thread(asked.id))
    refuse_untaken(soup, mailbox.thread, MessageKind.REPLY)
    return Reaction((asked, mailbox), (proxy, replace(mailbox, queue=(*mailbox.queue, answer.message))))


def _respond(soup: Soup, firing: Firing) -> Reaction:
    thread = escalation_thread(firing.at[0])
    proxy = soup.need(Proxy, thread)
    answer = cast("Answer", firing.choice)
    if proxy.policy is Policy.ALWAYS and not proxy.heard:
        raise Refused("the policy always asks the human here; ask before you answer")
    if answer.author == HUMAN and not proxy.heard:
        raise Refused("the human has said nothing yet")
    if why := unconfirmed(proxy, answer.ruling):
        raise Refused(why)
    author = HUMAN if proxy.heard and answer.ruling is proxy.said else PROXY
    if answer.author != author:
        raise Refused(f"this answer is the {author}'s, not the {answer.author}'s")
    if answer.words != proxy.words:
        raise Refused("an answer carries all that the human said to the question, and nothing else in their name")
    mailbox = soup.need(Mailbox, proxy.thread, proxy.agent)
    refuse_untaken(soup, proxy.thread, MessageKind.ANSWER)
    grown = replace(mailbox, queue=(*mailbox.queue, answer.message))
    older, new = verdict(soup, enclosing(soup, proxy.thread), proxy.thread, proxy.question, answer)
    gone, tally = heard(soup, proxy.agent, proxy.thread) if proxy.heard else ((), ())
    return Reaction((proxy, mailbox, *older, *gone), (grown, *new, *tally, Terminate(thread, Origin.CLOSE)))


def _relay_sites(soup: Soup, menu: Menu) -> Iterator[Firing]:
    for given in soup.of(Verdict):
        if not given.told:
            for choice in menu("relay", soup, given):
                yield Firing("relay", (given.record, given.question), choice)


def _relay(soup: Soup, firing: Firing) -> Reaction:
    name, question = firing.at
    record = soup.need(Record, name)
    if soup.dying(record.thread):
        raise Disabled(f"the lead of {name} is gone")
    mailbox = soup.need(Mailbox, record.thread, record.actor)
    refuse_untaken(soup, record.thread, MessageKind.NOTICE)
    for given in soup.all(Verdict, name):
        if given.question == question and not given.told:
            grown = replace(mailbox, queue=(*mailbox.queue, cast("str", firing.choice)))
            return Reaction((given, mailbox), (replace(given, told=True), grown))
    raise Disabled(f"the lead of {name} has got the verdict on {question}, or it counts no more")


# fmt: off
RULES = (
    Rule(
        "ask-step", "§7", "Run(A, t, m) → AskQuestion(A, t, xs, π)",
        "π is the policy of A's state; t is no escalation's, and A takes answers; each x is new; only a lead asserts, "
        "and its executor the plan, and only what exists; only the orchestrator asks about a failure; A "
        "has not asked too often",
        run_sites("ask-step"), _ask_step,
    ),
    Rule(
        "ask", "§7", "AskQuestion(A, t, xs, π) → Idle_A(t) ‖ Proxy(t, x, π, fresh) for each x, on escalation:x",
        "the job has a proxy", _ask_sites, _ask,
    ),
    Rule(
        "send-ask", "added", "Send(A, t, [] with xs) → Idle_A(t) ‖ Proxy(t, x, π, fresh) for each x, on escalation:x",
        "the job has a proxy", _send_ask_sites, _send_ask,
    ),
    Rule(
        "escalate", "§7", "Proxy(t, x, π, h) → AskHuman(t, y, π)",
        "π ≠ never, and the human gave no verdict yet, and was not asked too often",
        _escalation(Proxy, "escalate"), _escalate,
    ),
    Rule(
        "human-reply", "§7", "AskHuman(t, y, π) → Proxy(t, x', π, post-human)",
        "words without a verdict also go into the proxy's mailbox, which must be there; not those on a failure",
        _escalation(AskHuman, "human-reply"), _human_reply,
    ),
    Rule(
        "respond", "§7",
        "Proxy(t, x, π, h) ‖ Mailbox_A(t, as) → Mailbox_A(t, as ++ [ans]) ‖ Terminate(escalation:x)",
        "π ≠ always or h = post-human; ans carries all the human's words; a human's verdict is passed on as theirs, "
        "any other is the proxy's own: never withdraw, nor approve under always",
        _escalation(Proxy, "respond"), _respond,
    ),
    Rule(
        "relay", "added", "Verdict(r) untold ‖ Mailbox_L(r, as) → Verdict(r) ‖ Mailbox_L(r, as ++ [notice])",
        "a backtrack was the answer to an agent that does not lead r; L does, and lives", _relay_sites, _relay,
    ),
)
# fmt: on
