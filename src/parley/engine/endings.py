"""The end of a turn: what it sent, asked and left behind becomes one transaction."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from parley.core.conversation import enclosing, letter_kind, refuse_unless_askable, works_below
from parley.core.errors import Refused
from parley.core.rule import Asking, Broadcast
from parley.core.soup import Soup
from parley.core.states import PHASES, Action, Record
from parley.core.terms import (
    ORCHESTRATOR,
    PROXY,
    AskHuman,
    Close,
    Deliver,
    Kind,
    MessageKind,
    Payload,
    Proxy,
    Question,
    Run,
    Surface,
    escalation_thread,
    thread_kind,
)
from parley.engine import designs, reports, spending, texts, unfinished
from parley.engine.changed import stat_of, warning_of
from parley.engine.live import LiveJob, payload_message
from parley.engine.losing import confined, interrupt, lose, park
from parley.engine.merging import WORK, bring_up, clean, missing, tell_conflicts
from parley.engine.names import advice_slot, handle_after, tree_slot
from parley.engine.proxying import settle
from parley.engine.records import dumps, render
from parley.engine.reduce import drain, fall_back, message, pose
from parley.engine.remembering import EXCERPT, in_use
from parley.engine.riders import Rider
from parley.engine.roster import CODE
from parley.engine.sending import keep_files, moved, with_files
from parley.engine.turn import Turn
from parley.engine.world import World
from parley.ports import REPORTS, Ended, Kept, Outcome, WorkspaceError
from parley.quoting import quoted
from parley.text import cut
from parley.workflow.binding import bound

LONGEST_MODEL = 100  # characters of a model's name
ARTIFACTS = tuple(phase.artifact for phase in PHASES.values())


def end_turn(live: LiveJob, world: World, event: Ended) -> Turn | None:
    """Account for a turn that is over; None if it was not under way, so that a late result is nothing."""
    turn = live.running.get(event.turn)
    if turn is None or event.epoch != live.epoch:
        return None
    run = live.soup.get(Run, turn.thread, turn.agent)
    if run is None or run.turn != event.turn:
        return None
    spending.count(live, world, turn, event)
    if event.fault or event.parked_seconds > 0:
        live.finish(event.turn, "lost")
    if event.parked_seconds > 0:
        park(live, world, turn, event)
    elif event.unconfined:
        interrupt(live, world, turn, event)
    elif event.overtime:
        _end_overdue(live, world, turn, event)
    elif event.fault:
        left = {**confined(turn, event), **spending.left_by(turn)}
        if event.remembered:
            left["handle"] = event.remembered
            _keep_handle(live, turn, event.remembered)
        lose(live, world, turn, event.fault, left, hopeless=event.hard)
    elif turn.agent == PROXY:
        _end_proxy(live, world, turn, event)
    else:
        _end_agent(live, world, turn, event)
    return turn


def _end_overdue(live: LiveJob, world: World, turn: Turn, event: Ended) -> None:
    """A turn reached its time limit. It is lost like any other, but its files and its session stay where they are."""
    left = {**confined(turn, event), **spending.left_by(turn)}
    if turn.agent != PROXY:
        workspace = live.soup.need(Surface, turn.thread, turn.agent).workspace
        try:
            kept = _keep_tree(live, world, turn, led_by(live.soup, turn.thread), workspace)
        except WorkspaceError as trouble:
            lose(live, world, turn, f"{event.fault}; {trouble}", left)
            live.remarks[turn.agent, turn.thread] = texts.did_not_count(str(trouble))
            return
        live.keep(tree_slot(workspace), kept.tree)
        left["tree"] = kept.tree
        if kept.left_out:
            left["left_out"] = list(kept.left_out)
            live.remarks[turn.agent, turn.thread] = texts.left_out(kept.left_out)
    if event.handle:
        left["handle"] = event.handle
        _keep_handle(live, turn, event.handle)
    lose(live, world, turn, event.fault, left, kept=True)
    live.overran[turn.agent, turn.thread] = event.fault


# ---- the proxy's turn ----------------------------------------------------------------------------


def _end_proxy(live: LiveJob, world: World, turn: Turn, event: Ended) -> None:
    question = turn.thread.partition(":")[2]
    live.finish(turn.turn, "ended")
    _keep_handle(live, turn, event.handle)
    live.fire(
        "nosend-step",
        turn.agent,
        turn.thread,
        who=PROXY,
        time=world.clock.now(),
        extra=_left_behind(turn, event, Kept("")),
    )
    if live.soup.get(Proxy, escalation_thread(question)) is None:
        return
    if turn.said is None:
        fall_back(live, world, question, key=f"{turn.turn}/fallback")
    else:
        settle(live, world, turn, question)


def _keep_handle(live: LiveJob, turn: Turn, handle: str) -> None:
    if handle:
        live.keep(*handle_after(live.kept, turn.agent, turn.thread, handle))


# ---- everyone else's turn ------------------------------------------------------------------------


def led_by(soup: Soup, thread: str) -> Record | None:
    """The record whose lead works on the thread, if it leads one."""
    record = soup.get(Record, thread) or soup.get(Record, soup.charter.job)
    return record if record is not None and record.thread == thread else None


def contents(live: LiveJob, world: World, workspace: str, tree: str) -> dict[str, str]:
    """What the artifacts contain in a tree that a workspace has committed, and nowhere else: what a gate is about.

    For the plan that is the design of its workflow too, for the work all files.
    """
    found = world.workspace.contents(live.job, tree, ARTIFACTS)
    if designs.PLAN_MD in found and workspace == live.thread:
        design = designs.design_of(designs.Committed(world, live.job, tree))
        if design is not None:
            found[designs.PLAN_MD] = bound(found[designs.PLAN_MD], design.blueprint)
    if WORK in found:
        found[WORK] = tree
    return found


def _end_agent(live: LiveJob, world: World, turn: Turn, event: Ended) -> None:
    surface = live.soup.need(Surface, turn.thread, turn.agent)
    record = led_by(live.soup, turn.thread)
    try:
        left = reports.report(live, world, turn)  # before anything of it is put back
        outcome = world.workspace.read_outcome(live.job, surface.workspace) if record and record.live else None
        merges = bring_up(live, world, turn, record, outcome)
        said = moved(live, world, turn, surface.workspace, event.text) if not turn.speaks else (event.text, "")
        kept = _keep_tree(live, world, turn, record, surface.workspace)
        tree = kept.tree
        reports.strayed(live, turn, kept, left)
        inside = contents(live, world, surface.workspace, tree) if record else {}
        unsettled = world.workspace.unresolved(live.job, surface.workspace) if record else []
        made = _made(live, world, surface.workspace) if _reports(live, turn) else ()
    except WorkspaceError as trouble:  # too large, or damaged by what ran in it: that turn does not count
        live.finish(turn.turn, "lost")
        lose(live, world, turn, str(trouble), {**confined(turn, event), **spending.left_by(turn)})
        live.remarks[turn.agent, turn.thread] = texts.did_not_count(str(trouble))
        return
    live.finish(turn.turn, "ended")
    now = world.clock.now()
    questions, refused = _questions(live, world, turn, tree, inside, unsettled)
    if outcome is not None and outcome.outcome and unsettled:
        outcome = Outcome(problem=texts.unsettled(unsettled))
    if refused and outcome is None:
        outcome = Outcome(problem=refused)
    if outcome is not None and outcome.outcome == Action.APPROVED_PLAN and record is not None and not record.depth:
        outcome = _checked(live, world, tree, outcome)
    if unsettled and any(merge.conflicts for _, _, merge in merges):
        outcome = None  # it could not know of what its own turn's end has brought: it is told, and not blamed
    payloads = _letters(live, turn, now, left, made)
    closed = {payload.thread for payload in payloads if isinstance(payload, Close)}
    silent = len(closed) == len(payloads) and not questions and outcome is None
    if silent and not in_flight(live.soup, turn.thread, closed):
        brought = " ".join(texts.merged(*merge) for merge in merges) if thread_kind(turn.thread) == "dispatch" else ""
        reply = _reply(live, turn, said if any(said) else ("", brought), now, left, made)
        payloads.extend(reply)
    _keep_handle(live, turn, event.handle)
    live.drop(advice_slot(turn.agent, turn.thread))
    progress = bool(tree) and tree != live.kept.get(tree_slot(surface.workspace))
    if tree:
        live.keep(tree_slot(surface.workspace), tree)
    chosen = Broadcast(tuple(payloads), tuple(questions), progress)
    merged = [*clean(merges), *missing(live.leaves("send-step", turn.agent, turn.thread, choice=chosen))]
    extra = _left_behind(turn, event, kept, merged)
    if merged:
        live.let_ride(turn.agent, turn.thread, merged)
    who = turn.agent
    if payloads:
        live.fire("send-step", turn.agent, turn.thread, choice=chosen, who=who, time=now, extra=extra)
        drain(live, world, turn.agent, turn.thread, now)
    elif questions:
        asked = Asking(tuple(questions), progress)
        live.fire("ask-step", turn.agent, turn.thread, choice=asked, who=who, time=now, extra=extra)
        pose(live, world, "ask", turn.agent, turn.thread, now)
    else:
        live.fire("nosend-step", turn.agent, turn.thread, who=who, time=now, extra=extra)
    tell_conflicts(live, world, turn, merges)
    if kept.left_out:
        live.remarks[turn.agent, turn.thread] = texts.left_out(kept.left_out)
    if record is not None and record.live:
        _report(live, world, turn, event, outcome, inside)


def _keep_tree(live: LiveJob, world: World, turn: Turn, record: Record | None, workspace: str) -> Kept:
    """Keep what the turn made of its workspace, an approved design as it was approved."""
    put_back = designs.put_back(live, world, turn.design)
    if record is not None:
        designs.sum_up(live, world, record)
    scope = reports.scope_of(live, turn.thread)
    kept = world.workspace.snapshot(live.job, workspace, anchored(live, turn), scope)
    return replace(kept, left_out=(*kept.left_out, *put_back)) if put_back else kept


def _checked(live: LiveJob, world: World, tree: str, outcome: Outcome) -> Outcome:
    """An approved plan counts if its design still holds."""
    try:
        designs.refuse_gaps(live, world, tree)
    except (Refused, WorkspaceError) as refused:
        return Outcome(problem=str(refused))
    return outcome


def anchored(live: LiveJob, turn: Turn) -> str:
    """The message of a turn's commit, with where the bus stood: a cut tail is found by the turns after it, too."""
    said = f"{turn.agent} on {turn.thread}, turn {turn.turn} of job {live.job}"
    return f"{said}\n\n{live.witness()}"


def _left_behind(turn: Turn, event: Ended, kept: Kept, merged: Sequence[Rider] = ()) -> str:
    tree, seen = kept.tree, confined(turn, event)
    if not (event.handle or turn.usage or seen or tree or turn.notes or turn.worked or merged or event.model):
        return f'{{"turn":"{turn.turn}"}}'
    left: dict[str, Any] = {"turn": turn.turn}
    if event.handle:
        left["handle"] = event.handle
    if turn.usage:
        left["usage"] = turn.usage
    if turn.worked:
        left["worked"] = turn.worked
    if event.model:
        left["model"] = cut(event.model, LONGEST_MODEL) if event.model.isprintable() else "?"
    if tree:
        left["tree"] = tree
    if kept.left_out:
        left["left_out"] = list(kept.left_out)
    left.update(seen)
    if merged:
        left["merged"] = list(merged)
    if turn.notes:
        left["notes"] = turn.notes
    return dumps(left)


def _questions(
    live: LiveJob, world: World, turn: Turn, tree: str, inside: dict[str, str], unsettled: list[str]
) -> tuple[list[Question], str]:
    """The turn's questions, each on the bus, each assert bound to what its artifact contains in the turn's tree.

    An assert was checked when it was called; where the artifact has been changed since, it may be refused after all.
    """
    made: list[Question] = []
    if not turn.questions:
        return made, ""
    record = enclosing(live.soup, turn.thread)
    problem = ""
    left = left_at_gate(live, turn)
    for number, (question, text) in enumerate(turn.questions):
        digest = (inside.get(question.artifact) or "absent") if question.kind is Kind.ASSERT else ""
        asked = replace(question, digest=digest)
        if question.artifact == WORK and unsettled:
            problem = texts.unsettled(unsettled)
            continue
        try:
            refuse_unless_askable(live.soup, turn.agent, turn.thread, (asked,))
            if not record.depth and digest != question.digest:
                refuse_unready(live, world, record, question.artifact, tree)
        except Refused as refused:
            problem = str(refused)
            continue
        told = {unfinished.KEY: left} if left and asked.kind is Kind.ASSERT else {}
        about = _what(live, world, record, asked, tree)
        name = live.write(
            (turn.agent, turn.thread),
            (PROXY, escalation_thread(question.id)),
            texts.question(
                record,
                asked,
                text,
                unfinished.lines(left) if asked.kind is Kind.ASSERT else (),
                warning_of(about),
            ),
            kind=MessageKind.QUESTION,
            key=f"{turn.turn}/question/{number}",
            time=world.clock.now(),
            meta={**about, **told},
        )
        made.append(replace(asked, message=name))
    return made, problem


def left_at_gate(live: LiveJob, turn: Turn) -> list[dict[str, Any]]:
    """The unfinished work that is left out of what a turn puts forward."""
    return unfinished.at_a_gate(live.soup, live.kept, live.begun, turn.thread, turn.payloads)


def refuse_unready(live: LiveJob, world: World, record: Record, artifact: str, tree: str) -> None:
    """What a workflow adds to a gate: no plan with gaps, no work before it is through."""
    try:
        if artifact == designs.PLAN_MD:
            designs.refuse_undesigned(live, world, record, tree)
            designs.refuse_gaps(live, world, tree)
        elif artifact == WORK:
            designs.refuse_unfit(live, world, record, tree)
    except WorkspaceError as error:
        raise Refused(str(error)) from error


def _what(live: LiveJob, world: World, record: Record, asked: Question, tree: str) -> dict[str, Any]:
    """What a question is about, for whoever deals with it and for what is remembered of it."""
    state = record.state if record.live else record.history[-1].state
    what: dict[str, Any] = {
        "question": asked.id,
        "state": str(state),
        "kind": str(asked.kind),
        "artifact": asked.artifact,
        "digest": asked.digest,
    }
    if asked.artifact == designs.PLAN_MD and not record.depth and (lines := designs.told_of(live, world, tree)):
        what["workflow"] = lines
    if asked.artifact == WORK and not record.depth:
        with suppress(WorkspaceError):  # the work is put forward all the same
            what["stat"] = stat_of(world.workspace.changes(live.job, tree)).document()
    if asked.artifact and in_use(live):
        what["excerpt"] = texts.fit(world.workspace.beginning(live.job, tree, asked.artifact, EXCERPT))
    return what


def _reports(live: LiveJob, turn: Turn) -> bool:
    """Whether an agent, and no code of the engine's, reads what the turn reports."""
    parent = live.soup.parent(turn.thread)
    above = live.soup.get(Surface, parent) if parent else None
    return above is not None and above.agent not in CODE


def _made(live: LiveJob, world: World, workspace: str) -> tuple[str, ...]:
    """The paths that a worker's commits have changed; a report that became a file is none of its work."""
    changed = world.workspace.changed(live.job, workspace)
    return tuple(path for path in changed if not path.startswith(f"{REPORTS}/"))


def _letters(live: LiveJob, turn: Turn, time: float, left: dict[str, Any] | None, made: Sequence[str]) -> list[Payload]:
    """The turn's payloads, each letter on the bus."""
    payloads: list[Payload] = []
    opened: set[str] = set()
    for number, payload in enumerate(turn.payloads):
        if isinstance(payload, Close):
            payloads.append(payload)
            continue
        kind = letter_kind(live.soup, turn.agent, turn.thread, payload.thread, opened)
        opened.add(payload.thread)
        text, up = turn.texts[payload.message], kind is MessageKind.REPORT
        if payload.agent not in CODE:
            text = texts.report(turn.agent, turn.thread, made, text) if up else quoted(text)
        files = turn.files.get(payload.message, ())
        name = live.write(
            (turn.agent, turn.thread),
            (payload.agent, payload.thread),
            with_files(text, files),
            kind=kind,
            key=f"{turn.turn}/{number}",
            time=time,
            meta=left if up else keep_files(live, payload.thread, files),
        )
        payloads.append(payload_message(payload, name))
    return payloads


def _reply(
    live: LiveJob, turn: Turn, said: tuple[str, str], time: float, left: dict[str, Any] | None, made: Sequence[str]
) -> list[Deliver]:
    """A turn that said nothing to anyone, with nothing of its own in flight, reports to its dispatcher.

    `said` is in the agent's words, and what the protocol adds to them.
    """
    parent = live.soup.parent(turn.thread)
    above = live.soup.get(Surface, parent) if parent else None
    if above is None:
        return []
    text, own = map(texts.fit, said)
    name = live.write(
        (turn.agent, turn.thread),
        (above.agent, above.thread),
        "\n\n".join(part for part in (text, own) if part)
        if above.agent in CODE
        else texts.report(turn.agent, turn.thread, made, text, own),
        kind=MessageKind.REPORT,
        key=f"{turn.turn}/reply",
        time=time,
        meta=left,
    )
    return [Deliver(above.agent, above.thread, name)]


def in_flight(soup: Soup, thread: str, closed: Collection[str] = ()) -> bool:
    """Whether anything of the thread's own is under way: a question, or work below it that goes on."""
    return bool(soup.get(Proxy, thread) or soup.get(AskHuman, thread)) or works_below(soup, thread, closed)


def _report(
    live: LiveJob, world: World, turn: Turn, event: Ended, outcome: Outcome | None, inside: dict[str, str]
) -> None:
    """[observe]: the orchestrator sees the outcome record that a lead left, or that a subteam has begun."""
    record = led_by(live.soup, turn.thread)
    if record is None or not record.live:
        return
    if outcome is None:
        return
    meta = {
        "record": record.id,
        "state": str(record.state),
        "outcome": texts.fit(outcome.outcome),
        "reason": texts.fit(outcome.reason),
        "problem": outcome.problem,
        "contents": sorted(inside.items()),
        "actor": turn.agent,
        "turn": turn.turn,
        "text": texts.fit(event.text),
        "workspace": live.soup.need(Surface, turn.thread, turn.agent).workspace,
    }
    seen = live.write(
        (turn.agent, turn.thread),
        (ORCHESTRATOR, live.thread),
        texts.fit(f"{outcome.outcome or outcome.problem}: {outcome.reason}"),
        kind=MessageKind.OUTCOME,
        key=f"{turn.turn}/outcome",
        time=world.clock.now(),
        meta={"report": meta},
    )
    live.fire("observe", record.id, choice=seen, who=ORCHESTRATOR, time=world.clock.now())
    live.outcomes.append(outcome_file(record, meta))


def outcome_file(record: Record, report: dict[str, Any]) -> tuple[str, str, str]:
    """An outcome record as it is kept: a name that says when, a text, and the workspace it was left in."""
    said = {key: report[key] for key in ("outcome", "reason", "problem", "actor", "turn") if report[key]}
    where = record.id.rpartition(":")[2] if record.depth else report["state"]
    text = render({**said, "record": record.id, "state": report["state"]})
    return f"{int(report['turn'][1:]):06d}-{where}.json", text, report["workspace"]


def discarded(live: LiveJob, agent: str, thread: str) -> list[str]:
    """The calls that the instance's last turn lost, told once."""
    return live.lost.pop((agent, thread), [])


__all__ = ["contents", "discarded", "end_turn", "in_flight", "led_by", "lose", "message"]
