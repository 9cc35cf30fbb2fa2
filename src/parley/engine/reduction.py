"""Reduction: what follows by itself once something has been put into the soup.

A broadcast is drained, a termination cascades to its end, an escalation is answered: each in the
transaction of what caused it.
"""

from __future__ import annotations

from typing import Any

from parley.bus.rows import MessageRow
from parley.bus.slots import advice_slot, clone_slot, handle_slot, number_of
from parley.engine import protocol_messages
from parley.engine.outbox import RetireWorkspace
from parley.engine.owned_job import OwnedJob
from parley.engine.turn.question_clone import clone_text
from parley.engine.values import message_meta
from parley.engine.values.message_meta import NO_VIEW, Answered, ProxyView, Put, Relayed, Replied, ToProxy
from parley.engine.values.step_extra import StepExtra
from parley.engine.world import World
from parley.ports.decisions import How
from parley.protocol.conversation import enclosing
from parley.protocol.errors import Refused
from parley.protocol.escalation import goes_straight
from parley.protocol.molecules import (
    HUMAN,
    ORCHESTRATOR,
    PROXY,
    AskHuman,
    AskQuestion,
    Idle,
    Interrupt,
    Mailbox,
    MessageKind,
    Origin,
    Policy,
    Proxy,
    Record,
    Ruling,
    Run,
    Send,
    Surface,
    Terminate,
    Verdict,
    escalation_thread,
)
from parley.protocol.rule import Answer, Passage
from parley.protocol.states import Action, State
from parley.protocol.withdrawal import last_action, strongest


def message(job: OwnedJob, world: World, name: str) -> MessageRow:
    """A message by its id."""
    row = job.mail.rows.get(name)
    if row is None:
        row = world.store.message(job.id, number_of(name))
        job.keep_row(name, row)
    return row


def acknowledge(job: OwnedJob, world: World, thread: str) -> None:
    """A subteam that sets to work takes the intent it was given: its record goes on to PLAN."""
    record = job.soup.get(Record, thread)
    if record is None or not record.live or record.state is not State.INTENT:
        return
    now = world.clock.now()
    passage = Passage(
        action=Action.APPROVED_INTENT,
        actor=record.team_id,
        timestamp=now,
        reason="acknowledges the intent it was given",
        contents=record.approved,
    )
    try:
        job.fire("transition", record.id, choice=passage, who=record.team_id, time=now)
    except Refused:
        return  # something else has to be heard first: its next turn will do


_CONSUMERS: tuple[tuple[str, type[Any]], ...] = (
    ("term-run", Run),
    ("term-idle", Idle),
    ("term-mbox", Mailbox),
    ("term-send", Send),
    ("term-ask", AskQuestion),
)


def terminate(job: OwnedJob, world: World, thread: str, why: str = "") -> None:
    """Carry a Terminate through its whole subtree; `why` is the human's reason for giving up a part of the job."""
    soup, now = job.soup, world.clock.now()
    waiting = [thread]
    while waiting:
        here = waiting.pop()
        job.forget_dying(here)
        if soup.get(Terminate, here) is None:
            continue
        found = strongest(soup, here)
        who = ORCHESTRATOR
        for rule, kind in _CONSUMERS:
            for molecule in soup.all(kind, here):
                ran = _ran(job, world, molecule) if kind is Run else None
                job.fire(rule, here, molecule.agent, who=who, time=now, extra=ran)
        for proxy in soup.all(Proxy, here):
            job.fire("term-proxy", here, proxy.id, who=who, time=now)
        for asked in soup.all(AskHuman, here):
            job.fire("term-human", here, asked.id, who=who, time=now)
        for interrupt in soup.all(Interrupt, here):
            job.fire("term-interrupt", here, interrupt.message, who=who, time=now)
        _end_record(job, world, here, found.origin, why)
        for child in soup.children(here):
            job.fire("cascade", here, child, who=who, time=now)
            waiting.append(child)
        while soup.count(found) > 1 or len(soup.all(Terminate, here)) > 1:
            job.fire("term-again", here, who=who, time=now)
        for surface in soup.all(Surface, here):
            job.drop(handle_slot(surface.agent, here))
            job.drop(clone_slot(here))
            job.drop(advice_slot(surface.agent, here))
            job.forget_told(surface.agent, here)
            for hook in job.guests.thread_closed:
                hook(job, surface, found.origin, now)
            if surface.workspace == here:
                job.ask(RetireWorkspace(here))
        job.fire("term-final", here, who=who, time=now)


def _ran(job: OwnedJob, world: World, run: Run) -> StepExtra | None:
    """Where a turn ran that ends with its thread, if it was on another host."""
    host = world.store.hosts_of(job.id).get(run.turn)
    return StepExtra(turn=run.turn, host=host) if host else None


def _end_record(job: OwnedJob, world: World, thread: str, origin: Origin, why: str) -> None:
    """A subteam's record ends with its thread: work that was accepted passes each gate that is left."""
    soup, now = job.soup, world.clock.now()
    while (record := soup.get(Record, thread)) is not None and record.live:
        above, action = soup.need(Record, record.parent_id), last_action(soup, record, origin)
        dispatcher = above.team_id if above.depth else above.actor or ORCHESTRATOR
        actor = {Action.WITHDRAW: HUMAN, Action.FAILURE: ORCHESTRATOR}.get(action, dispatcher)
        reason = protocol_messages.end_of_subteam(action, origin, job.record, why)
        passage = Passage(action, actor, now, reason)
        job.fire("term-record", thread, choice=passage, who=ORCHESTRATOR, time=now)


# ---- escalations ---------------------------------------------------------------------------------


def pose(job: OwnedJob, world: World, rule: str, agent: str, thread: str, now: float) -> None:
    """[ask] or [send-ask]: put the questions; those that need no turn of the proxy are before the human at once."""
    before = set(job.soup.all(Proxy, thread))
    job.fire(rule, agent, thread, who=agent, time=now)
    known = clone_text(job.soup, job.kept, job.roles.code, agent, thread)
    for proxy in job.soup.all(Proxy, thread):
        if proxy in before:
            continue
        slot = clone_slot(escalation_thread(proxy.id))
        if slot not in job.kept:  # else the step that asks has named a draft
            job.keep(slot, known)
        if goes_straight(job.soup.charter, proxy.question, proxy.policy):
            to_human(job, world, proxy.id, key=f"{proxy.question.message}/straight")


def to_human(
    job: OwnedJob,
    world: World,
    question: str,
    *,
    key: str,
    framing: str = "",
    view: ProxyView = NO_VIEW,
    how: How | None = None,
) -> None:
    """[escalate]: put the question before the human, with the proxy's words and its view; `how`: why they are asked."""
    thread = escalation_thread(question)
    proxy = job.soup.need(Proxy, thread)
    record, row = enclosing(job.soup, proxy.thread), message(job, world, proxy.question.message)
    posed = message_meta.read_as(ToProxy, row)
    remarks = (hook(job, proxy) for hook in job.guests.question_remark)
    put = Put(
        question=question,
        state=str(record.state),
        visit=record.visits(record.state),
        kind=proxy.question.kind,
        artifact=proxy.question.artifact,
        digest=proxy.question.digest,
        asker=proxy.agent,
        thread=proxy.thread,
        asked=proxy.question.message,
        subject=protocol_messages.subject(record, proxy.question),
        text=posed.text,
        framing=framing,
        how=how or (How.POLICY if proxy.policy is Policy.ALWAYS else How.UNSURE),
        words=said_to(job, world, proxy) if proxy.heard else "",
        outline=posed.outline,
        menu=posed.menu,
        unfinished=posed.unfinished,
        warning=posed.warning,
        view=view,
        remarks=tuple(remark for remark in remarks if remark),
    )
    name = job.write(
        (PROXY, thread),
        (HUMAN, thread),
        protocol_messages.for_human(record, proxy.question, put),
        kind=MessageKind.QUESTION,
        key=key,
        time=world.clock.now(),
        meta=put,
    )
    job.fire("escalate", question, choice=name, who=PROXY, time=world.clock.now())


def said_to(job: OwnedJob, world: World, proxy: Proxy) -> str:
    """All that the human has said to a question, word for word, oldest first."""
    rows = (message(job, world, name) for name in proxy.words)
    return protocol_messages.together(message_meta.read_as(Replied, row).text for row in rows)


def chosen_in(job: OwnedJob, world: World, proxy: Proxy) -> str:
    """What the human has chosen of a question's menu, in the last that they said to it."""
    return message_meta.read_as(Replied, message(job, world, proxy.words[-1])).choice


def respond(
    job: OwnedJob,
    world: World,
    question: str,
    *,
    ruling: Ruling | None,
    text: str,
    key: str,
    view: ProxyView = NO_VIEW,
    choice: str = "",
) -> None:
    """[respond]: the answer goes to the asker, and the escalation ends.

    `text` is the proxy's: its answer where the human was not asked, else its remarks beside the human's words. `choice`
    is the proxy's too; where the human was asked, only what the human chose counts.
    """
    thread = escalation_thread(question)
    proxy = job.soup.need(Proxy, thread)
    author = HUMAN if proxy.heard and ruling is proxy.said else PROXY
    words, remarks = (said_to(job, world, proxy), text) if proxy.heard else (text, "")
    chosen = chosen_in(job, world, proxy) if proxy.heard else choice
    if remarks.strip() == words.strip():
        remarks = ""  # it has only repeated them
    name = job.write(
        (PROXY, thread),
        (proxy.agent, proxy.thread),
        protocol_messages.answer(ruling, words, question, author, heard=proxy.heard, remarks=remarks, choice=chosen),
        kind=MessageKind.ANSWER,
        key=key,
        time=world.clock.now(),
        meta=Answered(
            question=question,
            kind=proxy.question.kind,
            author=author,
            asked=proxy.question.message,
            ruling=ruling,
            text=words,
            choice=chosen,
            heard=proxy.heard,
            remarks=remarks,
            view=view,
        ),
        alone=ruling is Ruling.WITHDRAW,  # the marker and the reason, to the letter
    )
    if view != NO_VIEW:
        for hook in job.guests.proxy_answered:
            hook(job, message(job, world, proxy.question.message), job.mail.rows[name])
    given = Answer(name, author, ruling, proxy.words)
    job.fire("respond", question, choice=given, who=author, time=world.clock.now())
    relay(job, world, proxy, given, words=words, remarks=remarks, key=key)
    terminate(job, world, thread)


def relay(job: OwnedJob, world: World, proxy: Proxy, given: Answer, *, words: str, remarks: str, key: str) -> None:
    """[relay]: a backtrack that was the answer to another agent is told to the lead, which writes the outcome."""
    record = enclosing(job.soup, proxy.thread)
    if all(verdict.told or verdict.question != proxy.id for verdict in job.soup.all(Verdict, record.id)):
        return
    name = job.write(
        (PROXY, escalation_thread(proxy.id)),
        (record.actor, record.thread),
        protocol_messages.relayed(given.ruling, words, proxy, given.author, remarks),
        kind=MessageKind.NOTICE,
        key=f"{key}/relay",
        time=world.clock.now(),
        meta=Relayed(question=proxy.id, author=given.author, asker=proxy.agent),
    )
    job.fire("relay", record.id, proxy.id, choice=name, who=ORCHESTRATOR, time=world.clock.now())


def pass_back(job: OwnedJob, world: World, question: str, key: str) -> None:
    """[respond] by code: what the human said goes to the asker as it is, beside what the proxy said of the question."""
    proxy = job.soup.need(Proxy, escalation_thread(question))
    reply = message_meta.read_as(Replied, message(job, world, proxy.words[-1]))
    put = message_meta.read_as(Put, message(job, world, reply.put))
    respond(job, world, question, ruling=proxy.said, text=protocol_messages.remarks(put.view), key=key)


def fall_back(job: OwnedJob, world: World, question: str, key: str) -> None:
    """The proxy did not deal with its question: the human will, or it has no answer."""
    thread = escalation_thread(question)
    proxy = job.soup.get(Proxy, thread)
    if proxy is None:
        return
    if proxy.heard:
        pass_back(job, world, question, key)
    elif proxy.policy is Policy.NEVER:
        respond(job, world, question, ruling=Ruling.REVISE, text="no answer", key=key)
    else:
        to_human(job, world, question, key=key)
