"""The end of a turn: what it sent, asked and left behind becomes one transaction, stage by stage."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace as replace_fields

from msgspec.structs import replace

from parley.base.quoting import quoted
from parley.base.text import cut, fit, mended
from parley.bus.slots import advice_slot, handle_after, tree_slot
from parley.engine import protocol_messages
from parley.engine.owned_job import OwnedJob
from parley.engine.protocol_messages import TEXT_LIMIT
from parley.engine.reduction import fall_back, message, pose, terminate
from parley.engine.turn import lost, merge, sending
from parley.engine.turn.gate import WORK, gate_of, refuse_unready
from parley.engine.turn.outcomes import kept_outcome
from parley.engine.turn.running_turn import Turn
from parley.engine.turn.stages import NO_WORDS, LastWords, TurnEnd
from parley.engine.values import unfinished_work
from parley.engine.values.change_stat import stat_of
from parley.engine.values.message_meta import DeadLetter, Observed, Posed
from parley.engine.values.step_extra import StepExtra, Told
from parley.engine.values.unfinished_work import Unfinished
from parley.engine.world import World
from parley.ports.turns import Confined, Ended
from parley.ports.workspaces import REPORTS, Kept, Outcome, WorkspaceError
from parley.protocol.conversation import enclosing, led_by, letter_kind, refuse_unless_askable, works_below
from parley.protocol.errors import Refused
from parley.protocol.molecules import (
    ORCHESTRATOR,
    PROXY,
    AskHuman,
    Close,
    Deliver,
    Kind,
    Mailbox,
    MessageKind,
    Proxy,
    Question,
    Record,
    Run,
    Send,
    Surface,
    Tombstone,
    escalation_thread,
    thread_kind,
    thread_name,
)
from parley.protocol.rule import Asking, Broadcast
from parley.protocol.soup import Soup
from parley.protocol.states import APPROVAL

LONGEST_MODEL = 100  # characters of a model's name
NAME_LIMIT = 200  # characters of the name of a kind of usage
FAULT_LIMIT = 8000  # characters of a fault, or of one refusal
MAX_USAGES = 64  # kinds of usage in one turn
MOST_USAGE = 1e15  # of one kind, in one turn
MOST_ATTEMPTS = 10_000  # to get out of a boundary
MAX_REFUSALS = 100  # of one turn that its runner tells


def finish(job: OwnedJob, world: World, told: Ended) -> tuple[Turn, Ended] | None:
    """Account for a turn that is over, and bound what was told of it.

    None if it was not under way, so that a late result is nothing.
    """
    turn = _under_way(job, told)
    if turn is None:
        return None
    event = bounded(told)
    for hook in (*job.guests.usage_reported, *job.guests.turn_over) if event.usage else job.guests.turn_over:
        hook(job, turn, event)
    if event.fault or event.parked_seconds > 0:
        _lose(job, world, turn, event)
    elif turn.agent == PROXY:
        _end_proxy(job, world, turn, event)
    else:
        _end_agent(job, world, turn, event)
    return turn, event


def _under_way(job: OwnedJob, event: Ended) -> Turn | None:
    turn = job.running.get(event.turn)
    if turn is None or event.epoch != job.epoch:
        return None
    run = job.soup.get(Run, turn.thread, turn.agent)
    return turn if run is not None and run.turn == event.turn else None


# ---- what an agent says of its end is checked and bounded ------------------------------------------


def bounded(event: Ended) -> Ended:
    """An end with nothing in it that the bus, the streams or a terminal can't take. A program may say anything."""
    return replace(
        event,
        text=text_in(event.text, TEXT_LIMIT),
        handle=_handle(event.handle),
        remembered=_handle(event.remembered),
        usage=_usage(event.usage) if event.usage else {},
        fault=text_in(event.fault, FAULT_LIMIT),
        refusals=_some(event.refusals) if event.refusals else (),
        parked_seconds=amount(event.parked_seconds),
        model=text_in(event.model, NAME_LIMIT),
        host=text_in(event.host, NAME_LIMIT),
        boundary=_confined(event.boundary) if event.boundary is not None else None,
    )


def text_in(text: object, most: int) -> str:
    """A text in its bounds; what is no text is none."""
    return fit(text, most) if isinstance(text, str) else ""


def _handle(handle: object) -> str:
    """What an instance remembers; it goes on without where that is too much."""
    return mended(handle) if isinstance(handle, str) and len(handle) <= TEXT_LIMIT else ""


def _usage(usage: Mapping[str, float]) -> dict[str, float]:
    amounts = {text_in(name, NAME_LIMIT): value for name, value in usage.items() if not isinstance(value, bool)}
    return {name: value for name, value in list(amounts.items())[:MAX_USAGES] if amount(value) == value <= MOST_USAGE}


def amount(value: object) -> float:
    """A number as it is; what is none, or no finite one, is nothing."""
    if not isinstance(value, int | float):
        return 0.0
    try:
        return value if math.isfinite(value) and value >= 0 else 0.0
    except OverflowError:  # an integer beyond all floats
        return 0.0


def _confined(found: Confined) -> Confined:
    """How an agent was confined, as another host tells it."""
    return replace_fields(
        found,
        held=min(max(found.held, 0), MOST_ATTEMPTS),
        tried=min(max(found.tried, 0), MOST_ATTEMPTS),
        faults=_some(found.faults),
        exemptions=_some(found.exemptions),
        uid=found.uid if -1 <= found.uid < 2**32 else -1,
        accepted=text_in(found.accepted, FAULT_LIMIT),
        nested=_some(found.nested),
        unlinked=_some(found.unlinked),
    )


def _some(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(text_in(text, FAULT_LIMIT) for text, _ in zip(texts, range(MAX_REFUSALS), strict=False))


# ---- a turn that did not end well ------------------------------------------------------------------


def _lose(job: OwnedJob, world: World, turn: Turn, event: Ended) -> None:
    """The turn is lost: by its provider's limit, for want of a boundary, by its time limit, or by its agent."""
    job.finish(turn.turn, "lost")
    if event.parked_seconds > 0:
        lost.park(job, world, turn, event)
    elif event.unconfined:
        lost.interrupt(job, world, turn, event)
    elif event.given_back:
        lost.give_back(job, world, turn, event)
    elif event.overtime:
        _end_overdue(job, world, turn, event)
    else:
        if event.remembered:
            _keep_handle(job, turn, event.remembered)
        lost.lose(job, world, turn, lost.left_by(turn, event, handle=event.remembered), hopeless=event.hard)


def _end_overdue(job: OwnedJob, world: World, turn: Turn, event: Ended) -> None:
    """A turn reached its time limit. It is lost like any other, but its files and its session stay where they are."""
    left, remark = lost.left_by(turn, event), ""
    if turn.agent != PROXY:
        ending = _ending(job, turn, event)
        try:
            _keep_tree(job, world, ending)
        except WorkspaceError as trouble:
            _did_not_count(job, world, turn, replace(left, fault=fit(f"{event.fault}; {trouble}", TEXT_LIMIT)), trouble)
            return
        job.keep(tree_slot(ending.surface.workspace), ending.kept.tree)
        left = replace(left, tree=ending.kept.tree, left_out=ending.kept.left_out)
        remark = protocol_messages.left_out(ending.kept.left_out) if ending.kept.left_out else ""
    if event.handle:
        left = replace(left, handle=event.handle)
        _keep_handle(job, turn, event.handle)
    lost.lose(job, world, turn, left, kept=True)
    after = job.after(turn.agent, turn.thread)
    after.overran, after.remark = event.fault, remark


def _did_not_count(job: OwnedJob, world: World, turn: Turn, left: StepExtra, trouble: WorkspaceError) -> None:
    """What a turn left is too large, or damaged by what ran in it: the turn is lost, and its agent is told why."""
    lost.lose(job, world, turn, left)
    job.after(turn.agent, turn.thread).remark = protocol_messages.did_not_count(str(trouble))


# ---- the proxy's turn ------------------------------------------------------------------------------


def _end_proxy(job: OwnedJob, world: World, turn: Turn, event: Ended) -> None:
    """End the proxy's turn: its feature settles the question by what the proxy said, or the human is asked."""
    question = thread_name(turn.thread)
    job.finish(turn.turn, "ended")
    _keep_handle(job, turn, event.handle)
    extra = _left_behind(turn, event, Kept(""))
    job.fire("nosend-step", turn.agent, turn.thread, who=PROXY, time=world.clock.now(), extra=extra)
    if job.soup.get(Proxy, escalation_thread(question)) is None:
        return
    if not any(hook(job, turn, question) for hook in job.guests.proxy_ended):
        fall_back(job, world, question, key=f"{turn.turn}/fallback")


# ---- every other agent's turn ----------------------------------------------------------------------


def _end_agent(job: OwnedJob, world: World, turn: Turn, event: Ended) -> None:
    """End an agent's turn, stage by stage: read what it left, merge, keep its tree, then send, ask and report."""
    ending = _ending(job, turn, event)
    try:
        _read(job, world, ending)
        _merge(job, world, ending)
        _keep_tree(job, world, ending)
        _look(job, world, ending)
    except WorkspaceError as trouble:
        job.finish(turn.turn, "lost")
        left = lost.left_by(turn, event, fault=str(trouble))
        _did_not_count(job, world, turn, left, trouble)
        return
    job.finish(turn.turn, "ended")
    _put_questions(job, world, ending)
    _weigh_outcome(job, ending)
    _write_letters(job, world, ending)
    _fire(job, world, ending)
    if ending.merges:
        merge.tell_conflicts(job, world, turn, ending.merges)
    if ending.kept.left_out:
        job.after(turn.agent, turn.thread).remark = protocol_messages.left_out(ending.kept.left_out)
    _observe(job, world, ending)
    for hook in job.guests.turn_ended:
        hook(job, ending)


def _ending(job: OwnedJob, turn: Turn, event: Ended) -> TurnEnd:
    surface = job.soup.need(Surface, turn.thread, turn.agent)
    return TurnEnd(
        turn=turn, event=event, surface=surface, record=led_by(job.soup, turn.thread), above=job.above(turn.thread)
    )


def _read(job: OwnedJob, world: World, ending: TurnEnd) -> None:
    """What the turn left in its workspace for the protocol to read, before anything of it is put back."""
    for hook in job.guests.read_left_files:
        hook(job, ending)
    if ending.record is not None and ending.record.live:
        ending.outcome = world.workspace.read_outcome(job.id, ending.surface.workspace)


def _merge(job: OwnedJob, world: World, ending: TurnEnd) -> None:
    """Bring in the trees of conversations that the turn closes, or that its assert of the work includes."""
    turn, outcome, record = ending.turn, ending.outcome, ending.record
    ending.closing = [payload.thread for payload in turn.payloads if isinstance(payload, Close)]
    approves = record is not None and outcome is not None and outcome.outcome == APPROVAL.get(record.state)
    puts_forward = approves or any(one.question.artifact == WORK for one in turn.questions)
    if ending.closing or puts_forward:
        merge.bring_up(job, world, ending, whole=puts_forward)
    if not turn.questions and not any(isinstance(payload, Deliver) for payload in turn.payloads):
        ending.said = sending.moved(job, world, turn, ending.surface.workspace, ending.event.text)


def _keep_tree(job: OwnedJob, world: World, ending: TurnEnd) -> None:
    """Keep what the turn made of its workspace."""
    for hook in job.guests.before_keep:
        hook(job, ending)
    if ending.record is not None:
        for complete in job.guests.before_tree_read:
            complete(job, ending.record)
    kept = world.workspace.snapshot(job.id, ending.surface.workspace, commit_note(job, ending.turn), ending.scope)
    ending.kept = replace_fields(kept, left_out=(*kept.left_out, *ending.put_back)) if ending.put_back else kept
    for hook in job.guests.tree_kept:
        hook(job, ending)


def _look(job: OwnedJob, world: World, ending: TurnEnd) -> None:
    """What the kept tree holds that the rules go by, and what its dispatcher is told of it."""
    workspace = ending.surface.workspace
    if ending.record is not None and (ending.turn.questions or ending.outcome is not None):
        ending.gate = gate_of(job, world, ending.record, workspace, ending.kept.tree)
        ending.unsettled = world.workspace.unresolved(job.id, workspace)
    if ending.above is not None and ending.above.agent not in job.roles.code:
        changed = world.workspace.changed(job.id, workspace)
        ending.made = tuple(path for path in changed if not path.startswith(f"{REPORTS}/"))


def commit_note(job: OwnedJob, turn: Turn) -> str:
    """The message of a turn's commit, with where the bus stood: a cut tail is found by the turns after it, too."""
    said = f"{turn.agent} on {turn.thread}, turn {turn.turn} of job {job.id}"
    return f"{said}\n\n{job.witness()}"


# ---- questions -------------------------------------------------------------------------------------


def _put_questions(job: OwnedJob, world: World, ending: TurnEnd) -> None:
    """The turn's questions, each on the bus, each assert bound to what its artifact contains in the turn's tree.

    An assert was checked when it was called; where the artifact has been changed since, it may be refused after all.
    """
    refused = ""
    for number, one in enumerate(ending.turn.questions):
        try:
            ending.questions.append(_put_question(job, world, ending, one.question, one.text, number))
        except Refused as problem:
            refused = str(problem)
    if refused and ending.outcome is None:
        ending.outcome = Outcome(problem=refused)


def _put_question(job: OwnedJob, world: World, ending: TurnEnd, question: Question, text: str, number: int) -> Question:
    turn, record = ending.turn, enclosing(job.soup, ending.turn.thread)
    is_assert = question.kind is Kind.ASSERT
    digest = (ending.contents.get(question.artifact) or "absent") if is_assert else ""
    asked = replace(question, digest=digest)
    if question.artifact == WORK and ending.unsettled:
        raise Refused(protocol_messages.unsettled(ending.unsettled))
    refuse_unless_askable(job.soup, turn.agent, turn.thread, (asked,))
    if ending.gate is not None and not record.depth and digest != question.digest:
        refuse_unready(job, ending.gate, question.artifact)
    left = left_at_gate(job, turn) if is_assert else ()
    posed = _posed(job, world, ending, asked, text, left)
    name = job.write(
        (turn.agent, turn.thread),
        (PROXY, escalation_thread(question.id)),
        protocol_messages.question(record, asked, text, unfinished_work.lines(left), posed.warning),
        kind=MessageKind.QUESTION,
        key=f"{turn.turn}/question/{number}",
        time=world.clock.now(),
        meta=posed,
    )
    return replace(asked, message=name)


def left_at_gate(job: OwnedJob, turn: Turn) -> tuple[Unfinished, ...]:
    """The unfinished work that is left out of what a turn asserts."""
    code = job.roles.code
    return unfinished_work.at_a_gate(job.soup, job.kept, job.begun, code, turn.thread, turn.payloads)


def _posed(
    job: OwnedJob, world: World, ending: TurnEnd, asked: Question, text: str, left: tuple[Unfinished, ...]
) -> Posed:
    """What a question is about."""
    record = enclosing(job.soup, ending.turn.thread)
    stat, gate = None, ending.gate if asked.artifact else None
    if asked.artifact == WORK and not record.depth:
        with suppress(WorkspaceError):  # the work is asserted all the same
            stat = stat_of(world.workspace.changes(job.id, ending.kept.tree))
    if gate is not None:
        gate.artifact = asked.artifact
        for hook in job.guests.describe_gate:
            hook(job, gate)
    return Posed(
        question=asked.id,
        text=quoted(text),
        state=str(record.state if record.live else record.history[-1].state),
        kind=asked.kind,
        artifact=asked.artifact,
        digest=asked.digest,
        stat=stat,
        excerpt=gate.excerpt if gate is not None else "",
        outline=gate.outline if gate is not None else (),
        unfinished=left,
    )


# ---- the outcome -----------------------------------------------------------------------------------


def _weigh_outcome(job: OwnedJob, ending: TurnEnd) -> None:
    """Whether the outcome record can count: conflicts have to be settled first, and features may see more."""
    outcome, record = ending.outcome, ending.record
    if outcome is not None and outcome.outcome and ending.unsettled:
        outcome = Outcome(problem=protocol_messages.unsettled(ending.unsettled))
    if outcome is not None and outcome.outcome and record is not None and not record.depth and ending.gate is not None:
        outcome = _checked(job, ending, record, outcome)
    if ending.unsettled and any(came.merge.conflicts for came in ending.merges):
        outcome = None  # the agent could not know of what its own turn's end has brought: it is told, and not blamed
    ending.outcome = outcome


def _checked(job: OwnedJob, ending: TurnEnd, record: Record, outcome: Outcome) -> Outcome:
    """An approval counts if what it approves could still be asserted."""
    if outcome.outcome != APPROVAL.get(record.state) or ending.gate is None:
        return outcome
    try:
        refuse_unready(job, ending.gate, "", counts=True)
    except Refused as refused:
        return Outcome(problem=str(refused))
    return outcome


# ---- letters ---------------------------------------------------------------------------------------


def _write_letters(job: OwnedJob, world: World, ending: TurnEnd) -> None:
    """The turn's letters, each on the bus. A turn that said nothing to any agent reports to its dispatcher."""
    now, opened = world.clock.now(), set[str]()
    for number, payload in enumerate(ending.turn.payloads):
        if isinstance(payload, Close):
            ending.payloads.append(payload)
        else:
            ending.payloads.append(_letter(job, ending, payload, opened, number, now))
            opened.add(payload.thread)
    closed = set(ending.closing)
    silent = len(closed) == len(ending.payloads) and not ending.questions and ending.outcome is None
    if silent and not in_flight(job.soup, ending.turn.thread, closed):
        ending.payloads.extend(_report(job, ending, now))


def _letter(
    job: OwnedJob, ending: TurnEnd, payload: Deliver, opened: Collection[str], number: int, now: float
) -> Deliver:
    turn = ending.turn
    kind = letter_kind(job.soup, turn.agent, turn.thread, payload.thread, opened)
    text, up = turn.texts[payload.message], kind is MessageKind.REPORT
    if payload.agent not in job.roles.code:
        text = protocol_messages.report(turn.agent, turn.thread, ending.made, text) if up else quoted(text)
    files = turn.files.get(payload.message, ())
    if files:
        text = sending.with_files(text, files)
    name = job.write(
        (turn.agent, turn.thread),
        (payload.agent, payload.thread),
        text,
        kind=kind,
        key=f"{turn.turn}/{number}",
        time=now,
        meta=ending.left if up else sending.keep_files(job, payload.thread, files) if files else None,
    )
    return Deliver(payload.agent, payload.thread, name)


def _report(job: OwnedJob, ending: TurnEnd, now: float) -> list[Deliver]:
    """What a turn with nothing of its own in flight says to its dispatcher: its last words, else what it merged."""
    turn, above = ending.turn, ending.above
    if above is None:
        return []
    said = ending.said
    if said == NO_WORDS and thread_kind(turn.thread) == "dispatch":
        said = LastWords(own=" ".join(came.words() for came in ending.merges))
    text, own = fit(said.text, TEXT_LIMIT), fit(said.own, TEXT_LIMIT)
    body = (
        "\n\n".join(part for part in (text, own) if part)
        if above.agent in job.roles.code
        else protocol_messages.report(turn.agent, turn.thread, ending.made, text, own)
    )
    name = job.write(
        (turn.agent, turn.thread),
        (above.agent, above.thread),
        body,
        kind=MessageKind.REPORT,
        key=f"{turn.turn}/reply",
        time=now,
        meta=ending.left,
    )
    return [Deliver(above.agent, above.thread, name)]


def in_flight(soup: Soup, thread: str, closed: Collection[str] = ()) -> bool:
    """Whether anything of the thread's own is under way: a question, or work below it that goes on."""
    return bool(soup.get(Proxy, thread) or soup.get(AskHuman, thread)) or works_below(soup, thread, closed)


# ---- the step --------------------------------------------------------------------------------------


def _fire(job: OwnedJob, world: World, ending: TurnEnd) -> None:
    """The step that ends the turn, and what follows from it by itself."""
    turn, kept, now = ending.turn, ending.kept, world.clock.now()
    agent, thread, payloads, questions = turn.agent, turn.thread, tuple(ending.payloads), tuple(ending.questions)
    _keep_handle(job, turn, ending.event.handle)
    job.drop(advice_slot(agent, thread))
    where = tree_slot(ending.surface.workspace)
    progress = bool(kept.tree) and kept.tree != job.kept.get(where)
    if kept.tree:
        job.keep(where, kept.tree)
    chosen = Broadcast(payloads, questions, progress)
    told: tuple[Told, ...] = ()
    if ending.merges or ending.closing or questions:
        left = job.leaves("send-step", agent, thread, choice=chosen)
        told = (*merge.clean(ending.merges), *merge.missing(left))
    if told:
        job.tell_later(agent, thread, told)
    extra = _left_behind(turn, ending.event, kept, told)
    if payloads:
        job.fire("send-step", agent, thread, choice=chosen, who=agent, time=now, extra=extra)
        drain(job, world, agent, thread, now)
    elif questions:
        job.fire("ask-step", agent, thread, choice=Asking(questions, progress), who=agent, time=now, extra=extra)
        pose(job, world, "ask", agent, thread, now)
    else:
        job.fire("nosend-step", agent, thread, who=agent, time=now, extra=extra)


def drain(job: OwnedJob, world: World, agent: str, thread: str, now: float) -> None:
    """Reduce a Send to its end."""
    soup = job.soup
    while (send := soup.get(Send, thread, agent)) is not None:
        if not send.payloads:
            if send.questions:
                pose(job, world, "send-ask", agent, thread, now)
            else:
                job.fire("send-empty", agent, thread, who=agent, time=now)
            break
        head = send.payloads[0]
        if isinstance(head, Close):
            job.fire("send-terminate", agent, thread, who=agent, time=now)
            terminate(job, world, head.thread)
        elif soup.get(Mailbox, head.thread, head.agent) is not None:
            job.fire("send", agent, thread, who=agent, time=now)
        elif soup.get(Tombstone, head.thread) is not None:
            letter = message(job, world, head.message)
            notice = job.write(
                (ORCHESTRATOR, job.thread),
                (agent, thread),
                protocol_messages.dead_letter(head.agent, head.thread, letter.body),
                kind=MessageKind.NOTICE,
                key=f"dead:{head.message}",
                time=now,
                meta=DeadLetter(head.message),
            )
            job.fire("dead-letter", agent, thread, choice=notice, who=ORCHESTRATOR, time=now)
        else:
            job.fire("spark", agent, thread, who=agent, time=now)


def _keep_handle(job: OwnedJob, turn: Turn, handle: str) -> None:
    if handle:
        job.keep(*handle_after(job.kept, turn.agent, turn.thread, handle))


def _left_behind(turn: Turn, event: Ended, kept: Kept, told: Sequence[Told] = ()) -> StepExtra:
    """What the step that ends a turn says of it."""
    model = event.model if event.model.isprintable() else "?"
    return StepExtra(
        turn=turn.turn,
        handle=event.handle,
        usage=turn.usage,
        worked=turn.worked,
        model=cut(model, LONGEST_MODEL),
        tree=kept.tree,
        left_out=kept.left_out,
        boundary=event.boundary,
        refused=lost.refusals(turn, event) if turn.refused or event.refusals else (),
        merged=tuple(told),
        notes=tuple(turn.notes),
        host=event.host,
    )


def _observe(job: OwnedJob, world: World, ending: TurnEnd) -> None:
    """[observe]: the orchestrator sees the outcome record that a lead left."""
    turn, outcome = ending.turn, ending.outcome
    if outcome is None or ending.record is None or not ending.record.live:
        return
    record = led_by(job.soup, turn.thread)
    if record is None or not record.live:
        return
    report = Observed(
        record=record.id,
        state=str(record.state),
        outcome=fit(outcome.outcome, TEXT_LIMIT),
        reason=fit(outcome.reason, TEXT_LIMIT),
        problem=outcome.problem,
        contents=tuple(sorted(ending.contents.items())),
        actor=turn.agent,
        turn=turn.turn,
        text=fit(ending.event.text, TEXT_LIMIT),
        workspace=ending.surface.workspace,
    )
    seen = job.write(
        (turn.agent, turn.thread),
        (ORCHESTRATOR, job.thread),
        fit(f"{outcome.outcome or outcome.problem}: {outcome.reason}", TEXT_LIMIT),
        kind=MessageKind.OUTCOME,
        key=f"{turn.turn}/outcome",
        time=world.clock.now(),
        meta=report,
    )
    job.fire("observe", record.id, choice=seen, who=ORCHESTRATOR, time=world.clock.now())
    job.ask(kept_outcome(record, report))
