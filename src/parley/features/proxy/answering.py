"""The proxy's part in an escalation: what it is told, and whether its answer stands or the human is asked.

All that it is told besides the question is data: earlier decisions are quoted as JSON, one a line, so that no
text in them can pass for anything else. Files are named, never quoted.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from parley.engine import protocol_messages
from parley.engine.inputs import people_in
from parley.engine.owned_job import OwnedJob
from parley.engine.reduction import message, respond, to_human
from parley.engine.turn.question_clone import tree_of
from parley.engine.turn.running_turn import Turn
from parley.engine.values import human_inputs, message_meta
from parley.engine.values.human_inputs import AnswerInput, InterveneInput, is_in_vain
from parley.engine.values.message_meta import Posed, ProxyView, Put, ToProxy, Weighed
from parley.engine.values.people import May
from parley.engine.world import World
from parley.features.proxy import remembering
from parley.features.proxy.calibration import Case, Decision, PastDecision, Weights, decide
from parley.features.proxy.proxy_turn import AskedHuman, ProxyAnswer, ProxyTurn
from parley.ports.decisions import Decided, Guess, How, MemoryTrouble, Recalled
from parley.ports.workspaces import WorkspaceError
from parley.protocol.conversation import enclosing
from parley.protocol.escalation import goes_straight
from parley.protocol.molecules import Kind, Policy, Proxy, Record, Ruling, escalation_thread
from parley.protocol.states import State
from parley.roles.phases import PHASES

RECALLED = 6  # decisions that the proxy is reminded of
QUOTED = 400  # characters of each text in one
CHANGES = 60  # changed files that are listed at the work gate
REQUEST = 6000  # characters of the request
EARLIER = 20  # things that the human said in this job
EARLIER_EACH, EARLIER_ALL = 1500, 6000  # characters of one of them, and of all
NO_MEMORY = "the memory is switched off"

NoteTrouble = Callable[[str], None]
"""Takes note of why the memory can't be used for now."""

INTENT, PLAN, WORK = (PHASES[state].artifact for state in (State.INTENT, State.PLAN, State.EXECUTE))


# ---- what it is told -----------------------------------------------------------------------------


def briefing(job: OwnedJob, world: World, turn: Turn, note: NoteTrouble) -> str:
    """What the proxy gets behind its question. Nothing in a rehearsal: a playbook knows what it does."""
    proxy = job.soup.get(Proxy, turn.thread)
    if proxy is None or remembering.is_rehearsed(job):
        return ""
    record = enclosing(job.soup, proxy.thread)
    if not proxy.heard:
        parts = [protocol_messages.briefing(proxy.policy)]
    elif not goes_straight(job.soup.charter, proxy.question, proxy.policy):
        return protocol_messages.reading(proxy.policy)  # it has read all else in its first turn
    else:
        own = message_meta.read_as(ToProxy, message(job, world, proxy.question.message)).text
        parts = [protocol_messages.reading(proxy.policy), protocol_messages.put(own)]
    parts.append(protocol_messages.requested(_cut(job.row.request, REQUEST)))
    if earlier := _said_before(job, world, proxy):
        parts.append(protocol_messages.said_before(earlier))
    parts.append(protocol_messages.gate(record, proxy.question, proxy.agent))
    if proxy.question.kind is Kind.ASSERT:
        parts.append(_about(job, world, record, proxy))
        parts.extend(json.dumps(line, ensure_ascii=False) for line in _posed(job, world, proxy).outline)
    if remembered := _reminded(job, world, turn, proxy, note):
        parts.append(remembered)
    return "\n".join(parts)


def _said_before(job: OwnedJob, world: World, proxy: Proxy) -> list[str]:
    """What the human has said in this job: answers and interventions, each on a line of JSON, the newest kept."""
    people, found = people_in(job), list[str]()
    room = EARLIER_ALL
    for row in reversed(world.store.inputs(job.id, waiting=False)):
        if not row.taken or is_in_vain(row) or world.store.authentic(row) is False:
            continue
        given = human_inputs.read(row)
        if not isinstance(given, AnswerInput | InterveneInput) or (
            given.question == proxy.id if isinstance(given, AnswerInput) else people.may(row.by) < May.ANSWER
        ):
            continue
        said: dict[str, Any] = {"said": _cut(given.text, EARLIER_EACH)}
        if row.by in people.named:
            said = {"by": row.by, **said}
        if isinstance(given, AnswerInput):
            put = message_meta.read_as(Put, message(job, world, given.framing))
            where = f"{put.state} {put.artifact or put.kind}"
            said = {"asked": where, "verdict": given.ruling or "(none)", **said}
        line = json.dumps(said, ensure_ascii=False)
        room -= len(line)
        if room < 0 or len(found) == EARLIER:
            break
        found.append(line)
    return found[::-1]


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}… ({len(text)} characters in all)"


def _about(job: OwnedJob, world: World, record: Record, proxy: Proxy) -> str:
    """Which artifact, at which content; at the work gate, what it is to be held against."""
    asked = proxy.question
    if asked.artifact != WORK:
        draft = _posed(job, world, proxy).draft
        put = protocol_messages.artifact(asked.artifact, asked.digest)
        return f"{put} {draft}" if draft else put
    changed: Sequence[str] = ()
    if not record.depth:
        try:
            tree = tree_of(job, escalation_thread(asked.id))  # as it was asserted, without what came since
            found = world.workspace.changes(job.id, tree)
            changed = [f"{c.path} {_lines(c.added, '+')} {_lines(c.removed, '-')}" for c in found]
        except WorkspaceError:
            changed = ()  # it looks for itself
    return protocol_messages.work(asked.artifact, asked.digest, (INTENT, PLAN), changed[:CHANGES], len(changed))


def _lines(count: int | None, sign: str) -> str:
    return f"{sign}{'?' if count is None else count}"


def _reminded(job: OwnedJob, world: World, turn: Turn, proxy: Proxy, note: NoteTrouble) -> str:
    if not remembering.in_use(job) or world.decisions is None:
        return ""
    posed, kind = _posed(job, world, proxy), str(proxy.question.kind)
    try:
        found = world.decisions.recall(job.row.decider, posed.state, kind, _text_of(job, world, proxy), RECALLED)
    except MemoryTrouble as trouble:
        note(str(trouble))
        return ""
    turn.part(ProxyTurn).recalled = tuple(one.decided.id for one in found)
    return protocol_messages.reminded([quoted(one.decided) for one in found]) if found else ""


def quoted(one: Decided) -> str:
    """A decision on one line of JSON: what stands in it can't end it."""
    said: dict[str, Any] = {
        "id": one.id,
        "when": time.strftime("%Y-%m-%d", time.gmtime(one.time)),
        "state": one.state,
        "about": one.artifact or one.kind,
        "asked": protocol_messages.excerpt(one.asked, QUOTED),
        "human": one.verdict or "(words)",
        "said": protocol_messages.excerpt(one.said, QUOTED),
    }
    if one.after is not None and not one.agreed:
        said["expected"] = one.after.verdict or protocol_messages.excerpt(one.after.text, QUOTED)
    return json.dumps(said, ensure_ascii=False)


def _text_of(job: OwnedJob, world: World, proxy: Proxy) -> str:
    """All that a question is recognised by: its words, and how its artifact begins."""
    posed = _posed(job, world, proxy)
    return f"{posed.text}\n{posed.excerpt}"


def _posed(job: OwnedJob, world: World, proxy: Proxy) -> Posed:
    """What a question is about that went to the proxy first: a failure dialog goes straight to the human."""
    return message_meta.read_as(Posed, message(job, world, proxy.question.message))


# ---- what becomes of it --------------------------------------------------------------------------


def settle(job: OwnedJob, world: World, turn: Turn, question: str, note: NoteTrouble) -> bool:
    """What the proxy said in its turn takes effect: an answer to the asker, or a question to the human."""
    part = turn.part(ProxyTurn)
    proxy = job.soup.need(Proxy, escalation_thread(question))
    view = ProxyView(predicted=part.predicted, recalled=part.recalled)
    if isinstance(part.said, AskedHuman):
        # what it reads in the human's words is no prediction: it is shown, and never held against the record
        reads, would = (part.said.would, None) if proxy.heard else (None, part.said.would)
        view = replace(view, found=part.said.found, reads=reads, would=would)
        to_human(job, world, question, key=f"{turn.turn}/ask", framing=part.said.text, view=view)
    elif part.said is not None:
        _settle_answer(job, world, turn, proxy, said=part.said, view=view, note=note)
    return part.said is not None


def _settle_answer(
    job: OwnedJob,
    world: World,
    turn: Turn,
    proxy: Proxy,
    *,
    said: ProxyAnswer,
    view: ProxyView,
    note: NoteTrouble,
) -> None:
    """An answer stands where the record of what this human said allows it; else the human is asked."""
    guess = remembering.guess_of(said.would)
    decision = None if proxy.heard else weigh(job, world, proxy, guess, note)
    if not proxy.heard:
        view = replace(view, would=said.would)
    if decision is not None:
        agreement, evidence = round(decision.agreement, 4), round(decision.evidence, 2)
        view = replace(view, weighed=Weighed(decision.answer, agreement, evidence, decision.why))
    if decision is None or decision.answer:
        ruling = Ruling(said.ruling) if said.ruling else None
        respond(
            job,
            world,
            proxy.id,
            ruling=ruling,
            text=said.text,
            key=f"{turn.turn}/answer",
            view=view,
            choice=said.choice,
        )
        return
    how = How.CHECKED if decision.checked else How.UNSURE
    to_human(job, world, proxy.id, key=f"{turn.turn}/ask", view=view, how=how)


def weigh(job: OwnedJob, world: World, proxy: Proxy, guess: Guess, note: NoteTrouble) -> Decision | None:
    """Whether an answer that the human was not asked about may stand; None where that is not for the record to say."""
    given = remembering.settings_of(job)
    if proxy.policy is not Policy.WHEN_UNSURE or given is None or remembering.is_rehearsed(job):
        return None
    state, kind = _posed(job, world, proxy).state, str(proxy.question.kind)
    trouble, past = NO_MEMORY, list[Recalled]()
    if given.on and world.decisions is not None:
        trouble = ""
        try:
            past = world.decisions.past(job.row.decider, state, kind, _text_of(job, world, proxy))
        except MemoryTrouble as error:
            trouble = str(error)
            note(trouble)
    if trouble:
        return Decision(False, 0.0, 0.0, f"asked without a record: {trouble}")
    case = Case(
        time=world.clock.now(),
        state=state,
        kind=kind,
        predicted=guess.verdict,
        confidence=guess.confidence,
        draw=draw_of(proxy.id),
    )
    return decide(_record(past), case, Weights(given.false_approval, given.checked, given.fresh_days))


def draw_of(question: str) -> float:
    """A number from 0 to 1 that looks like chance, and is the same whenever the question is dealt with."""
    return int.from_bytes(hashlib.sha256(question.encode()).digest()[:7]) / (1 << 56)


def _record(past: Sequence[Recalled]) -> list[PastDecision]:
    found = []
    for one in past:
        decided, guess = one.decided, one.decided.after
        if guess is None or decided.verdict is None:
            continue  # nothing was predicted
        said = guess.verdict if decided.agreed else decided.verdict
        found.append(
            PastDecision(
                time=decided.time,
                state=decided.state,
                kind=decided.kind,
                predicted=guess.verdict,
                confidence=guess.confidence,
                said=said,
                agreed=decided.agreed,
                likeness=one.likeness,
            )
        )
    return found
