"""What can happen to a workflow. An event that the table of statuses, or another rule, forbids does not happen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from parley.workflow.flow import (
    EDGES,
    Asked,
    Event,
    Flow,
    Illegal,
    Judging,
    Member,
    Merging,
    Pending,
    Review,
    Talk,
    become,
    index,
)
from parley.workflow.grammar import VERDICTS
from parley.workflow.menus import menu_for
from parley.workflow.notes import of_status, put, refuse_ready
from parley.workflow.pending import number_of, without
from parley.workflow.plain import read
from parley.workflow.plan import read_plan
from parley.workflow.remedies import gravest
from parley.workflow.terms import (
    Joined,
    LivenessAction,
    Merged,
    Note,
    NoteStatus,
    PlanChange,
    Proof,
    Rescope,
    Resting,
    Round,
    Session,
    Standing,
    Status,
    Stray,
    Task,
    Unfit,
    Worker,
    instructions_of,
)


def apply(flow: Flow, event: Event) -> set[str]:
    """Let an event happen; the entities that it changed. Illegal, and nothing is changed, where it can't."""
    try:
        happen = EVENTS[event["event"]]
        changed = happen(flow, event)
    except Illegal:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Illegal(f"{event.get('event')!s:.40}: {error!r:.200}") from error
    flow.count += 1
    return changed | {"flow"}


def _plan(flow: Flow, event: Event) -> set[str]:
    """A plan comes into force: the first, or one that changes what is not done yet."""
    plan, findings = read_plan(event["text"])
    if plan is None:
        raise Illegal(f"the plan can't be read: {findings[0] if findings else 'it is empty'}")
    dropped = [name for name in flow.members if name not in plan.workers and name not in flow.added]
    for name in dropped:
        if flow.status(name) is not Status.PENDING:
            raise Illegal(f"{name} is at work, or was, and can't be left out of the plan")
    flow.plan, flow.draft, flow.judging, flow.gaps, flow.refused = plan, "", None, 0, ""
    if not flow.started:
        flow.started, flow.run = event["time"], int(event.get("run", 1))
    new = [worker.name for worker in plan.doers if worker.name not in flow.members]
    flow.members |= {name: Member(Standing(name)) for name in new}
    joined = [name for name, worker in flow.added.items() if worker.task is Task.DOER]
    flow.members = {name: flow.members[name] for name in [*(worker.name for worker in plan.doers), *joined]}
    places = set(map(instructions_of, plan.workers))
    told = {str(path): str(text) for path, text in event.get("instructions", ()) if path in places}
    gone = flow.instructions.keys() - places
    flow.instructions = {path: text for path, text in flow.instructions.items() if path not in gone} | told
    index(flow)
    return {
        "plan",
        "judging",
        *(f"agent {name}" for name in (*dropped, *new)),
        *(f"told {path}" for path in (*told, *gone)),
    }


def _draft(flow: Flow, event: Event) -> set[str]:
    """A plan waits for the human, or does not any more."""
    flow.draft = event["text"]
    return {"plan"}


def _refuse(flow: Flow, event: Event) -> set[str]:
    """A changed plan has gaps, or is not to come into force as it is."""
    flow.gaps, flow.refused = int(event["gaps"]), str(event["refused"])
    return set()


def _rest(flow: Flow, event: Event) -> set[str]:
    """Notes were answered in the turn that changed the plan: the answers hold when the plan does."""
    flow.resting += [[str(agent), str(note)] for agent, note in event["notes"]]
    return set()


def _judge(flow: Flow, event: Event) -> set[str]:
    """A changed plan is for the design verifier to look at, or is not any more."""
    flow.judging = read(Judging, event["judging"]) if event["judging"] is not None else None
    return {"judging"}


def _changed(flow: Flow, event: Event) -> set[str]:
    """A changed plan is decided about. Refused, it takes its answers with it: their notes are open again."""
    change = read(PlanChange, event["change"])
    if change.decision not in ("approved", "refused"):
        raise Illegal(f"a changed plan can't be {change.decision!r:.20}")
    if any([one.agent, one.note_id] not in flow.resting for one in change.answers):
        raise Illegal("an answer that did not come with the change can't go with it")
    changed = {f"change {len(flow.changes) + 1}", "judging", "plan"}
    flow.changes.append(change)
    flow.resting = []
    if change.decision == "refused":
        flow.draft, flow.judging, flow.gaps, flow.refused = "", None, 0, change.plan
        for one in change.answers:
            changed |= _reopen(flow, one)
    return changed


def _reopen(flow: Flow, answer: Resting) -> set[str]:
    """A note waits for an answer again, if its doer does; whoever was given up or sent on has no use for one."""
    member = flow.members.get(answer.agent)
    session = member.standing.session if member is not None else None
    note = next((one for one in session.notes if one.note_id == answer.note_id), None) if session else None
    if member is not None and session is not None and note is not None and member.standing.status is Status.BLOCKED:
        left = replace(note, status=NoteStatus.ESCALATED, resolution=None, resolved_by=None, resolution_timestamp=None)
        now = replace(member, standing=replace(member.standing, session=put(session, left)), nudges=0)
        become(flow, replace(now, review=_as_asked(now)))
        return {f"agent {answer.agent}", *_answered(flow, answer.agent, session, left)}
    return set()


def _join(flow: Flow, event: Event) -> set[str]:
    """Somebody who is not in the plan works like those who are."""
    worker = read(Worker, event["worker"])
    if worker.name in flow.workers and worker.name not in flow.added:
        raise Illegal(f"{worker.name} is in the plan")
    flow.added[worker.name] = worker
    if worker.task is Task.DOER and worker.name not in flow.members:
        flow.members[worker.name] = Member(Standing(worker.name))
    index(flow)
    changed = {f"worker {worker.name}", f"agent {worker.name}"}
    if all(one.name != worker.name for one in flow.joins):
        flow.joins.append(Joined(worker.name, worker.role, int(event["time"]), str(event["why"])))
        changed |= {f"join {len(flow.joins)}", "plan"}  # the plan's file lists it
    return changed


def _status(flow: Flow, event: Event) -> set[str]:
    name, to = event["agent"], Status(event["to"])
    member = flow.members[name]
    standing = member.standing
    old = standing.status
    if to not in EDGES[old]:
        raise Illegal(f"{name} is {old} and can't become {to}")
    if to is Status.WORKING and old is Status.PENDING and not flow.may_start(name):
        raise Illegal(f"{name} can't start: what it depends on, or an earlier stage, is not verified")
    if to in (Status.READY, Status.VERIFIED, Status.COMPLETE) and refuse_ready(standing.session):
        raise Illegal(f"{name} has a note that is not settled and can't become {to}")
    if to in (Status.VERIFIED, Status.COMPLETE) and refuse_ready(member.review.session):
        raise Illegal(f"the verifier of {name} has a note that is not settled, so it can't become {to}")
    if to is Status.VERIFIED and (not standing.rounds or standing.rounds[-1].verdict != "verified"):
        raise Illegal(f"{name} was not approved by its verifier")
    version = standing.version + (to is Status.VERIFIED)
    now = replace(standing, status=to, last_update=event["time"], reason=event.get("reason", ""), version=version)
    checking = "" if to is not Status.READY else member.checking
    become(flow, replace(member, standing=now, since=flow.count, checking=checking, given_up=False, nudges=0))
    return {f"agent {name}"}


def _give_up(flow: Flow, event: Event) -> set[str]:
    member = flow.members[event["agent"]]
    if member.standing.status is not Status.FAILED:
        raise Illegal(f"{event['agent']} has not failed")
    standing = replace(member.standing, reason=str(event.get("reason", member.standing.reason)))
    become(flow, replace(member, standing=standing, given_up=True, gone=int(event["time"]), left=flow.count))
    return {f"agent {event['agent']}"}


def _session(flow: Flow, event: Event) -> set[str]:
    member = flow.members[event["agent"]]
    before = member.standing.session
    session = Session(event["task_id"], event["time"], pending=before.pending if before else ())
    past = (*member.past, replace(before, pending=())) if before is not None and before.notes else member.past
    review = replace(member.review, asked=())  # the notes of each session are counted anew
    become(flow, replace(member, standing=replace(member.standing, session=session), past=past, review=review))
    return {f"agent {event['agent']}"}


def _review(flow: Flow, event: Event) -> set[str]:
    """A verifier looks at a doer for the first time: from now on it may note, and has what another noted before it."""
    member, verifier = flow.members[event["agent"]], str(event["verifier"])
    review = member.review
    if verifier in review.by[-1:] or verifier == event["agent"]:
        raise Illegal(f"{verifier} does not begin to look at {event['agent']}")
    session = review.session or Session(event["task_id"], event["time"])
    become(flow, replace(member, review=replace(review, session=session, by=(*review.by, verifier))))
    return {f"agent {event['agent']}"}


def _of_verifier(event: Event) -> bool:
    """Whether an event of notes tells of those of the doer's verifier."""
    return bool(event.get("of_verifier", False))


def _notes_of(member: Member, event: Event) -> tuple[Session, int]:
    """The session that an event of notes is about, and the number of the last that was refused there."""
    own = _of_verifier(event)
    session = member.review.session if own else member.standing.session
    if session is None:
        raise Illegal(f"{'the verifier of ' if own else ''}{event['agent']} has not begun")
    return session, member.review.refused if own else member.refused


def _have(flow: Flow, event: Event, member: Member, session: Session, refused: int) -> None:
    """A doer, or its verifier, has these notes from now on."""
    if _of_verifier(event):
        become(flow, replace(member, review=replace(member.review, session=session, refused=refused)))
        return
    now = replace(member, standing=replace(member.standing, session=session), refused=refused)
    become(flow, replace(now, review=_as_asked(now)))


def _as_asked(member: Member) -> Review:
    """The verifier's notes, where what went up stands as the doer's note that it went up as: one way to be answered."""
    review, session = member.review, member.review.session
    theirs = {note.note_id: note for note in member.standing.session.notes} if member.standing.session else {}
    for mine, name in review.asked:
        note = next((one for one in session.notes if one.note_id == mine), None) if session else None
        asked = theirs.get(name)
        if session is not None and note is not None and asked is not None:
            session = put(
                session,
                replace(
                    note,
                    status=asked.status,
                    resolution=asked.resolution,
                    resolved_by=asked.resolved_by,
                    resolution_timestamp=asked.resolution_timestamp,
                ),
            )
    return replace(review, session=session)


def _ask_for(flow: Flow, event: Event) -> set[str]:
    """A note that a verifier escalated goes up as a note of its doer's."""
    member = flow.members[event["agent"]]
    pair = (str(event["note_id"]), str(event["asked_as"]))
    for session, name in ((member.review.session, pair[0]), (member.standing.session, pair[1])):
        if name not in (note.note_id for note in of_status(session, NoteStatus.ESCALATED)):
            raise Illegal(f"{name!s:.40} is not escalated")
    become(flow, replace(member, review=replace(member.review, asked=(*member.review.asked, pair))))
    return {f"agent {event['agent']}"}


def _note(flow: Flow, event: Event) -> set[str]:
    member, note = flow.members[event["agent"]], read(Note, event["note"])
    before, refused = _notes_of(member, event)
    session = put(before, note)
    _have(flow, event, member, session, refused)
    if _of_verifier(event):
        return {f"agent {event['agent']}"}
    return {f"agent {event['agent']}", *_answered(flow, event["agent"], session, note)}


def _answered(flow: Flow, by: str, session: Session, note: Note) -> set[str]:
    """A question that had gone up is answered, or is not any more."""
    history = flow.history.get(session.task_id, ())
    key = Asked(note.note_id, "", 0, by=by, session=session.session_start).key
    answer = note.resolution or "" if note.status is NoteStatus.RESOLVED else ""
    if not any(asked.key == key and asked.answer != answer for asked in history):
        return set()
    flow.history[session.task_id] = tuple(
        replace(asked, answer=answer) if asked.key == key else asked for asked in history
    )
    return {f"history {session.task_id}"}


def _pend(flow: Flow, event: Event) -> set[str]:
    """A note was refused for its form, and waits for its maker to mend it."""
    member, unfit = flow.members[event["agent"]], read(Unfit, event["pending"])
    session, refused = _notes_of(member, event)
    number = number_of(unfit.pending_id)
    last = session.pending[-1].pending_id if session.pending else ""
    if number <= refused and unfit.pending_id != last:
        raise Illegal(f"{unfit.pending_id} is not the next that {event['agent']} has pending")
    others = tuple(one for one in session.pending if one.pending_id != unfit.pending_id)
    _have(flow, event, member, replace(session, pending=(*others, unfit)), max(number, refused))
    return {f"agent {event['agent']}"}


def _mend(flow: Flow, event: Event) -> set[str]:
    """A pending note was mended by another, or withdrawn: it is no longer pending."""
    member = flow.members[event["agent"]]
    (session, refused), name = _notes_of(member, event), event["pending_id"]
    if name not in [one.pending_id for one in session.pending]:
        raise Illegal(f"{event['agent']} has no {name!s:.40} pending")
    if not event["reason"]:
        raise Illegal(f"{name} is neither mended nor withdrawn")
    _have(flow, event, member, without(session, name), refused)
    return {f"agent {event['agent']}"}


def _read(flow: Flow, event: Event) -> set[str]:
    """Whose output a doer has before it, and which version; what it was told of is no longer stale."""
    member = flow.members[event["agent"]]
    seen = dict(member.standing.read) | dict(event["read"])
    standing = replace(member.standing, read=tuple(sorted(seen.items())))
    become(flow, replace(member, standing=standing, stale=()))
    return {f"agent {event['agent']}"}


def _stale(flow: Flow, event: Event) -> set[str]:
    member = flow.members[event["agent"]]
    become(flow, replace(member, stale=(*member.stale, event["of"])))
    return {f"agent {event['agent']}"}


def _progress(flow: Flow, event: Event) -> set[str]:
    """A sign of life, and how often a turn was lost since the last one that ended."""
    member = flow.members[event["agent"]]
    standing = replace(member.standing, last_progress=event["time"], crashes=event.get("crashes", 0))
    become(flow, replace(member, standing=standing))
    return {f"agent {event['agent']}"}


def _check(flow: Flow, event: Event) -> set[str]:
    """How far the check of a doer's output has come."""
    member = flow.members[event["agent"]]
    if member.standing.status is not Status.READY:
        raise Illegal(f"{event['agent']} is not ready for verification")
    proofs = tuple(read(Proof, proof) for proof in event.get("proofs", ()))
    if event["step"] == "judging" and not all(proof.holds for proof in proofs):
        raise Illegal(f"a command of {event['agent']} fails, so its verifier has nothing to judge")
    tree = str(event.get("tree", member.tree))
    become(flow, replace(member, checking=event["step"], proofs=proofs or member.proofs, tree=tree))
    return {f"agent {event['agent']}"}


def _count_up(flow: Flow, event: Event) -> set[str]:
    """What was tried is counted, so that nothing is tried for ever."""
    member = flow.members[event["agent"]]
    nudges, rejections = int(event.get("nudges", member.nudges)), int(event.get("rejections", member.rejections))
    routed = tuple((str(note), str(task)) for note, task in event.get("routed", member.routed))
    become(flow, replace(member, nudges=nudges, rejections=rejections, routed=routed))
    return {f"agent {event['agent']}"}


def _round(flow: Flow, event: Event) -> set[str]:
    member, found = flow.members[event["agent"]], read(Round, event["round"])
    standing = member.standing
    if standing.status is not Status.READY or found.number != len(standing.rounds) + 1:
        raise Illegal(f"{event['agent']} is not in round {found.number}")
    if found.verdict not in VERDICTS or found.verifier == event["agent"]:
        raise Illegal(f"{found.verifier} can't say {found.verdict!r:.20} of {event['agent']}")
    if found.verdict == "verified" and refuse_ready(member.review.session):
        raise Illegal(f"{found.verifier} has a note that is not settled, so {event['agent']} is not verified")
    points = flow.plan.checkpoints_of(event["agent"]) if flow.plan else ()
    if [(one.to, one.criteria) for one in found.criteria] != [(point.taker, point.criteria) for point in points]:
        raise Illegal(f"round {found.number} of {event['agent']} does not judge every checkpoint of the plan")
    failed = [point.remedy for point, one in zip(points, found.criteria, strict=True) if one.met is False]
    if found.verdict == "verified" and not all(one.met for one in found.criteria):
        raise Illegal(f"a checkpoint of {event['agent']} is not met, so it is not verified")
    if found.action != (gravest(failed) if failed and found.verdict == "rejected" else ""):
        raise Illegal(f"{found.action or 'nothing'} is not what a checkpoint of {event['agent']} leads to")
    if found.verdict == "verified" and not all(proof.holds for proof in found.proofs):
        raise Illegal(f"a command of {event['agent']} fails, so it is not verified")
    become(flow, replace(member, standing=replace(standing, rounds=(*standing.rounds, found)), proofs=()))
    return {f"agent {event['agent']}"}


def _open(flow: Flow, event: Event) -> set[str]:
    talk = read(Talk, event["talk"])
    if talk.thread in flow.talks:
        raise Illegal(f"{talk.thread} is open already")
    flow.talks[talk.thread] = talk
    changed = {f"talk {talk.thread}"}
    if talk.kind == "architect":
        flow.architect = talk.thread
    if talk.kind == "doer":
        member = flow.members[talk.agent]
        become(flow, replace(member, standing=replace(member.standing, thread=talk.thread), workspace=talk.thread))
        changed.add(f"agent {talk.agent}")
    return changed


def _close(flow: Flow, event: Event) -> set[str]:
    talk = flow.talks.pop(event["thread"])
    changed = {f"talk {talk.thread}"}
    if talk.kind == "architect":
        flow.architect = ""
    if talk.kind == "doer":
        member = flow.members.get(talk.agent)
        if member is not None and member.standing.thread == talk.thread:
            become(flow, replace(member, standing=replace(member.standing, thread="")))
            changed.add(f"agent {talk.agent}")
    return changed


def _tell(flow: Flow, event: Event) -> set[str]:
    """A conversation is told something, or has answered."""
    talk = flow.talks[event["thread"]]
    flow.talks[talk.thread] = replace(talk, busy=bool(event["busy"]), about=event.get("about", talk.about))
    return {f"talk {talk.thread}"}


def _merge_begins(flow: Flow, event: Event) -> set[str]:
    merging = read(Merging, event["merging"])
    if flow.merging is not None and flow.merging.agent != merging.agent:
        raise Illegal(f"{flow.merging.agent} is being merged")
    flow.merging = merging
    return {"merging"}


def _merge_ends(flow: Flow, event: Event) -> set[str]:
    merged = read(Merged, event["merged"])
    if merged.number != len(flow.merges) + 1:
        raise Illegal(f"merge {merged.number} is not the next")
    if merged.taken and not all(proof.holds for proof in merged.proofs):
        raise Illegal(f"the proof of merge {merged.number} fails, so it can't be taken")
    flow.merges.append(merged)
    flow.merging = None
    return {"merging", f"merge {merged.number}"}


def _rescope(flow: Flow, event: Event) -> set[str]:
    flow.rescopes.append(read(Rescope, event["rescope"]))
    return {f"rescope {len(flow.rescopes)}"}


def _act(flow: Flow, event: Event) -> set[str]:
    flow.actions.append(read(LivenessAction, event["action"]))
    return {f"action {len(flow.actions)}"}


def _stray(flow: Flow, event: Event) -> set[str]:
    """A doer's turn wrote outside its paths; all of it was put back."""
    stray = read(Stray, event["stray"])
    if stray.agent not in flow.members or not stray.paths or len(stray.paths) != len(stray.owners):
        raise Illegal(f"{stray.agent!s:.40} can't have written there")
    flow.strays.append(stray)
    return {f"stray {len(flow.strays)}"}


def _came_of_it(flow: Flow, event: Event) -> set[str]:
    """What the last thing that was done about a stalled doer has led to."""
    at = max(number for number, one in enumerate(flow.actions) if one.agent == event["agent"])
    done = flow.actions[at]
    flow.actions[at] = replace(done, outcome=f"{done.outcome}; {event['outcome']}")
    return {f"action {at + 1}"}


def _ask(flow: Flow, event: Event) -> set[str]:
    flow.questions[event["question"]] = read(Pending, event["pending"])
    return {f"question {event['question']}"}


def _answer(flow: Flow, event: Event) -> set[str]:
    """A question is answered, or has no meaning any more; what was chosen is one of those that it lets choose."""
    choice = str(event.get("choice", ""))
    if choice and menu_for(flow.questions[event["question"]]).get(choice) is None:
        raise Illegal(f"{choice!r:.20} can't be chosen there")
    flow.questions.pop(event["question"])
    return {f"question {event['question']}"}


def _wait(flow: Flow, event: Event) -> set[str]:
    """A doer is to go on and there is no room, or there is now."""
    if event["body"]:
        flow.waiting[event["agent"]] = event["body"]
    else:
        flow.waiting.pop(event["agent"], None)
    return {f"waiting {event['agent']}"}


def _hold_back(flow: Flow, event: Event) -> set[str]:
    """Who could work, and waits for a free slot of the fan-out, as it is now."""
    flow.held = [str(agent) for agent in event["agents"]]
    flow.ever_held += [agent for agent in flow.held if agent not in flow.ever_held]
    return set()


def _hand_up(flow: Flow, event: Event) -> set[str]:
    """A question of a task goes up; all of them are kept, so that going in circles is noticed."""
    asked = read(Asked, event["asked"])
    flow.history[event["task"]] = (*flow.history.get(event["task"], ()), asked)
    return {f"history {event['task']}"}


def _same(flow: Flow, event: Event) -> set[str]:
    """The architect says that a question of a task is one that was asked before."""
    history = flow.history[event["task"]]
    keys = [asked.key for asked in history]
    if event["key"] not in keys or event["same_as"] not in keys:
        raise Illegal(f"{event['task']} has not asked that")
    flow.history[event["task"]] = tuple(
        replace(asked, same_as=(*asked.same_as, event["same_as"])) if asked.key == event["key"] else asked
        for asked in history
    )
    return {f"history {event['task']}"}


def _commission(flow: Flow, event: Event) -> set[str]:
    """What the solution architect is to answer, or has answered."""
    flow.commissioned = [[str(agent), str(note)] for agent, note in event["notes"]]
    return set()


def _phase(flow: Flow, event: Event) -> set[str]:
    if event["phase"] not in ("running", "complete", "stopped"):
        raise Illegal(f"{event['phase']!r:.20} is no phase")
    if event["phase"] == "complete" and (flow.undone or flow.unsettled):
        raise Illegal("a doer is not verified, or a note is not settled")
    flow.phase = event["phase"]
    flow.ended = 0 if flow.phase == "running" else int(event["time"])
    flow.why = str(event.get("reason", ""))
    return set()


EVENTS: Mapping[str, Callable[[Flow, Event], set[str]]] = MappingProxyType(
    {
        "plan": _plan,
        "draft": _draft,
        "refuse": _refuse,
        "rest": _rest,
        "judge": _judge,
        "changed": _changed,
        "join": _join,
        "status": _status,
        "given up": _give_up,
        "session": _session,
        "review": _review,
        "ask for": _ask_for,
        "note": _note,
        "pend": _pend,
        "mend": _mend,
        "read": _read,
        "stale": _stale,
        "progress": _progress,
        "check": _check,
        "count": _count_up,
        "round": _round,
        "open": _open,
        "close": _close,
        "tell": _tell,
        "merge begins": _merge_begins,
        "merge ends": _merge_ends,
        "rescope": _rescope,
        "action": _act,
        "stray": _stray,
        "came of it": _came_of_it,
        "ask": _ask,
        "answer": _answer,
        "wait": _wait,
        "held back": _hold_back,
        "hand up": _hand_up,
        "same": _same,
        "commission": _commission,
        "phase": _phase,
    }
)
