"""Each rule by its name: what it does where it may fire, and that it does not fire where it may not."""

from collections import Counter
from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from parley.protocol.errors import Disabled, ProtocolError, Refused
from parley.protocol.lifecycle import HOPELESS
from parley.protocol.molecules import (
    HUMAN,
    ORCHESTRATOR,
    PROXY,
    Close,
    Crashed,
    Deliver,
    Interrupt,
    Kind,
    Origin,
    Policy,
    Question,
    Record,
    Role,
    Ruling,
    Terminate,
)
from parley.protocol.rule import Answer, Asking, Broadcast, Ending, Enrolment, Firing, Passage
from parley.protocol.rules import RULES, anything, apply, enabled, react
from parley.protocol.soup import Soup
from parley.protocol.states import Action, State
from parley.verify.exploration_menu import CODER, SQUAD, Bounds
from tests.explorer.scenarios import (
    AT_WORK,
    HELD,
    JOB,
    LEAD,
    STATE,
    A,
    B,
    Prelude,
    asks,
    fire,
    gone,
    led_back,
    open_question,
    redirected,
    says,
    two_at_work,
    withdrawn,
    woken,
)
from tests.protocol.walks import opened

BOUNDS = Bounds(nested=True, fan_out=2, crash_budget=2, retry_budget=1)
ALWAYS = replace(BOUNDS, policy=Policy.ALWAYS)
NEVER = replace(BOUNDS, policy=Policy.NEVER)
NO_RETRY = replace(BOUNDS, retry_budget=0)
ONE_TRY = replace(BOUNDS, crash_budget=1)

ESC = "escalation:q"
ANSWER = Answer("yes", PROXY)
REPLY = Answer("well", HUMAN, Ruling.APPROVE)
WITHDRAW = Passage(Action.WITHDRAW, HUMAN)
FAILED = Passage(Action.FAILURE, ORCHESTRATOR)
PENDING = fire("strike", "j", choice="pending")
HELP = Enrolment((Role("helper"),))

DISPATCHED: Prelude = (*AT_WORK, says(LEAD, STATE, Deliver(CODER, A, "ma")))
SPARKED: Prelude = (*DISPATCHED, fire("spark", LEAD, STATE))
RUNNING: Prelude = (*SPARKED, fire("send-empty", LEAD, STATE), woken(CODER, A))
PROXIED: Prelude = (*AT_WORK, *open_question(LEAD, STATE, "q", "Proxy"))
HUMANLY: Prelude = (*AT_WORK, *open_question(LEAD, STATE, "q", "AskHuman"))
BURIED: Prelude = (*two_at_work(CODER, SQUAD), *gone(CODER, A))
OVER: Prelude = (*AT_WORK, fire("transition", "j", choice=WITHDRAW))


def named(soup: Soup) -> list[str]:
    """The molecules of a soup as a step's row names them."""
    return [molecule.brief() for molecule in soup]


def closed(*, ready: bool) -> Prelude:
    """A subteam is closed by its dispatcher, in mid-turn or once it has reported and waits."""
    reported = (says(SQUAD, A, Deliver(LEAD, STATE, "done")), fire("send", SQUAD, A), fire("send-empty", SQUAD, A))
    told = reported if ready else (says(CODER, B, Deliver(LEAD, STATE, "done")), fire("send", CODER, B))
    return (
        *two_at_work(SQUAD, CODER),
        *told,
        woken(LEAD, STATE),
        says(LEAD, STATE, Close(A)),
        fire("send-terminate", LEAD, STATE),
    )


@dataclass(frozen=True)
class Case:
    """What happened before, the firing, and what is new and what is gone, as a step's row names it."""

    then: Prelude
    firing: Firing
    made: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    bounds: Bounds = BOUNDS


def answered(choice: Answer = ANSWER) -> Firing:
    return fire("respond", "q", choice=choice)


FIRES: dict[str, Case] = {
    "send": Case(
        (*RUNNING, says(CODER, A, Deliver(LEAD, STATE, "done"))),
        fire("send", CODER, A),
        (f"Send coder {A} 0 0", f"Mailbox {LEAD} {STATE} 1 done done"),
        (f"Send coder {A} 1 0", f"Mailbox {LEAD} {STATE} 0"),
    ),
    "spark": Case(
        DISPATCHED,
        fire("spark", LEAD, STATE),
        (
            f"Send {LEAD} {STATE} 0 0",
            f"Mailbox coder {A} 1 ma ma",
            f"Idle coder {A}",
            f"Parent {A} {STATE}",
            f"Surface coder {A} {A}",
        ),
        (f"Send {LEAD} {STATE} 1 0",),
    ),
    "send-terminate": Case(
        (*AT_WORK, says(LEAD, STATE, Deliver(CODER, A, "ma"), Close(A)), fire("spark", LEAD, STATE)),
        fire("send-terminate", LEAD, STATE),
        (f"Send {LEAD} {STATE} 0 0", f"Terminate {A} close"),
        (f"Send {LEAD} {STATE} 1 0",),
    ),
    "send-empty": Case(
        SPARKED, fire("send-empty", LEAD, STATE), (f"Idle {LEAD} {STATE}",), (f"Send {LEAD} {STATE} 0 0",)
    ),
    "wake": Case(
        (),
        woken(ORCHESTRATOR, JOB),
        (f"Run orchestrator {JOB} request turn", f"Mailbox orchestrator {JOB} 0"),
        (f"Idle orchestrator {JOB}", f"Mailbox orchestrator {JOB} 1 request request"),
    ),
    "send-step": Case(
        AT_WORK,
        says(LEAD, STATE, Deliver(CODER, A, "ma")),
        (f"Send {LEAD} {STATE} 1 0", f"Tally {LEAD} {STATE} 1 1 0"),
        (f"Run {LEAD} {STATE} begin 1 turn",),
    ),
    "nosend-step": Case(
        AT_WORK,
        fire("nosend-step", LEAD, STATE),
        (f"Idle {LEAD} {STATE}",),
        (f"Run {LEAD} {STATE} begin 1 turn",),
    ),
    "dead-letter": Case(
        (*BURIED, says(LEAD, STATE, Deliver(CODER, A, "late"))),
        fire("dead-letter", LEAD, STATE, choice="it is dead"),
        (f"Send {LEAD} {STATE} 0 0", f"Mailbox {LEAD} {STATE} 1 it is dead it is dead"),
        (f"Send {LEAD} {STATE} 1 0", f"Mailbox {LEAD} {STATE} 0"),
    ),
    "ask-step": Case(
        AT_WORK,
        asks(LEAD, STATE, "q"),
        (f"AskQuestion {LEAD} {STATE} 1 when_unsure", f"Tally {LEAD} {STATE} 1 1 0"),
        (f"Run {LEAD} {STATE} begin 1 turn",),
    ),
    "ask": Case(
        (*AT_WORK, asks(LEAD, STATE, "q")),
        fire("ask", LEAD, STATE),
        (
            f"Idle {LEAD} {STATE}",
            f"Proxy q {STATE} when_unsure fresh -",
            f"Idle proxy {ESC}",
            f"Mailbox proxy {ESC} 1 ?q ?q",
            f"Parent {ESC} {STATE}",
            f"Surface proxy {ESC} {ESC}",
        ),
        (f"AskQuestion {LEAD} {STATE} 1 when_unsure",),
    ),
    "send-ask": Case(
        (*AT_WORK, says(LEAD, STATE, asks=(Question("q", "?q"),))),
        fire("send-ask", LEAD, STATE),
        (
            f"Idle {LEAD} {STATE}",
            f"Proxy q {STATE} when_unsure fresh -",
            f"Idle proxy {ESC}",
            f"Mailbox proxy {ESC} 1 ?q ?q",
            f"Parent {ESC} {STATE}",
            f"Surface proxy {ESC} {ESC}",
        ),
        (f"Send {LEAD} {STATE} 0 1",),
    ),
    "escalate": Case(
        PROXIED,
        fire("escalate", "q", choice="look"),
        (f"AskHuman q {STATE} when_unsure look",),
        (f"Proxy q {STATE} when_unsure fresh -",),
    ),
    "human-reply": Case(
        HUMANLY,
        fire("human-reply", "q", choice=REPLY),
        (f"Proxy q {STATE} when_unsure post-human approve well",),
        (f"AskHuman q {STATE} when_unsure framed",),
    ),
    "respond": Case(
        PROXIED,
        answered(),
        (f"Mailbox {LEAD} {STATE} 1 yes yes", f"Terminate {ESC} close"),
        (f"Mailbox {LEAD} {STATE} 0", f"Proxy q {STATE} when_unsure fresh -"),
    ),
    "relay": Case(
        led_back(),
        fire("relay", A, "qc", choice="back too"),
        (f"Verdict {A} - backtrack intent  proxy", f"Mailbox squad {A} 1 back too back too"),
        (f"Verdict {A} - backtrack intent  proxy untold", f"Mailbox squad {A} 0"),
    ),
    "interrupt": Case(
        (*AT_WORK, redirected(STATE, "stop", now=True)),
        fire("interrupt", LEAD, STATE, "stop", choice="turn 2"),
        (f"Run {LEAD} {STATE} stop turn 2 interrupted",),
        (f"Run {LEAD} {STATE} begin 1 turn", f"Interrupt {STATE} stop now"),
    ),
    "wake-int": Case(
        (redirected(JOB, "stop", now=False),),
        fire("wake-int", ORCHESTRATOR, JOB, "stop", choice="turn"),
        (f"Run orchestrator {JOB} stop turn interrupted",),
        (f"Idle orchestrator {JOB}", f"Interrupt {JOB} stop boundary"),
    ),
    "intervene": Case(AT_WORK, redirected(STATE, "stop", now=True), (f"Interrupt {STATE} stop now",)),
    "term-run": Case(
        (*AT_WORK, withdrawn(STATE)), fire("term-run", STATE, LEAD), (), (f"Run {LEAD} {STATE} begin 1 turn",)
    ),
    "term-idle": Case((*SPARKED, withdrawn(A)), fire("term-idle", A, CODER), (), (f"Idle coder {A}",)),
    "term-mbox": Case((*SPARKED, withdrawn(A)), fire("term-mbox", A, CODER), (), (f"Mailbox coder {A} 1 ma ma",)),
    "term-send": Case(
        (*DISPATCHED, withdrawn(STATE)), fire("term-send", STATE, LEAD), (), (f"Send {LEAD} {STATE} 1 0",)
    ),
    "cascade": Case(
        (*RUNNING, withdrawn(STATE)),
        fire("cascade", STATE, A),
        (f"Terminate {A} withdrawal",),
        (f"Parent {A} {STATE}",),
    ),
    "term-final": Case(
        (*RUNNING, withdrawn(A), fire("term-run", A, CODER), fire("term-mbox", A, CODER)),
        fire("term-final", A),
        (f"Tombstone {A}",),
        (f"Terminate {A} withdrawal", f"Surface coder {A} {A}"),
    ),
    "term-ask": Case(
        (*AT_WORK, asks(LEAD, STATE, "q"), withdrawn(STATE)),
        fire("term-ask", STATE, LEAD),
        (),
        (f"AskQuestion {LEAD} {STATE} 1 when_unsure",),
    ),
    "term-proxy": Case(
        (*PROXIED, withdrawn(STATE)),
        fire("term-proxy", STATE, "q"),
        (),
        (f"Proxy q {STATE} when_unsure fresh -",),
    ),
    "term-human": Case(
        (*HUMANLY, withdrawn(STATE)),
        fire("term-human", STATE, "q"),
        (),
        (f"AskHuman q {STATE} when_unsure framed",),
    ),
    "term-interrupt": Case(
        (*AT_WORK, redirected(STATE, "stop", now=True), withdrawn(STATE)),
        fire("term-interrupt", STATE, "stop"),
        (),
        (f"Interrupt {STATE} stop now",),
    ),
    "term-record": Case(
        (*two_at_work(SQUAD, CODER), withdrawn(A)),
        fire("term-record", A, choice=Passage(Action.WITHDRAW, ORCHESTRATOR)),
        (f"Record {A} WITHDRAWN 2 0 0 0 0 0 0 {A}",),
        (f"Record {A} INTENT 1 0 0 0 0 0 0 {A}",),
    ),
    "term-again": Case(
        (*PROXIED, answered(), withdrawn(STATE), fire("cascade", STATE, ESC)),
        fire("term-again", ESC),
        (),
        (f"Terminate {ESC} close",),
    ),
    "withdraw": Case(
        RUNNING,
        withdrawn(A),
        (f"Terminate {A} withdrawal", f"Mailbox {LEAD} {STATE} 1 gone {A} gone {A}"),
        (f"Mailbox {LEAD} {STATE} 0",),
    ),
    "transition": Case(
        AT_WORK,
        fire("transition", "j", choice=WITHDRAW),
        (f"Record j WITHDRAWN 2 0 0 0 0 0 0 {STATE}",),
        (f"Record j INTENT 1 0 0 0 0 0 0 {STATE}",),
    ),
    "strike": Case(
        (), PENDING, (f"Record j INTENT 1 0 0 0 1 0 0 {STATE}",), (f"Record j INTENT 1 0 0 0 0 0 0 {STATE}",)
    ),
    "dialog": Case(
        (PENDING,),
        fire("dialog", "j"),
        (f"Record j INTENT 1 0 0 0 0 0 1 {STATE}",),
        (f"Record j INTENT 1 0 0 0 1 0 0 {STATE}",),
    ),
    "pending": Case(
        (*AT_WORK, fire("nosend-step", LEAD, STATE)),
        fire("pending", "j", choice="pending"),
        (f"Mailbox orchestrator {JOB} 1 pending pending",),
        (f"Mailbox orchestrator {JOB} 0",),
    ),
    "observe": Case(
        (*AT_WORK, fire("nosend-step", LEAD, STATE)),
        fire("observe", "j", choice="outcome"),
        (f"Mailbox orchestrator {JOB} 1 outcome outcome",),
        (f"Mailbox orchestrator {JOB} 0",),
    ),
    "recover": Case(
        RUNNING,
        fire("recover", CODER, A, choice="agent"),
        (f"Idle coder {A}", f"Mailbox coder {A} 1 ma ma", f"Crashed coder {A} 1"),
        (f"Run coder {A} ma turn", f"Mailbox coder {A} 0"),
    ),
    "give-up": Case(
        then=AT_WORK,
        firing=fire("give-up", LEAD, STATE, choice="failed"),
        made=(
            f"Idle {LEAD} {STATE}",
            f"Mailbox {LEAD} {STATE} 1 begin 1 begin 1",
            f"Hold {STATE} stuck",
            f"Mailbox orchestrator {JOB} 1 failed failed",
        ),
        gone=(f"Run {LEAD} {STATE} begin 1 turn", f"Mailbox {LEAD} {STATE} 0", f"Mailbox orchestrator {JOB} 0"),
        bounds=ONE_TRY,
    ),
    "merge": Case(
        (*AT_WORK, fire("nosend-step", LEAD, STATE)),
        fire("merge", LEAD, STATE, choice="merged"),
        (f"Mailbox {LEAD} {STATE} 1 merged merged",),
        (f"Mailbox {LEAD} {STATE} 0",),
    ),
    "enrol": Case(
        RUNNING,
        fire("enrol", CODER, A, choice=Enrolment((Role("helper"), Role(SQUAD)))),
        ("Charter j 7 when_unsure/when_unsure/when_unsure 2",),
        ("Charter j 6 when_unsure/when_unsure/when_unsure 2",),
    ),
    "hold": Case((), HELD, (f"Hold {JOB} pause",)),
    "release": Case((HELD,), fire("release", JOB, choice="pause"), (), (f"Hold {JOB} pause",)),
}


@dataclass(frozen=True)
class No:
    """What happened before, a firing that is not possible then, and what is said about it."""

    then: Prelude
    firing: Firing
    why: str
    bounds: Bounds = BOUNDS


REFUSES: dict[str, list[No]] = {
    "send": [
        No(DISPATCHED, fire("send", LEAD, STATE), "no Mailbox"),
        No(AT_WORK, fire("send", LEAD, STATE), "no Send"),
    ],
    "spark": [No((*RUNNING, says(CODER, A, Deliver(LEAD, STATE, "x"))), fire("spark", CODER, A), "not a new")],
    "send-terminate": [No(DISPATCHED, fire("send-terminate", LEAD, STATE), "is a message")],
    "send-empty": [
        No(DISPATCHED, fire("send-empty", LEAD, STATE), "still sending"),
        No(
            (*AT_WORK, says(LEAD, STATE, asks=(Question("q", "?q"),))),
            fire("send-empty", LEAD, STATE),
            "still sending",
        ),
    ],
    "wake": [
        No((*AT_WORK, fire("nosend-step", LEAD, STATE)), woken(LEAD, STATE), "no mail"),
        No((HELD,), woken(ORCHESTRATOR, JOB), "held: pause"),
        No((redirected(JOB, "stop", now=False),), woken(ORCHESTRATOR, JOB), "an interrupt goes first"),
    ],
    "send-step": [
        No(SPARKED, says(LEAD, STATE), "no Run"),
        No(RUNNING, says(CODER, A, Deliver(SQUAD, B, "x")), "not in your team"),
        No(RUNNING, says(CODER, A, Deliver(ORCHESTRATOR, JOB, "x")), "not in your visibility"),
        No(RUNNING, says(CODER, A, Close(STATE)), "not a conversation that you opened"),
        No(AT_WORK, says(LEAD, STATE, Deliver(CODER, A, "x"), Close(A), Close(A)), "already closed"),
        No(AT_WORK, says(LEAD, STATE, Deliver(CODER, A, "x"), Deliver(SQUAD, A, "y")), "belongs to coder"),
        No(
            (*PROXIED, answered(), woken(LEAD, STATE)),
            says(LEAD, STATE, Deliver(PROXY, ESC, "x")),
            "takes no message",
        ),
        No((*PROXIED, answered(), woken(LEAD, STATE)), says(LEAD, STATE, Close(ESC)), "ends with its answer"),
        No((*PROXIED, woken(PROXY, ESC)), says(PROXY, ESC, Deliver(LEAD, STATE, "x")), "reaches anyone"),
        No(
            RUNNING,
            says(CODER, A, asks=(Question(id="q", message="?", kind=Kind.ASSERT, artifact="intent", digest="d"),)),
            "only the lead",
        ),
    ],
    "nosend-step": [No(SPARKED, fire("nosend-step", CODER, A), "no Run")],
    "dead-letter": [No(DISPATCHED, fire("dead-letter", LEAD, STATE, choice="x"), "no Tombstone")],
    "ask-step": [
        No(AT_WORK, fire("ask-step", LEAD, STATE, choice=Asking(())), "nothing was asked"),
        No((*PROXIED, answered(), woken(LEAD, STATE)), asks(LEAD, STATE, "q"), "asked before"),
        No(AT_WORK, fire("ask-step", LEAD, STATE, choice=Asking((Question("q", "?"),) * 2)), "one id"),
        No(AT_WORK, fire("ask-step", LEAD, STATE, choice=Asking((Question("q", "?", Kind.FAILURE),))), "orchestrator"),
        No((*PROXIED, woken(PROXY, ESC)), asks(PROXY, ESC, "r"), "you were asked"),
    ],
    "ask": [No(AT_WORK, fire("ask", LEAD, STATE), "no AskQuestion")],
    "send-ask": [No(SPARKED, fire("send-ask", LEAD, STATE), "asks nothing")],
    "escalate": [
        No(PROXIED, fire("escalate", "q", choice="look"), "never asks the human", NEVER),
        No(HUMANLY, fire("escalate", "q", choice="look"), "no Proxy"),
    ],
    "human-reply": [No(PROXIED, fire("human-reply", "q", choice=REPLY), "no AskHuman")],
    "respond": [
        No(PROXIED, answered(), "always asks the human", ALWAYS),
        No(PROXIED, answered(Answer("yes", HUMAN)), "said nothing"),
        No((*HUMANLY, fire("human-reply", "q", choice=REPLY)), answered(), "no other verdict"),
        No(HUMANLY, answered(), "no Proxy"),
    ],
    "relay": [
        No((*led_back(), fire("relay", A, "qc", choice="back too")), fire("relay", A, "qc", choice="x"), "has got"),
        No((*led_back(), withdrawn(A)), fire("relay", A, "qc", choice="x"), "is gone"),
        No(PROXIED, fire("relay", A, "q", choice="x"), "no Record"),
    ],
    "interrupt": [
        No(
            (*AT_WORK, redirected(STATE, "stop", now=False)),
            fire("interrupt", LEAD, STATE, "stop", choice="t"),
            "waits for the turn boundary",
        ),
        No(AT_WORK, fire("interrupt", LEAD, STATE, "stop", choice="t"), "no Interrupt"),
    ],
    "wake-int": [
        No(
            (redirected(JOB, "stop", now=True), HELD),
            fire("wake-int", ORCHESTRATOR, JOB, "stop", choice="t"),
            "held",
        ),
        No((), fire("wake-int", ORCHESTRATOR, JOB, "stop", choice="t"), "no Interrupt"),
    ],
    "intervene": [
        No((*AT_WORK, withdrawn(STATE)), redirected(STATE, "stop", now=True), "not there to be redirected"),
        No(AT_WORK, fire("intervene", STATE, choice=Interrupt(JOB, "stop")), "not there to be redirected"),
        No((), redirected(STATE, "stop", now=True), "no Surface"),
    ],
    "term-run": [No(AT_WORK, fire("term-run", STATE, LEAD), "no Terminate")],
    "term-idle": [No((*AT_WORK, withdrawn(STATE)), fire("term-idle", STATE, LEAD), "no Idle")],
    "term-mbox": [No((*AT_WORK, withdrawn(STATE)), fire("term-mbox", STATE, CODER), "no Mailbox")],
    "term-send": [No((*AT_WORK, withdrawn(STATE)), fire("term-send", STATE, LEAD), "no Send")],
    "cascade": [
        No((*AT_WORK, withdrawn(STATE)), fire("cascade", STATE, A), "was not sparked from"),
        No(RUNNING, fire("cascade", STATE, A), "no Terminate"),
    ],
    "term-final": [
        No((*RUNNING, withdrawn(A)), fire("term-final", A), "not empty yet"),
        No(
            (*RUNNING, withdrawn(STATE), fire("term-idle", STATE, LEAD), fire("term-mbox", STATE, LEAD)),
            fire("term-final", STATE),
            "not empty yet",
        ),
    ],
    "term-ask": [No((*AT_WORK, withdrawn(STATE)), fire("term-ask", STATE, LEAD), "no AskQuestion")],
    "term-proxy": [No((*HUMANLY, withdrawn(STATE)), fire("term-proxy", STATE, "q"), "no Proxy")],
    "term-human": [No((*PROXIED, withdrawn(STATE)), fire("term-human", STATE, "q"), "no AskHuman")],
    "term-interrupt": [No((*AT_WORK, withdrawn(STATE)), fire("term-interrupt", STATE, "stop"), "no Interrupt")],
    "term-record": [
        No((*RUNNING, withdrawn(A)), fire("term-record", A, choice=WITHDRAW), "no Record"),
        No(
            (*two_at_work(SQUAD, CODER), withdrawn(A), fire("term-record", A, choice=WITHDRAW)),
            fire("term-record", A, choice=WITHDRAW),
            "has ended",
        ),
        No((*two_at_work(SQUAD, CODER), withdrawn(A)), fire("term-record", A, choice=FAILED), "not what becomes of"),
        No((*closed(ready=False),), fire("term-record", A, choice=WITHDRAW), "not what becomes of"),
        No((*closed(ready=True),), fire("term-record", A, choice=FAILED), "not what becomes of"),
    ],
    "term-again": [No((*RUNNING, withdrawn(A)), fire("term-again", A), "one Terminate at most")],
    "withdraw": [
        No((*RUNNING, withdrawn(A)), withdrawn(A), "already"),
        No(BURIED, withdrawn(A), "no Surface"),
        No(AT_WORK, fire("withdraw", JOB, choice=Ending(Origin.END)), "not reached a terminal"),
    ],
    "open": [No((), fire("open", "j", choice=BOUNDS.opening), "empty soup")],
    "transition": [
        No(OVER, fire("transition", "j", choice=WITHDRAW), "has ended"),
        No((), fire("transition", "j", choice=Passage(Action.APPROVED_INTENT, LEAD)), "no live approval"),
    ],
    "strike": [
        No((PENDING,), PENDING, "budget is spent"),
        No(OVER, PENDING, "has ended"),
    ],
    "dialog": [
        No((), fire("dialog", "j"), "when the state has used up one of its bounds"),
        No((fire("dialog", "j"),), fire("dialog", "j"), "asked once", NO_RETRY),
    ],
    "pending": [
        No((), fire("pending", "j", choice="x"), "still under way"),
        No(
            (*AT_WORK, fire("nosend-step", LEAD, STATE), HELD),
            fire("pending", "j", choice="x"),
            "still under way",
        ),
    ],
    "observe": [No(AT_WORK, fire("observe", "j", choice="x"), "has not ended its turn")],
    "recover": [
        No(AT_WORK, fire("recover", LEAD, STATE, choice="agent"), "crashed too often", ONE_TRY),
        No(SPARKED, fire("recover", CODER, A, choice="engine"), "no Run"),
    ],
    "give-up": [
        No(RUNNING, fire("give-up", CODER, A, choice="failed"), "may still be tried again"),
        No((woken(ORCHESTRATOR, JOB),), fire("give-up", ORCHESTRATOR, JOB, choice="x"), "no instance above", ONE_TRY),
    ],
    "merge": [
        No(AT_WORK, fire("merge", LEAD, STATE, choice="x"), "no Idle"),
        No((), fire("merge", ORCHESTRATOR, JOB, choice="x"), "nothing is merged"),
    ],
    "enrol": [
        No((), fire("enrol", ORCHESTRATOR, JOB, choice=HELP), "no role joins the team"),
        No(AT_WORK, fire("enrol", CODER, STATE, choice=HELP), "no Surface"),
        No((*RUNNING, withdrawn(A)), fire("enrol", CODER, A, choice=HELP), "no role joins the team"),
        No(AT_WORK, fire("enrol", LEAD, STATE, choice=Enrolment((Role(ORCHESTRATOR),))), "orchestrator can't join"),
        No(RUNNING, fire("enrol", CODER, A, choice=Enrolment((Role(CODER),))), "coder can't join"),
        No(AT_WORK, fire("enrol", LEAD, STATE, choice=Enrolment((Role("a"), Role("a")))), "the same role twice"),
        No(AT_WORK, fire("enrol", LEAD, STATE, choice=Enrolment((Role("a", frozenset("b")),))), "b has no role"),
    ],
    "hold": [
        No((HELD,), HELD, "held already"),
        No((), fire("hold", STATE, choice="limit"), "held already, or gone"),
    ],
    "release": [No((), fire("release", JOB, choice="pause"), "not held")],
}


@pytest.mark.parametrize("name", FIRES)
def test_a_rule_does_what_it_says_and_nothing_else(name: str) -> None:
    case = FIRES[name]
    assert case.firing.rule == name
    before = opened(case.bounds, case.then)
    after = apply(before, case.firing)
    old, new = Counter(named(before)), Counter(named(after))

    assert new - old == Counter(case.made)
    assert old - new == Counter(case.gone)


def test_who_has_joined_a_team_may_join_it_again_and_stays_as_it_is() -> None:
    before = opened(Bounds(), (*RUNNING, fire("enrol", CODER, A, choice=HELP)))

    after = apply(before, fire("enrol", CODER, A, choice=Enrolment((Role("helper", frozenset(), ("Note",)),))))

    assert Counter(after) == Counter(before)


@pytest.mark.parametrize(
    "case", [case for cases in REFUSES.values() for case in cases], ids=lambda case: f"{case.firing.rule}: {case.why}"
)
def test_a_rule_does_not_fire_where_it_may_not(case: No) -> None:
    soup = opened(case.bounds, case.then)

    with pytest.raises((Disabled, Refused), match=case.why):
        apply(soup, case.firing)
    only = {case.firing.rule: RULES[case.firing.rule]}
    assert case.firing not in enabled(soup, only, menu=lambda rule, soup, molecule: (case.firing.choice,))


def test_every_rule_is_tried_both_ways() -> None:
    assert FIRES.keys() | {"open"} == set(RULES)
    assert REFUSES.keys() == set(RULES)
    assert all(case.firing.rule == name for name, cases in REFUSES.items() for case in cases)


def test_a_job_opens_with_its_orchestrator_waiting_on_the_request() -> None:
    assert Counter(named(opened())) == Counter(
        [
            "Charter j 6 when_unsure/when_unsure/when_unsure 2",
            f"Record j INTENT 1 0 0 0 0 0 0 {STATE}",
            f"Mailbox orchestrator {JOB} 1 request request",
            f"Idle orchestrator {JOB}",
            f"Surface orchestrator {JOB} {JOB}",
        ]
    )


def test_the_twenty_rules_of_the_protocol_are_there_by_name() -> None:
    classic = {name for name, rule in RULES.items() if rule.section.startswith("§")}

    assert classic == {
        "send",
        "spark",
        "send-terminate",
        "send-empty",
        "wake",
        "send-step",
        "nosend-step",
        "ask-step",
        "ask",
        "escalate",
        "human-reply",
        "respond",
        "interrupt",
        "wake-int",
        "term-run",
        "term-idle",
        "term-mbox",
        "term-send",
        "cascade",
        "term-final",
    }


def test_a_rule_set_can_be_replaced() -> None:
    fewer = {name: rule for name, rule in RULES.items() if name != "wake"}
    soup = opened()

    assert {firing.rule for firing in enabled(soup, fewer)} == {
        firing.rule for firing in enabled(soup) if firing.rule != "wake"
    }
    with pytest.raises(KeyError):
        react(soup, woken(ORCHESTRATOR, JOB), fewer)


def test_without_a_menu_there_is_a_plain_choice_for_every_rule_but_those_that_need_a_reason() -> None:
    silent = {name for name in RULES if not list(anything(name, Soup(), None))}

    assert silent == {"open", "transition", "term-record", "intervene"}


def test_an_interrupt_comes_back_as_an_interrupt_after_a_crash() -> None:
    then = (
        *RUNNING,
        redirected(A, "stop", now=True),
        fire("interrupt", CODER, A, "stop", choice="t2"),
    )
    after = apply(opened(BOUNDS, then), fire("recover", CODER, A, choice="engine"))

    assert Interrupt(A, "stop", now=True) in after
    assert f"Mailbox coder {A} 0" in set(named(after))


def test_a_proxy_that_is_given_up_leaves_its_question_to_the_human() -> None:
    then = (*PROXIED, woken(PROXY, ESC), fire("recover", PROXY, ESC, choice="agent"), woken(PROXY, ESC))
    after = apply(opened(BOUNDS, then), fire("give-up", PROXY, ESC, choice="failed"))

    assert {firing.rule for firing in enabled(after)} >= {"escalate", "respond"}
    assert f"Mailbox {LEAD} {STATE} 0" in set(named(after))


def test_a_subteam_that_has_finished_is_led_to_done_by_the_close_through_every_gate_that_is_left() -> None:
    soup = opened(BOUNDS, closed(ready=True))
    assert Terminate(A, Origin.ACCEPT) in soup
    for action in (Action.APPROVED_INTENT, Action.APPROVED_PLAN, Action.APPROVED_WORK):
        soup = apply(soup, fire("term-record", A, choice=Passage(action, LEAD)))
    record = soup.need(Record, A)
    assert (record.state, record.approved, len(record.history)) == (State.DONE, (), 3)


@pytest.mark.parametrize("origin", [origin for origin in Origin if origin is not Origin.ACCEPT])
def test_only_a_withdrawal_leads_a_subteam_to_withdrawn(origin: Origin) -> None:
    soup = opened(BOUNDS, (*two_at_work(SQUAD, CODER), fire("withdraw", A, choice=Ending(origin, "gone"))))
    due = Action.WITHDRAW if origin is Origin.WITHDRAWAL else Action.FAILURE
    assert [action for action in Action if _ends(soup, action)] == [due]


def _ends(soup: Soup, action: Action) -> bool:
    firing = fire("term-record", A, choice=Passage(action, ORCHESTRATOR))
    return firing in enabled(soup, {"term-record": RULES["term-record"]}, lambda *_: (firing.choice,))


def test_the_work_of_a_subteam_that_lost_its_last_turn_is_not_accepted() -> None:
    lost = (*two_at_work(SQUAD, CODER), fire("give-up", SQUAD, A, choice="failed"), woken(LEAD, STATE))
    soup = opened(ONE_TRY, (*lost, says(LEAD, STATE, Close(A)), fire("send-terminate", LEAD, STATE)))
    assert [action for action in Action if _ends(soup, action)] == [Action.FAILURE]
    again = says(LEAD, STATE, Deliver(SQUAD, A, "again"))
    once_more = (*lost, again, fire("send", LEAD, STATE), fire("send-empty", LEAD, STATE), woken(SQUAD, A))
    assert opened(ONE_TRY, once_more).of(Crashed)
    soup = opened(ONE_TRY, (*once_more, says(SQUAD, A, Deliver(LEAD, STATE, "done"))))
    assert not soup.of(Crashed)


def test_a_jobs_thread_is_withdrawn_where_its_record_is() -> None:
    soup = opened(BOUNDS, OVER)
    assert apply(soup, fire("withdraw", JOB, choice=Ending(Origin.WITHDRAWAL))).get(Terminate, JOB)
    with pytest.raises(Disabled, match="another one than this"):
        apply(soup, fire("withdraw", JOB, choice=Ending(Origin.END)))
    failed = opened(NO_RETRY, (*AT_WORK, fire("transition", "j", choice=FAILED)))
    assert apply(failed, fire("withdraw", JOB, choice=Ending(Origin.END))).get(Terminate, JOB)
    with pytest.raises(Disabled, match="another one than this"):
        apply(failed, fire("withdraw", JOB, choice=Ending(Origin.WITHDRAWAL)))


def test_a_close_frees_its_slot_for_what_the_same_turn_opens_after_it() -> None:
    full = (*two_at_work(CODER, CODER), says(CODER, A, Deliver(LEAD, STATE, "x")), fire("send", CODER, A))
    soup = opened(BOUNDS, (*full, woken(LEAD, STATE)))
    new = Deliver(CODER, "dispatch:c", "mc")

    with pytest.raises(Refused, match="2 dispatches are open; close one"):
        apply(soup, says(LEAD, STATE, new))
    soup = apply(soup, says(LEAD, STATE, Close(A), new))
    soup = apply(soup, fire("send-terminate", LEAD, STATE))
    assert soup.open_dispatches(STATE) == 1
    assert apply(soup, fire("spark", LEAD, STATE)).open_dispatches(STATE) == 2


def test_who_is_dispatched_has_a_workspace_of_its_own_and_a_subteam_a_record_too() -> None:
    soup = opened(BOUNDS, two_at_work(SQUAD, CODER))
    briefs = set(named(soup))

    assert f"Record {A} INTENT 1 0 0 0 0 0 0 {A}" in briefs
    assert {f"Surface squad {A} {A}", f"Surface coder {B} {B}"} <= briefs
    assert f"Surface {LEAD} {STATE} {JOB}" in briefs


def test_a_held_instance_waits_while_the_others_go_on() -> None:
    parked = (*two_at_work(), fire("recover", CODER, A, choice="engine"), fire("hold", A, choice="limit"))
    soup = opened(BOUNDS, parked)

    with pytest.raises(Disabled, match="is held: limit"):
        react(soup, woken(CODER, A))
    for step in (fire("recover", CODER, B, choice="engine"), woken(CODER, B), fire("release", A, choice="limit")):
        soup = apply(soup, step)
    react(soup, woken(CODER, A))


def test_a_hopeless_turn_is_given_up_at_once() -> None:
    soup = opened(BOUNDS, RUNNING)

    with pytest.raises(Disabled, match="may still be tried again"):
        react(soup, fire("give-up", CODER, A, choice="failed"))
    after = apply(soup, fire("give-up", CODER, A, HOPELESS, choice="failed"))
    assert f"Idle coder {A}" in set(named(after))


def test_what_is_refused_is_a_protocol_error() -> None:
    assert issubclass(Refused, ProtocolError)
    assert issubclass(Disabled, ProtocolError)
    assert not issubclass(Disabled, Refused)
    assert Broadcast(()).questions == ()
