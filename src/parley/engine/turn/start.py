"""The start of a turn: it is woken in a transaction, and put out once that is committed."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from functools import lru_cache

from parley.bus.slots import advice_slot, handle_of, sent_slot
from parley.engine import protocol_messages
from parley.engine.files.streams import stream_of
from parley.engine.outbox import AbandonWorkspace
from parley.engine.owned_job import OwnedJob
from parley.engine.reduction import acknowledge, message
from parley.engine.turn import question_clone
from parley.engine.turn.running_turn import Turn
from parley.engine.turn.sending import sent_to
from parley.engine.turn.stages import Start, Waking
from parley.engine.values.job_roles import Kit, kit_of
from parley.engine.values.step_extra import StepExtra
from parley.engine.world import World
from parley.ports.turns import Order
from parley.protocol.conversation import Admission, enclosing, led_by
from parley.protocol.escalation import policy_for
from parley.protocol.molecules import PROXY, MessageKind, Policy, Proxy, Record, Run, Surface, thread_kind
from parley.protocol.states import LIVE
from parley.roles.phases import PHASES

SEALED = {state: tuple(PHASES[earlier].artifact for earlier in LIVE[:number]) for number, state in enumerate(LIVE)}
_QUARTER_SECONDS = 900  # no zone's day begins in the middle of a quarter of an hour


# ---- in the transaction --------------------------------------------------------------------------


def wake(job: OwnedJob, world: World, rule: str, at: tuple[str, ...], name: str) -> None:
    """Start an instance's turn on a message, unless a guest has it wait."""
    now = world.clock.now()
    waking = Waking(rule=rule, agent=at[0], thread=at[1], message=name, now=now, day=day_of(now))
    for hook in job.guests.before_start:
        if not hook(job, waking):
            return
    turn = _begin(job, world, waking, at)
    for started in job.guests.turn_started:
        started(job, turn)


def _begin(job: OwnedJob, world: World, waking: Waking, at: tuple[str, ...]) -> Turn:
    """Fire what starts the turn. The step says all that the turn's row will: an audit compares them."""
    agent, thread, now = waking.agent, waking.thread, waking.now
    cut_host = ""
    if waking.rule == "interrupt":
        cut_short = job.soup.need(Run, thread, agent).turn
        cut_host = world.store.hosts_of(job.id).get(cut_short, "")
        if agent != PROXY:
            job.ask(AbandonWorkspace(job.soup.need(Surface, thread, agent).workspace, cut_short))
    name, host = f"t{job.counters.step + 1}", world.turns.hosts()[0]
    extra = StepExtra(host=host, cut_host=cut_host, day=waking.day, nearly=waking.nearly)
    job.fire(waking.rule, *at, choice=name, who=agent, time=now, extra=extra)
    if job.soup.get(Record, thread) is not None:
        acknowledge(job, world, thread)
    token = f"{name}.{job.epoch}.{secrets.token_hex(8)}"
    turn = Turn(
        turn=name,
        agent=agent,
        thread=thread,
        message=waking.message,
        token=token,
        admission=Admission(agent, thread),
        day=waking.day,
        begun=now,
    )
    job.begin(turn, host, now)
    return turn


def day_of(now: float) -> str:
    """The day that it is where the user is. Every time that a clock tells has a day: none may stop a job."""
    return _day(int(now // _QUARTER_SECONDS))


@lru_cache(maxsize=8)
def _day(quarter: int) -> str:
    try:
        return time.strftime("%Y-%m-%d", time.localtime(quarter * _QUARTER_SECONDS))
    except (OverflowError, OSError, ValueError):
        return "beyond the calendar"


# ---- after the commit ----------------------------------------------------------------------------


def put_out(job: OwnedJob, world: World, turn: Turn) -> None:
    """Give a committed turn to its runner: its place, what it is told, its order."""
    start = _look(job, world, turn)
    kit = _kit(job, world, start)
    turn.stream = kit.stream or stream_of(job.record, turn.thread)  # first: what goes wrong from here on is logged
    _find_place(job, world, start)
    for hook in _preparing(job, start):
        hook(job, start)
    order = _order(job, start, kit, _told(job, start))
    turn.out, turn.heard, turn.pulse = True, world.clock.now(), world.pulse.time
    world.turns.submit(order)


def _look(job: OwnedJob, world: World, turn: Turn) -> Start:
    """What is known of a turn that starts."""
    soup, row = job.soup, job.take_row(turn.message) or message(job, world, turn.message)
    surface, record = soup.need(Surface, turn.thread, turn.agent), enclosing(soup, turn.thread)
    above = job.above(turn.thread)
    base = above.workspace if above is not None else ""
    return Start(
        turn=turn, surface=surface, record=record, leads=led_by(soup, turn.thread), above=above, message=row, base=base
    )


def _find_place(job: OwnedJob, world: World, start: Start) -> None:
    """Make the turn's workspace ready: for the proxy a clone, for every other agent its own."""
    surface, leads = start.surface, start.leads is not None
    if start.turn.agent == PROXY:
        start.site = question_clone.site_of(job, world, start.turn.thread)
        return
    if leads:
        job.guests.look_at(job, lambda folder: bool(world.workspace.listing(job.id, surface.workspace, folder)))
    for hook in job.guests.before_workspace:
        hook(job, start)
    sealed = SEALED.get(start.record.state, ())
    sent = sent_to(job, surface.workspace) if sent_slot(surface.workspace) in job.kept else ()
    start.site = world.workspace.prepare(
        job.id,
        surface.workspace,
        start.base,
        sealed,
        children=_shown(job, surface.thread) if surface.team else None,
        sent=sent,
    )
    if leads:
        world.workspace.clear_outcome(job.id, surface.workspace)


def _preparing(job: OwnedJob, start: Start) -> tuple[Callable[[OwnedJob, Start], None], ...]:
    """The hooks that concern this turn."""
    guests = job.guests
    if start.turn.agent == PROXY:
        return guests.brief_proxy
    return (*guests.prepare, *guests.prepare_lead) if start.leads is not None else guests.prepare


def _shown(job: OwnedJob, thread: str) -> Iterator[str]:
    """The workspaces of those whom an instance has dispatched: looked up only where they are shown."""
    for child in job.soup.children(thread):
        surface = job.soup.get(Surface, child)
        if surface is not None and thread_kind(child) == "dispatch":
            yield surface.workspace


def _told(job: OwnedJob, start: Start) -> str:
    """The turn's message, with what became of the last turn on it and what else its agent has to know."""
    turn, body = start.turn, start.message.body
    if start.briefing:
        body = f"{body}\n\n{start.briefing}"
    if advice := job.kept.get(advice_slot(turn.agent, turn.thread)):
        body = protocol_messages.advised(body, advice)
    after = job.take_aftermath(turn.agent, turn.thread)
    if after is not None:
        body = protocol_messages.recovered(body, after.calls, after.overran)
        if after.remark:
            body = f"{body}\n\n{after.remark}"
    return "\n\n".join((body, *start.remarks)) if start.remarks else body


def _order(job: OwnedJob, start: Start, kit: Kit, said: str) -> Order:
    turn, record = start.turn, start.record
    skills = (PHASES[record.state].skill, *start.skills) if start.leads is not None and record.live else ()
    return Order(
        turn=turn.turn,
        job=job.id,
        epoch=job.epoch,
        token=turn.token,
        agent=turn.agent,
        thread=turn.thread,
        message=said,
        message_id=turn.message,
        sender=start.message.sender,
        state=str(record.state),
        visit=record.visits(record.state),
        site=start.site,
        home=kit.home,
        handle=handle_of(job.kept, turn.agent, turn.thread),
        may_ask=turn.agent == PROXY and _may_ask(job, turn.thread),
        time_limit_seconds=kit.time_limit_seconds,
        tools=kit.tools,
        rules=kit.rules,
        runner=kit.runner,
        role=kit.role,
        skills=skills,
        kind=MessageKind(start.message.kind),
        by_code=start.message.sender in job.roles.code,
        body=start.message.body,
    )


def _kit(job: OwnedJob, world: World, start: Start) -> Kit:
    """What all orders of an instance have in common: made once, and again where its role or its team has changed."""
    surface = start.surface
    key = (surface.agent, surface.thread, surface.team)
    kit = job.roles.kits.get(key)
    if kit is None:
        role, home = job.role(surface.agent, surface.thread), str(world.files.home(job.id))
        kit = kit_of(job.roles, surface, role, job.tools(surface), home)
        job.roles.keep_kit(key, kit)
    return kit


def _may_ask(job: OwnedJob, thread: str) -> bool:
    """Whether the proxy on an escalation's thread may turn to the human."""
    proxy = job.soup.get(Proxy, thread)
    return (proxy.policy if proxy is not None else policy_for(job.soup, thread)) is not Policy.NEVER
