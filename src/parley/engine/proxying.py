"""The proxy's part in an escalation: what it is told, and whether its answer stands or the human is asked.

Whatever it is told besides the question is data: earlier decisions are quoted as JSON, one a line, so that no
text in them can pass for anything else. Files are named, never quoted.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from parley.core.conversation import enclosing
from parley.core.escalation import goes_straight
from parley.core.states import PHASES, Record, State
from parley.core.terms import Kind, Policy, Proxy, Ruling, escalation_thread
from parley.decisions import Decided, Guess, MemoryTrouble, Recalled
from parley.engine import remembering, texts
from parley.engine.calibration import Case, Decision, Past, Weights, decide
from parley.engine.clones import tree_of
from parley.engine.live import LiveJob
from parley.engine.records import NOT_DONE
from parley.engine.reduce import message, respond, to_human
from parley.engine.turn import Turn
from parley.engine.world import World
from parley.ports import WorkspaceError
from parley.workflow.terms import EXECUTOR

RECALLED = 6  # decisions that the proxy is reminded of
QUOTED = 400  # characters of each text in one
CHANGES = 60  # changed files that are listed at the work gate
REQUEST = 6000  # characters of the request
EARLIER = 20  # things that the human said in this job
EARLIER_EACH, EARLIER_ALL = 1500, 6000  # characters of one of them, and of all
NO_MEMORY = "the memory is switched off"

INTENT, PLAN, WORK = (PHASES[state].artifact for state in (State.INTENT, State.PLAN, State.EXECUTE))


# ---- what it is told -----------------------------------------------------------------------------


def briefing(live: LiveJob, world: World, turn: Turn) -> str:
    """What the proxy gets behind its question. Nothing in a rehearsal: a playbook knows what it does."""
    proxy = live.soup.get(Proxy, turn.thread)
    if proxy is None or remembering.is_rehearsed(live):
        return ""
    record = enclosing(live.soup, proxy.thread)
    if not proxy.heard:
        parts = [texts.briefing(proxy.policy)]
    elif not goes_straight(live.soup.charter, proxy.question, proxy.policy):
        return texts.reading(proxy.policy)  # it has read all else in its first turn
    else:
        own = texts.own_words(message(live, world, proxy.question.message).body)
        parts = [texts.reading(proxy.policy), texts.put(own)]
    parts.append(texts.requested(_cut(live.row.request, REQUEST)))
    if earlier := _said_before(live, world, proxy):
        parts.append(texts.said_before(earlier))
    parts.append(texts.gate(record, proxy.question, proxy.agent))
    if proxy.question.kind is Kind.ASSERT:
        parts.append(_about(live, world, record, proxy))
        asked = message(live, world, proxy.question.message)
        parts.extend(
            json.dumps(line, ensure_ascii=False) for line in json.loads(asked.meta or "{}").get("workflow", ())
        )
    if remembered := _reminded(live, world, turn, proxy):
        parts.append(remembered)
    return "\n".join(parts)


def _said_before(live: LiveJob, world: World, proxy: Proxy) -> list[str]:
    """What the human has said in this job: answers and interventions, each on a line of JSON, the newest kept."""
    may = (live.row.decider, *remembering.STAND_INS)
    found: list[str] = []
    room = EARLIER_ALL
    for row in reversed(world.store.inputs(live.job, waiting=False)):
        if row.kind not in ("answer", "intervene") or row.by not in may or row.note.startswith(NOT_DONE):
            continue
        body = json.loads(row.body)
        if not row.taken or body.get("question") == proxy.id or world.store.authentic(row) is False:
            continue
        said: dict[str, Any] = {"said": _cut(str(body["text"]), EARLIER_EACH)}
        if row.kind == "answer":
            about = json.loads(message(live, world, body["framing"]).meta)
            where = f"{about['state']} {about['artifact'] or about['kind']}"
            said = {"asked": where, "verdict": body["ruling"] or "(none)", **said}
        line = json.dumps(said, ensure_ascii=False)
        room -= len(line)
        if room < 0 or len(found) == EARLIER:
            break
        found.append(line)
    return found[::-1]


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}… ({len(text)} characters in all)"


def _about(live: LiveJob, world: World, record: Record, proxy: Proxy) -> str:
    """Which artifact, at which content; at the work gate, what it is to be held against."""
    asked = proxy.question
    if asked.artifact != WORK:
        told = texts.draft if proxy.agent == EXECUTOR else texts.artifact
        return told(asked.artifact, asked.digest)
    changed: Sequence[str] = ()
    if not record.depth:
        try:
            tree = tree_of(live, escalation_thread(asked.id))  # as it was put forward, whatever came since
            found = world.workspace.changes(live.job, tree)
            changed = [f"{c.path} {_lines(c.added, '+')} {_lines(c.removed, '-')}" for c in found]
        except WorkspaceError:
            changed = ()  # it looks for itself
    return texts.work(asked.artifact, asked.digest, (INTENT, PLAN), changed[:CHANGES], len(changed))


def _lines(count: int | None, sign: str) -> str:
    return f"{sign}{'?' if count is None else count}"


def _reminded(live: LiveJob, world: World, turn: Turn, proxy: Proxy) -> str:
    if not remembering.in_use(live) or world.decisions is None:
        return ""
    asked = message(live, world, proxy.question.message)
    about = json.loads(asked.meta)
    try:
        found = world.decisions.recall(
            live.row.decider, about.get("state", ""), str(proxy.question.kind), _text_of(live, world, proxy), RECALLED
        )
    except MemoryTrouble as trouble:
        live.forgetful = str(trouble)
        return ""
    turn.recalled = tuple(one.decided.id for one in found)
    return texts.reminded([quoted(one.decided) for one in found]) if found else ""


def quoted(one: Decided) -> str:
    """A decision on one line of JSON: what stands in it can't end it."""
    said: dict[str, Any] = {
        "id": one.id,
        "when": time.strftime("%Y-%m-%d", time.gmtime(one.time)),
        "state": one.state,
        "about": one.artifact or one.kind,
        "asked": texts.excerpt(one.asked, QUOTED),
        "human": one.verdict or "(words)",
        "said": texts.excerpt(one.said, QUOTED),
    }
    if one.after is not None and not one.agreed:
        said["expected"] = one.after.verdict or texts.excerpt(one.after.text, QUOTED)
    return json.dumps(said, ensure_ascii=False)


def _text_of(live: LiveJob, world: World, proxy: Proxy) -> str:
    """All that a question is recognised by: its words, and how its artifact begins."""
    row = message(live, world, proxy.question.message)
    return f"{texts.own_words(row.body)}\n{json.loads(row.meta).get('excerpt', '')}"


# ---- what becomes of it --------------------------------------------------------------------------


def settle(live: LiveJob, world: World, turn: Turn, question: str) -> None:
    """What the proxy said in its turn takes effect: an answer to the asker, or a question to the human."""
    said = turn.said or {}
    proxy = live.soup.need(Proxy, escalation_thread(question))
    more: dict[str, Any] = {}
    if turn.predicted is not None:
        more["predicted"] = turn.predicted
    if turn.recalled:
        more["recalled"] = list(turn.recalled)
    if "ask" in said:
        # what it reads in the human's words is no prediction: it is shown, and never held against the record
        would = "reads" if proxy.heard else "would"
        more |= {name: said[key] for name, key in (("found", "found"), (would, "would")) if said.get(key)}
        to_human(live, world, question, said["ask"], key=f"{turn.turn}/ask", more=more)
        return
    ruling, would = Ruling(said["ruling"]) if said["ruling"] else None, said["would"]
    weighed = None if proxy.heard else weigh(live, world, proxy, remembering.guess_of(would) or Guess("", 0.0))
    if weighed is not None:
        more["weighed"] = {
            "answer": weighed.answer,
            "agreement": round(weighed.agreement, 4),
            "evidence": round(weighed.evidence, 2),
            "why": weighed.why,
        }
    if weighed is None or weighed.answer:
        if not proxy.heard:
            more["would"] = would
        chosen = str(said.get("choice") or "")
        respond(live, world, question, ruling, said["answer"], f"{turn.turn}/answer", more, chosen)
        return
    more |= {"would": would, "how": "checked" if weighed.why.startswith("checked") else "unsure"}
    to_human(live, world, question, "", key=f"{turn.turn}/ask", more=more)


def weigh(live: LiveJob, world: World, proxy: Proxy, guess: Guess) -> Decision | None:
    """Whether an answer that nobody asked the human about may stand; None where that is not for the record to say."""
    given = remembering.settings_of(live)
    if proxy.policy is not Policy.WHEN_UNSURE or not given or remembering.is_rehearsed(live):
        return None
    about = json.loads(message(live, world, proxy.question.message).meta)
    state, kind = str(about.get("state", "")), str(proxy.question.kind)
    trouble, past = NO_MEMORY, list[Recalled]()
    if given.get("on") and world.decisions is not None:
        trouble = ""
        try:
            past = world.decisions.past(live.row.decider, state, kind, _text_of(live, world, proxy))
        except MemoryTrouble as error:
            trouble = live.forgetful = str(error)
    if trouble:
        return Decision(False, 0.0, 0.0, f"asked without a record: {trouble}")
    case = Case(world.clock.now(), state, kind, guess.verdict, guess.confidence, draw_of(proxy.id))
    return decide(_record(past), case, weights_of(given))


def weights_of(given: Mapping[str, Any]) -> Weights:
    """How much the human minds, as the job's snapshot has it."""
    default = Weights()
    return Weights(
        float(given.get("false_approval", default.false_approval)),
        float(given.get("checked", default.checked)),
        float(given.get("fresh_days", default.fresh_days)),
    )


def draw_of(question: str) -> float:
    """A number from 0 to 1 that looks like chance, and is the same whenever the question is dealt with."""
    return int.from_bytes(hashlib.sha256(question.encode()).digest()[:7]) / (1 << 56)


def _record(past: Sequence[Recalled]) -> list[Past]:
    found = []
    for one in past:
        decided, guess = one.decided, one.decided.after
        if guess is None or decided.verdict is None:
            continue  # nothing was predicted
        said = guess.verdict if decided.agreed else decided.verdict
        found.append(
            Past(
                decided.time,
                decided.state,
                decided.kind,
                guess.verdict,
                guess.confidence,
                said,
                decided.agreed,
                one.likeness,
            )
        )
    return found
