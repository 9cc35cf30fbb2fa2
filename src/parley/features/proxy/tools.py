"""The proxy's tools: Predict, Answer, AskHuman. Each is refused at once, or takes effect when the turn ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from parley.base.options import refusal
from parley.base.wording import advice
from parley.engine.hooks import Reply, Tool
from parley.engine.owned_job import OwnedJob
from parley.engine.reduction import message
from parley.engine.turn import sending
from parley.engine.turn.calls import text_of
from parley.engine.turn.running_turn import CallNote, Turn
from parley.engine.values import message_meta
from parley.engine.values.human_inputs import WORDLESS, lacks_words
from parley.engine.values.message_meta import Guessed, ToProxy
from parley.engine.world import World
from parley.features.proxy.proxy_turn import AskedHuman, ProxyAnswer, ProxyTurn
from parley.protocol.errors import Refused
from parley.protocol.escalation import unconfirmed
from parley.protocol.molecules import PROXY, Kind, Policy, Proxy, Ruling

CONFIRMATIONS = 3  # how often the human is asked to give words a verdict; then they go back without one
REASON_LIMIT = 8000  # characters of what the proxy found, or of its reason
NOT_THE_PROXYS = (  # told to a proxy that would withdraw: where it may ask the human, and where it may not
    "only the human gives a job up; ask them with AskHuman, or answer `revise` and say what is wrong",
    "only the human gives a job up, and they are not asked here; answer `revise` and say what is wrong",
)
FEWER_WORDS = "say it in fewer words, and name the files that show it"


def _proxy(job: OwnedJob, turn: Turn) -> Proxy:
    proxy = job.soup.get(Proxy, turn.thread)
    if turn.agent != PROXY or proxy is None:
        raise Refused("there is no question for you to deal with")
    if turn.part(ProxyTurn).said is not None:
        raise Refused("you have dealt with the question in this turn")
    return proxy


def _ask_human(job: OwnedJob, world: World, turn: Turn, arguments: Mapping[str, Any]) -> Reply:
    text = text_of(arguments)
    proxy = _proxy(job, turn)
    sending.refuse_long(job, text, FEWER_WORDS, sending.quotable(job, world, proxy))
    if proxy.policy is Policy.NEVER:
        raise Refused("the policy never asks the human here; answer from what you know")
    if len(proxy.words) >= job.soup.charter.repeats:
        raise Refused(f"the human was asked {len(proxy.words)} times; answer from what they said")
    found, would = text_of(arguments, "found", REASON_LIMIT), text_of(arguments, "would", REASON_LIMIT)
    verdict = would if would in list(Ruling) else ""
    if would and not verdict and proxy.question.kind is Kind.ASSERT:
        raise Refused(f"would: {_no_verdict(would)}")
    guess = _guess(arguments, verdict, "" if verdict else would) if would else None
    turn.part(ProxyTurn).said = AskedHuman(text, found, guess)
    turn.calls.append(CallNote("AskHuman", text=text))
    return Reply("the human is asked when your turn ends; what they say reaches the asker word for word")


def _answer(job: OwnedJob, world: World, turn: Turn, arguments: Mapping[str, Any]) -> Reply:
    text = text_of(arguments)
    proxy = _proxy(job, turn)
    sending.refuse_long(job, text, FEWER_WORDS, sending.quotable(job, world, proxy))
    ruling = _ruling(arguments)
    if lacks_words(ruling, text):
        raise Refused(WORDLESS)
    if proxy.policy is Policy.ALWAYS and not proxy.heard:
        raise Refused("the policy always asks the human here; ask before you answer")
    if ruling == Ruling.WITHDRAW and not proxy.heard:
        raise Refused(NOT_THE_PROXYS[proxy.policy is Policy.NEVER])
    choice = _choice(job, world, proxy, arguments)
    guess = _guess(arguments, ruling or "", text)
    turn.calls.append(CallNote("Answer", ruling or choice, text))
    if choice and proxy.policy is not Policy.NEVER:
        chosen = replace(guess, text=f"{choice}: {text}" if text else choice)
        turn.part(ProxyTurn).said = AskedHuman(would=chosen)
        return Reply(f"only the human chooses {choice} here: they are asked when your turn ends")
    if why := unconfirmed(proxy, Ruling(ruling) if ruling else None):
        if proxy.policy is Policy.NEVER or len(proxy.words) >= min(CONFIRMATIONS, job.soup.charter.repeats):
            turn.calls.pop()
            raise Refused(f"{why}; answer with another verdict, or with none")
        turn.part(ProxyTurn).said = AskedHuman(would=guess)
        return Reply(f"{why}: the human is asked to confirm it when your turn ends")
    turn.part(ProxyTurn).said = ProxyAnswer(text, ruling, guess, choice)
    return Reply("answered")


def _choice(job: OwnedJob, world: World, proxy: Proxy, arguments: Mapping[str, Any]) -> str:
    """What the proxy chooses of the question's menu. Raises Refused."""
    choice = arguments.get("choice") or None
    row = message(job, world, proxy.question.message)
    if why := refusal(message_meta.read_as(ToProxy, row).menu, choice):
        raise Refused(why)
    if choice and proxy.heard:
        raise Refused("the human was asked, and only their own command chooses; their words are advice")
    if choice and arguments.get("verdict"):
        raise Refused("give a verdict or a choice, not both")
    return choice or ""


def _predict(job: OwnedJob, world: World, turn: Turn, arguments: Mapping[str, Any]) -> Reply:
    if _proxy(job, turn).heard:
        raise Refused("the human has spoken; there is nothing to predict")
    if turn.part(ProxyTurn).predicted is not None:
        raise Refused("you have predicted in this turn; the first one counts")
    ruling, confidence = _ruling(arguments), _confidence(arguments)
    turn.part(ProxyTurn).predicted = Guessed(ruling or "", confidence)
    turn.calls.append(CallNote("Predict", ruling or "(words)"))
    return Reply("noted; now look for yourself, then Answer or AskHuman")


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


def _guess(arguments: Mapping[str, Any], verdict: str, text: str) -> Guessed:
    """What the proxy would say."""
    return Guessed(verdict, _confidence(arguments), text_of(arguments, "reason", REASON_LIMIT), text)


TOOLS: Mapping[str, Tool] = {"AskHuman": _ask_human, "Answer": _answer, "Predict": _predict}
