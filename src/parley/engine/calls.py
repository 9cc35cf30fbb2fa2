"""Tool calls in mid-turn. A call is refused at once or will take effect: nothing in between."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from parley.core.bounds import counted
from parley.core.conversation import enclosing
from parley.core.errors import Refused
from parley.core.escalation import goes_straight, policy_for, refuse_unless_askable, unconfirmed
from parley.core.soup import Soup
from parley.core.terms import (
    PROXY,
    Close,
    Deliver,
    Kind,
    Payload,
    Policy,
    Proxy,
    Question,
    Ruling,
    Surface,
    dispatch_thread,
)
from parley.engine import designs, reports, texts, unfinished
from parley.engine.endings import anchored, contents, left_at_gate, refuse_unready
from parley.engine.live import LiveJob
from parley.engine.records import WORDLESS, lacks_words
from parley.engine.reduce import message
from parley.engine.sending import files_of, in_a_file, quotable, refuse_long
from parley.engine.spending import refuse_spark
from parley.engine.texts import TEXT_LIMIT, excerpt, key_of
from parley.engine.turn import Turn
from parley.engine.world import World
from parley.options import menu_of, refusal
from parley.ports import WorkspaceError
from parley.wording import advice, count

NOTES = 100  # of one turn
ASSERTS = 3  # of one artifact in one turn: each looks through the whole workspace
CONFIRMATIONS = 3  # how often the human is asked to give words a verdict; then they go back without one
REASON_LIMIT = 8000  # characters of what the proxy found, or of its reason
NOT_THE_PROXYS = (  # told to a proxy that would withdraw: where it may ask the human, and where it may not
    "only the human gives a job up; ask them with AskHuman, or answer `revise` and say what is wrong",
    "only the human gives a job up, and they are not asked here; answer `revise` and say what is wrong",
)
FEWER_WORDS = "say it in fewer words, and name the files that show it"
NAME_LIMIT = 200  # characters of an agent's, a thread's or an artifact's name


def call(
    live: LiveJob, world: World, turn: Turn, tool: str, arguments: Mapping[str, Any], batch: int = 0
) -> tuple[str, dict[str, Any]]:
    """Take a call into the turn: what the agent is told, with data. Raises Refused.

    A question ends the turn, but calls in the same message of the agent's (`batch`) are still taken.
    """
    surface = live.soup.need(Surface, turn.thread, turn.agent)
    tools = live.tools(surface)
    if tool not in tools and tool != "Note":
        raise Refused(f"{turn.agent} has no tool {tool!r}; it has: {', '.join(tools)}")
    if turn.questions and tool not in ("AskQuestion", "Note") and not (batch and batch == turn.asked_in):
        raise Refused("you have asked, so your turn ends; the answer comes as your next message")
    reply = _CALLS.get(tool, _note)(live, world, turn, arguments)
    if tool == "AskQuestion":
        turn.asked_in = batch
    return reply


def _note(live: LiveJob, world: World, turn: Turn, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    if reports.keeps_notes(live, turn):
        return _told(turn, "Note", reports.note(live, world, turn, arguments))
    if len(json.dumps(dict(arguments))) > TEXT_LIMIT:
        raise Refused("the note is too long; put it into a file")
    if len(turn.notes) >= NOTES:
        raise Refused(f"a turn may leave {NOTES} notes; put the rest into a file")
    turn.notes.append(dict(arguments))
    turn.calls.append("Note")
    return "noted", {}


def _status(live: LiveJob, world: World, turn: Turn, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    return _told(turn, "Status", reports.status(live, turn, arguments))


def _verdict(live: LiveJob, world: World, turn: Turn, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    return _told(turn, "Verdict", reports.verdict(live, turn, arguments))


def _resolve(live: LiveJob, world: World, turn: Turn, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    return _told(turn, "Resolve", reports.resolve(live, world, turn, arguments))


def _told(turn: Turn, tool: str, said: str) -> tuple[str, dict[str, Any]]:
    turn.calls.append(f"{tool}: {said}")
    return said, {}


def _text(arguments: Mapping[str, Any], key: str = "text", most: int = TEXT_LIMIT) -> str:
    text = arguments.get(key, "")
    if not isinstance(text, str):
        raise Refused(f"{key} must be a string")
    if len(text) > most:
        raise Refused(f"the {key} has {len(text)} characters, {most} at most; put it into a file")
    return text


def _name(arguments: Mapping[str, Any], key: str) -> str:
    name = arguments.get(key)
    if not isinstance(name, str) or not 0 < len(name) <= NAME_LIMIT or not name.isprintable() or " " in name:
        raise Refused(f"{key} must be a name")
    return name


def _brief(world: World, text: str) -> str:
    """What a call is remembered by. Redacted before it is cut: half a secret is one too."""
    return excerpt(world.secrets.redact(text), 80)


def _admit(live: LiveJob, turn: Turn, payload: Payload) -> None:
    if isinstance(payload, Deliver) and live.soup.dying(payload.thread):
        raise Refused(f"{payload.thread} is closed")
    counted(live.soup, turn.agent, turn.thread, [*turn.payloads, payload], [asked for asked, _ in turn.questions])
    turn.admission.admit(live.soup, payload)
    turn.payloads.append(payload)


def _send(live: LiveJob, world: World, turn: Turn, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    text = _text(arguments)
    refuse_long(live, text, in_a_file(live, turn, arguments))
    if ("to" in arguments) == ("thread" in arguments):
        raise Refused("Send takes either `to` (opens a conversation) or `thread` (goes on with one)")
    if "to" in arguments:
        refuse_spark(live, world, turn)
        agent, thread = _name(arguments, "to"), dispatch_thread(world.ids.new())
    else:
        thread = _thread(live.soup, turn, _name(arguments, "thread"))
        agent = _agent_on(live.soup, turn, thread)
    provisional = f"?{len(turn.texts)}"
    files = files_of(live, world, turn, arguments, thread)
    _admit(live, turn, Deliver(agent, thread, provisional))
    turn.texts[provisional], turn.files[provisional] = text, files
    along = f" with {count(len(files), 'file')}" if files else ""
    turn.calls.append(f"Send to {agent} on {thread}{along}: {_brief(world, text)}")
    return f"will be sent to {agent} on {thread} when your turn ends", {"thread": thread}


def _thread(soup: Soup, turn: Turn, name: str) -> str:
    if name != "dispatcher":
        return name
    parent = soup.parent(turn.thread)
    if parent is None:
        raise Refused("nobody dispatched you")
    return parent


def _agent_on(soup: Soup, turn: Turn, thread: str) -> str:
    opened = turn.admission.sparked.get(thread)
    if opened is not None:
        return opened
    surface = soup.get(Surface, thread)
    if surface is None:
        raise Refused(f"there is no open conversation {thread}")
    return surface.agent


def _close(live: LiveJob, world: World, turn: Turn, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    thread = _name(arguments, "thread")
    if live.soup.dying(thread):
        raise Refused(f"{thread} is closed already")
    _admit(live, turn, Close(thread))
    turn.calls.append(f"CloseConversation {thread}")
    return f"{thread} will be closed when your turn ends", {}


def _ask(live: LiveJob, world: World, turn: Turn, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    text = _text(arguments)
    refuse_long(live, text, "write it to a file of your workspace, and name that in the question")
    kind = arguments.get("kind", "question")
    if kind not in (Kind.QUESTION, Kind.ASSERT):
        raise Refused("kind is `question` or `assert`")
    artifact = _name(arguments, "artifact") if kind == Kind.ASSERT else ""
    surface = live.soup.need(Surface, turn.thread, turn.agent)
    key = "" if artifact else key_of(text)
    question = Question(world.ids.new(), "?", Kind(kind), artifact, "?" if artifact else "", key)
    counted(live.soup, turn.agent, turn.thread, turn.payloads, [*(asked for asked, _ in turn.questions), question])
    refuse_unless_askable(live.soup, turn.agent, turn.thread, (question,))
    if artifact:
        if sum(asked.artifact == artifact for asked, _ in turn.questions) >= ASSERTS:
            raise Refused(f"{artifact} was asserted {ASSERTS} times in this turn; the last one counts")
        tree, there = _contents_now(live, world, turn, surface.workspace)
        question = replace(question, digest=there.get(artifact, ""))
        refuse_unless_askable(live.soup, turn.agent, turn.thread, (question,))
        record = enclosing(live.soup, turn.thread)
        if not record.depth:
            refuse_unready(live, world, record, artifact, tree)
    turn.questions.append((question, text))
    turn.calls.append(f"AskQuestion {artifact or question.id}: {_brief(world, text)}")
    who = _answers(live, question, policy_for(live.soup, turn.thread))
    left = unfinished.lines(left_at_gate(live, turn)) if artifact else []
    out = f" {texts.not_in_this(left)}" if left else ""
    told = f"asked: question {question.id}. {who} Your turn ends, and the answer comes as your next message.{out}"
    return told, {"question": question.id}


def _answers(live: LiveJob, question: Question, policy: Policy) -> str:
    """Who will answer a question, as its asker is told."""
    human = live.row.decider or "the human"
    if goes_straight(live.soup.charter, question, policy):
        return f"It is put to {human}, who answers it."
    return {
        Policy.ALWAYS: f"The proxy looks at it, then {human} answers it.",
        Policy.WHEN_UNSURE: f"The proxy answers it for {human}, or asks them.",
        Policy.NEVER: f"The proxy answers it for {human}, who is not asked.",
    }[policy]


def _contents_now(live: LiveJob, world: World, turn: Turn, workspace: str) -> tuple[str, dict[str, str]]:
    """What is committed in mid-turn, and what the artifacts contain there. An agent mends what can't be kept."""
    try:
        designs.sum_up(live, world, enclosing(live.soup, turn.thread))
        tree = world.workspace.snapshot(live.job, workspace, anchored(live, turn)).tree
        return tree, contents(live, world, workspace, tree)
    except WorkspaceError as error:
        raise Refused(str(error)) from error


def _proxy(live: LiveJob, turn: Turn) -> Proxy:
    proxy = live.soup.get(Proxy, turn.thread)
    if turn.agent != PROXY or proxy is None:
        raise Refused("there is no question for you to deal with")
    if turn.said is not None:
        raise Refused("you have dealt with the question in this turn")
    return proxy


def _ask_human(live: LiveJob, world: World, turn: Turn, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    text = _text(arguments)
    proxy = _proxy(live, turn)
    refuse_long(live, text, FEWER_WORDS, quotable(live, world, proxy))
    if proxy.policy is Policy.NEVER:
        raise Refused("the policy never asks the human here; answer from what you know")
    if len(proxy.words) >= live.soup.charter.repeats:
        raise Refused(f"the human was asked {len(proxy.words)} times; answer from what they said")
    found, would = _text(arguments, "found", REASON_LIMIT), _text(arguments, "would", REASON_LIMIT)
    verdict = would if would in list(Ruling) else ""
    if would and not verdict and proxy.question.kind is Kind.ASSERT:
        raise Refused(f"would: {_no_verdict(would)}")
    guess = _guess(arguments, verdict, "" if verdict else would) if would else None
    turn.said = {"ask": text, "found": found, "would": guess}
    turn.calls.append(f"AskHuman: {_brief(world, text)}")
    return "the human is asked when your turn ends; what they say reaches the asker word for word", {}


def _answer(live: LiveJob, world: World, turn: Turn, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    text = _text(arguments)
    proxy = _proxy(live, turn)
    refuse_long(live, text, FEWER_WORDS, quotable(live, world, proxy))
    ruling = _ruling(arguments)
    if lacks_words(ruling, text):
        raise Refused(WORDLESS)
    if proxy.policy is Policy.ALWAYS and not proxy.heard:
        raise Refused("the policy always asks the human here; ask before you answer")
    if ruling == Ruling.WITHDRAW and not proxy.heard:
        raise Refused(NOT_THE_PROXYS[proxy.policy is Policy.NEVER])
    choice = _choice(live, world, proxy, arguments)
    guess = _guess(arguments, ruling or "", text)
    turn.calls.append(f"Answer {ruling or choice}: {_brief(world, text)}")
    if choice and proxy.policy is not Policy.NEVER:
        turn.said = {"ask": "", "would": {**guess, "text": f"{choice}: {text}" if text else choice}}
        return f"only the human chooses {choice} here: they are asked when your turn ends", {}
    if why := unconfirmed(proxy, Ruling(ruling) if ruling else None):
        if proxy.policy is Policy.NEVER or len(proxy.words) >= min(CONFIRMATIONS, live.soup.charter.repeats):
            turn.calls.pop()
            raise Refused(f"{why}; answer with another verdict, or with none")
        turn.said = {"ask": "", "would": guess}
        return f"{why}: the human is asked to confirm it when your turn ends", {}
    turn.said = {"answer": text, "ruling": ruling, "would": guess, "choice": choice}
    return "answered", {}


def _choice(live: LiveJob, world: World, proxy: Proxy, arguments: Mapping[str, Any]) -> str:
    """What the proxy chooses of the question's menu. Raises Refused."""
    choice = arguments.get("choice") or None
    row = message(live, world, proxy.question.message)
    if why := refusal(menu_of(json.loads(row.meta or "{}")), choice):
        raise Refused(why)
    if choice and proxy.heard:
        raise Refused("the human was asked, and only their own command chooses; their words are advice")
    if choice and arguments.get("verdict"):
        raise Refused("give a verdict or a choice, not both")
    return choice or ""


def _predict(live: LiveJob, world: World, turn: Turn, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    if _proxy(live, turn).heard:
        raise Refused("the human has spoken; there is nothing to predict")
    if turn.predicted is not None:
        raise Refused("you have predicted in this turn; the first one counts")
    ruling, confidence = _ruling(arguments), _confidence(arguments)
    turn.predicted = {"verdict": ruling or "", "confidence": confidence}
    turn.calls.append(f"Predict {ruling or '(words)'}")
    return "noted; now look for yourself, then Answer or AskHuman", {}


def _ruling(arguments: Mapping[str, Any]) -> str | None:
    ruling = arguments.get("verdict") or None
    if ruling is not None and ruling not in list(Ruling):
        raise Refused(_no_verdict(ruling))
    return ruling


def _no_verdict(given: Any) -> str:
    return f"{given!r:.60} is not a verdict; {advice(str(given), Ruling)}"


def _confidence(arguments: Mapping[str, Any]) -> float | None:
    given = arguments.get("confidence")
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= 1:
        raise Refused("confidence must be a number from 0 to 1")
    return float(given)


def _guess(arguments: Mapping[str, Any], verdict: str, text: str) -> dict[str, Any]:
    """What the proxy would say, as the bus keeps it."""
    reason = _text(arguments, "reason", REASON_LIMIT)
    return {"verdict": verdict, "confidence": _confidence(arguments), "reason": reason, "text": text}


_CALLS = {
    "Send": _send,
    "CloseConversation": _close,
    "AskQuestion": _ask,
    "AskHuman": _ask_human,
    "Answer": _answer,
    "Predict": _predict,
    "Status": _status,
    "Verdict": _verdict,
    "Resolve": _resolve,
}


def may_ask(soup: Soup, thread: str) -> bool:
    """Whether the proxy on an escalation's thread may turn to the human."""
    proxy = soup.get(Proxy, thread)
    policy = proxy.policy if proxy else policy_for(soup, thread)
    return policy is not Policy.NEVER
