"""Reduction: what follows by itself once something has been put into the soup.

A broadcast is drained, a termination cascades to its end, an escalation is answered: each in the
transaction of what caused it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from parley.core.conversation import enclosing
from parley.core.errors import Refused
from parley.core.escalation import goes_straight
from parley.core.rule import Answer, Passage
from parley.core.states import Action, Record, State
from parley.core.terms import (
    HUMAN,
    ORCHESTRATOR,
    PROXY,
    AskHuman,
    AskQuestion,
    Close,
    Idle,
    Interrupt,
    Mailbox,
    MessageKind,
    Origin,
    Policy,
    Proxy,
    Ruling,
    Run,
    Send,
    Surface,
    Terminate,
    Tombstone,
    Verdict,
    escalation_thread,
)
from parley.core.withdrawal import last_action, strongest
from parley.engine import flows, texts, unfinished
from parley.engine.changed import warning_of
from parley.engine.clones import frozen
from parley.engine.live import LiveJob
from parley.engine.names import advice_slot, clone_slot, handle_slot, number_of
from parley.engine.remembering import answered
from parley.engine.world import World
from parley.ports import MessageRow
from parley.workflow.terms import EXECUTOR


def message(live: LiveJob, world: World, name: str) -> MessageRow:
    """A message by its id."""
    row = live.bodies.get(name)
    if row is None:
        row = live.bodies[name] = world.store.message(live.job, number_of(name))
    return row


def drain(live: LiveJob, world: World, agent: str, thread: str, now: float) -> None:
    """Reduce a Send to its end."""
    soup = live.soup
    while (send := soup.get(Send, thread, agent)) is not None:
        if not send.payloads:
            if send.questions:
                pose(live, world, "send-ask", agent, thread, now)
            else:
                live.fire("send-empty", agent, thread, who=agent, time=now)
            break
        head = send.payloads[0]
        if isinstance(head, Close):
            live.fire("send-terminate", agent, thread, who=agent, time=now)
            terminate(live, world, head.thread)
        elif soup.get(Mailbox, head.thread, head.agent) is not None:
            live.fire("send", agent, thread, who=agent, time=now)
        elif soup.get(Tombstone, head.thread) is not None:
            letter = message(live, world, head.message)
            notice = live.write(
                (ORCHESTRATOR, live.thread),
                (agent, thread),
                texts.dead_letter(head.agent, head.thread, letter.body),
                kind=MessageKind.NOTICE,
                key=f"dead:{head.message}",
                time=now,
                meta={"dead": head.message},
            )
            live.fire("dead-letter", agent, thread, choice=notice, who=ORCHESTRATOR, time=now)
        else:
            live.fire("spark", agent, thread, who=agent, time=now)


def acknowledge(live: LiveJob, world: World, thread: str) -> None:
    """A subteam that sets to work takes the intent it was given: its record goes on to PLAN."""
    record = live.soup.get(Record, thread)
    if record is None or not record.live or record.state is not State.INTENT:
        return
    now = world.clock.now()
    passage = Passage(
        Action.APPROVED_INTENT, record.team_id, now, "acknowledges the intent it was given", record.approved
    )
    try:
        live.fire("transition", record.id, choice=passage, who=record.team_id, time=now)
    except Refused:
        return  # something else has to be heard first: its next turn will do


_CONSUMERS: tuple[tuple[str, type[Any]], ...] = (
    ("term-run", Run),
    ("term-idle", Idle),
    ("term-mbox", Mailbox),
    ("term-send", Send),
    ("term-ask", AskQuestion),
)


def terminate(live: LiveJob, world: World, thread: str, why: str = "") -> None:
    """Carry a Terminate through its whole subtree; `why` is the human's reason for giving up a part of the job."""
    soup, now = live.soup, world.clock.now()
    waiting = [thread]
    while waiting:
        here = waiting.pop()
        if here in live.dying:
            live.dying.remove(here)
        if soup.get(Terminate, here) is None:
            continue
        found = strongest(soup, here)
        who = ORCHESTRATOR
        for rule, kind in _CONSUMERS:
            for molecule in soup.all(kind, here):
                live.fire(rule, here, molecule.agent, who=who, time=now)
        for proxy in soup.all(Proxy, here):
            live.fire("term-proxy", here, proxy.id, who=who, time=now)
        for asked in soup.all(AskHuman, here):
            live.fire("term-human", here, asked.id, who=who, time=now)
        for interrupt in soup.all(Interrupt, here):
            live.fire("term-interrupt", here, interrupt.message, who=who, time=now)
        _end_record(live, world, here, found.origin, why)
        for child in soup.children(here):
            live.fire("cascade", here, child, who=who, time=now)
            waiting.append(child)
        while soup.count(found) > 1 or len(soup.all(Terminate, here)) > 1:
            live.fire("term-again", here, who=who, time=now)
        for surface in soup.all(Surface, here):
            live.drop(handle_slot(surface.agent, here))
            live.drop(clone_slot(here))
            live.drop(advice_slot(surface.agent, here))
            live.forget_riders(surface.agent, here)
            if surface.agent == EXECUTOR:
                flows.over(live, here, now, found.origin)
            if surface.workspace == here:
                live.retired.append(here)
        live.fire("term-final", here, who=who, time=now)


def _end_record(live: LiveJob, world: World, thread: str, origin: Origin, why: str) -> None:
    """A subteam's record ends with its thread: work that was accepted passes each gate that is left."""
    soup, now = live.soup, world.clock.now()
    while (record := soup.get(Record, thread)) is not None and record.live:
        above, action = soup.need(Record, record.parent_id), last_action(soup, record, origin)
        dispatcher = above.team_id if above.depth else above.actor or ORCHESTRATOR
        actor = {Action.WITHDRAW: HUMAN, Action.FAILURE: ORCHESTRATOR}.get(action, dispatcher)
        reason = texts.end_of_subteam(action, origin, live.record, why)
        passage = Passage(action, actor, now, reason)
        live.fire("term-record", thread, choice=passage, who=ORCHESTRATOR, time=now)


# ---- escalations ---------------------------------------------------------------------------------


def pose(live: LiveJob, world: World, rule: str, agent: str, thread: str, now: float) -> None:
    """[ask] or [send-ask]: put the questions; those that need no turn of the proxy are before the human at once."""
    before = set(live.soup.all(Proxy, thread))
    live.fire(rule, agent, thread, who=agent, time=now)
    known = frozen(live.soup, live.kept, agent, thread)
    for proxy in live.soup.all(Proxy, thread):
        if proxy in before:
            continue
        slot = clone_slot(escalation_thread(proxy.id))
        if slot not in live.kept:  # else the step that asks has named a draft
            live.keep(slot, known)
        if goes_straight(live.soup.charter, proxy.question, proxy.policy):
            to_human(live, world, proxy.id, "", key=f"{proxy.question.message}/straight")


def to_human(
    live: LiveJob, world: World, question: str, framing: str, key: str, more: Mapping[str, Any] | None = None
) -> None:
    """[escalate]: put the question before the human, with the proxy's words."""
    thread = escalation_thread(question)
    proxy = live.soup.need(Proxy, thread)
    asked = message(live, world, proxy.question.message)
    own = texts.own_words(asked.body)
    more = {"how": "policy" if proxy.policy is Policy.ALWAYS else "unsure", **(more or {})}
    about = json.loads(asked.meta or "{}")
    more |= {name: about[name] for name in ("workflow", "menu", unfinished.KEY) if about.get(name)}
    if warning := warning_of(about):
        more["warning"] = warning
    if proxy.heard:
        more["words"] = said_to(live, world, proxy)
    if live.forgetful:
        more["forgetful"] = live.forgetful
    record = enclosing(live.soup, proxy.thread)
    name = live.write(
        (PROXY, thread),
        (HUMAN, thread),
        texts.for_human(record, proxy.question, framing, own, more),
        kind=MessageKind.QUESTION,
        key=key,
        time=world.clock.now(),
        meta={
            "question": question,
            "state": str(record.state),
            "visit": record.visits(record.state),
            "kind": str(proxy.question.kind),
            "artifact": proxy.question.artifact,
            "digest": proxy.question.digest,
            "asker": proxy.agent,
            "thread": proxy.thread,
            "framing": framing,
            "text": own,
            "asked": proxy.question.message,
            **more,
        },
    )
    live.fire("escalate", question, choice=name, who=PROXY, time=world.clock.now())


def said_to(live: LiveJob, world: World, proxy: Proxy) -> str:
    """All that the human has said to a question, word for word, oldest first."""
    rows = (message(live, world, name) for name in proxy.words)
    return texts.together(str(json.loads(row.meta)["text"]) for row in rows)


def chosen_in(live: LiveJob, world: World, proxy: Proxy) -> str:
    """What the human has chosen of a question's menu, in the last that they said to it."""
    return str(json.loads(message(live, world, proxy.words[-1]).meta).get("choice") or "")


def respond(
    live: LiveJob,
    world: World,
    question: str,
    ruling: Ruling | None,
    text: str,
    key: str,
    more: Mapping[str, Any] | None = None,
    choice: str = "",
) -> None:
    """[respond]: the answer goes to the asker, and the escalation ends.

    `text` is the proxy's: its answer where the human was not asked, else its remarks beside the human's words. `choice`
    is the proxy's too; where the human was asked, only what the human chose counts.
    """
    thread = escalation_thread(question)
    proxy = live.soup.need(Proxy, thread)
    author = HUMAN if proxy.heard and ruling is proxy.said else PROXY
    words, remarks = (said_to(live, world, proxy), text) if proxy.heard else (text, "")
    chosen = chosen_in(live, world, proxy) if proxy.heard else choice
    if remarks.strip() == words.strip():
        remarks = ""  # it has only repeated them
    name = live.write(
        (PROXY, thread),
        (proxy.agent, proxy.thread),
        texts.answer(ruling, words, question, author, heard=proxy.heard, remarks=remarks, choice=chosen),
        kind=MessageKind.ANSWER,
        key=key,
        time=world.clock.now(),
        meta={
            "answer": question,
            "kind": str(proxy.question.kind),
            "ruling": str(ruling) if ruling else None,
            "author": author,
            "text": words,
            **({"choice": chosen} if chosen else {}),
            **({"remarks": remarks} if remarks else {}),
            "asked": proxy.question.message,
            **({"heard": True} if proxy.heard else {}),  # the words are the human's
            **(more or {}),
        },
        alone=ruling is Ruling.WITHDRAW,  # the marker and the reason, to the letter
    )
    made = answered(live, message(live, world, proxy.question.message), live.bodies[name]) if more else None
    if made is not None:
        live.decided.append(made)
    given = Answer(name, author, ruling, proxy.words)
    live.fire("respond", question, choice=given, who=author, time=world.clock.now())
    relay(live, world, proxy, given, words, remarks, key)
    terminate(live, world, thread)


def relay(live: LiveJob, world: World, proxy: Proxy, given: Answer, words: str, remarks: str, key: str) -> None:
    """[relay]: a backtrack that was the answer to another agent is told to the lead, which writes the outcome."""
    record = enclosing(live.soup, proxy.thread)
    if all(verdict.told or verdict.question != proxy.id for verdict in live.soup.all(Verdict, record.id)):
        return
    name = live.write(
        (PROXY, escalation_thread(proxy.id)),
        (record.actor, record.thread),
        texts.relayed(given.ruling, words, proxy, given.author, remarks),
        kind=MessageKind.NOTICE,
        key=f"{key}/relay",
        time=world.clock.now(),
        meta={"relayed": proxy.id, "author": given.author, "asker": proxy.agent},
    )
    live.fire("relay", record.id, proxy.id, choice=name, who=ORCHESTRATOR, time=world.clock.now())


def pass_back(live: LiveJob, world: World, question: str, key: str) -> None:
    """[respond] by code: what the human said goes to the asker as it is, beside what the proxy said of the question."""
    proxy = live.soup.need(Proxy, escalation_thread(question))
    reply = message(live, world, proxy.words[-1])
    framing = message(live, world, json.loads(reply.meta)["framing"])
    respond(live, world, question, proxy.said, texts.remarks(json.loads(framing.meta)), key)


def fall_back(live: LiveJob, world: World, question: str, key: str) -> None:
    """The proxy did not deal with its question: the human will, or it has no answer."""
    thread = escalation_thread(question)
    proxy = live.soup.get(Proxy, thread)
    if proxy is None:
        return
    if proxy.heard:
        pass_back(live, world, question, key)
    elif proxy.policy is Policy.NEVER:
        respond(live, world, question, Ruling.REVISE, "no answer", key)
    else:
        to_human(live, world, question, "", key)
