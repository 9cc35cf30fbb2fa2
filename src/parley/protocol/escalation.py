"""The escalation model: a question, the proxy that answers it, and the human it may ask.

The policy of the asker's state decides whether the human is asked never, when the proxy is unsure, or always.
[send-ask] and [relay] are added: a broadcast may end with questions, and a lead hears of a verdict that another agent
was given.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from parley.protocol.bounds import counted, heard
from parley.protocol.conversation import (
    enclosing,
    forgiven,
    install,
    refuse_unless_askable,
    refuse_untaken,
    run_sites,
)
from parley.protocol.errors import Disabled, Exhausted, Refused
from parley.protocol.gates import assertion, may_assert, verdict
from parley.protocol.molecules import (
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
    Record,
    Ruling,
    Run,
    Send,
    Terminate,
    Verdict,
    escalation_thread,
)
from parley.protocol.rule import Answer, Asking, Firing, Menu, Reaction, Rule, Sites
from parley.protocol.soup import Soup


def policy_for(soup: Soup, thread: str) -> Policy:
    """The escalation policy of the state that a thread works for."""
    record = enclosing(soup, thread)
    return soup.charter.phase(record.state).policy if record.live else Policy.NEVER


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
    chosen = firing.chosen(Asking)
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
        made.append(
            Proxy(id=question.id, agent=asked.agent, thread=asked.thread, question=question, policy=asked.policy)
        )
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
    framing = firing.chosen(str)
    asked = AskHuman(
        id=proxy.id,
        agent=proxy.agent,
        thread=proxy.thread,
        question=proxy.question,
        policy=proxy.policy,
        framing=framing,
        words=proxy.words,
    )
    return Reaction((proxy,), (asked,))


def _human_reply(soup: Soup, firing: Firing) -> Reaction:
    asked = soup.need(AskHuman, escalation_thread(firing.at[0]))
    answer = firing.chosen(Answer)
    words = (*asked.words, answer.message)
    proxy = Proxy(
        id=asked.id,
        agent=asked.agent,
        thread=asked.thread,
        question=asked.question,
        policy=asked.policy,
        heard=True,
        said=answer.ruling,
        words=words,
    )
    if answer.ruling is not None or asked.question.kind is Kind.FAILURE:
        return Reaction((asked,), (proxy,))  # nothing is left for the proxy to say: it is not woken
    mailbox = soup.need(Mailbox, escalation_thread(asked.id))
    refuse_untaken(soup, mailbox.thread, MessageKind.REPLY)
    return Reaction((asked, mailbox), (proxy, mailbox.grown(answer.message)))


def _respond(soup: Soup, firing: Firing) -> Reaction:
    thread = escalation_thread(firing.at[0])
    proxy = soup.need(Proxy, thread)
    answer = firing.chosen(Answer)
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
    grown = mailbox.grown(answer.message)
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
            grown = mailbox.grown(firing.chosen(str))
            return Reaction((given, mailbox), (replace(given, told=True), grown))
    raise Disabled(f"the lead of {name} has got the verdict on {question}, or it counts no more")


_POSED = (
    "Assertion(r)* → Mailbox_P(escalation:x, as)+ ‖ Idle_P(escalation:x)+ ‖ Parent(escalation:x, t)+"
    " ‖ Surface_P(escalation:x)+ ‖ Assertion(r)*"
)

RULES = (
    Rule(
        name="ask-step",
        section="§7",
        shape="Run(A, t, m) → AskQuestion(A, t, xs, π)",
        besides="Crashed_A(t)? ‖ Tally_A(t)? → Tally_A(t)?",
        when=(
            "π is the policy of A's state; t is no escalation's, and A takes answers; each x is new; only a lead "
            "asserts, and a deputy below it what its role says, and only what exists; only the orchestrator asks "
            "about a failure; A has not asked too often"
        ),
        sites=run_sites("ask-step"),
        react=_ask_step,
    ),
    Rule(
        name="ask",
        section="§7",
        shape="AskQuestion(A, t, xs, π) → Idle_A(t) ‖ Proxy(t, x, π, fresh)+",
        besides=_POSED,
        when="the job has a proxy P; for each x",
        sites=_ask_sites,
        react=_ask,
    ),
    Rule(
        name="send-ask",
        section="added",
        shape="Send(A, t, [] with xs) → Idle_A(t) ‖ Proxy(t, x, π, fresh)+",
        besides=_POSED,
        when="the job has a proxy P; for each x",
        sites=_send_ask_sites,
        react=_send_ask,
    ),
    Rule(
        name="escalate",
        section="§7",
        shape="Proxy(t, x, π, h) → AskHuman(t, y, π)",
        when="π ≠ never, and the human gave no verdict yet, and was not asked too often",
        sites=_escalation(Proxy, "escalate"),
        react=_escalate,
    ),
    Rule(
        name="human-reply",
        section="§7",
        shape="AskHuman(t, y, π) → Proxy(t, x', π, post-human)",
        besides="Mailbox_P(escalation:x', as)? → Mailbox_P(escalation:x', as ++ [words])?",
        when="words without a verdict also go into the proxy's mailbox, which must be there; not those on a failure",
        sites=_escalation(AskHuman, "human-reply"),
        react=_human_reply,
    ),
    Rule(
        name="respond",
        section="§7",
        shape="Proxy(t, x, π, h) ‖ Mailbox_A(t, as) → Mailbox_A(t, as ++ [ans])",
        besides="Verdict(r)* ‖ Tally_A(t)? → Terminate(escalation:x) ‖ Verdict(r)? ‖ Tally_A(t)?",
        when=(
            "π ≠ always or h = post-human; ans carries all the human's words; a human's verdict is passed on as "
            "theirs, any other is the proxy's own: never withdraw, nor approve under always"
        ),
        sites=_escalation(Proxy, "respond"),
        react=_respond,
    ),
    Rule(
        name="relay",
        section="added",
        shape="Verdict(r, untold) ‖ Mailbox_L(t, as) → Verdict(r, told) ‖ Mailbox_L(t, as ++ [notice])",
        when="a backtrack was the answer to an agent that does not lead r; L does, and lives",
        sites=_relay_sites,
        react=_relay,
    ),
)
