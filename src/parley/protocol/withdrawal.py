"""The withdrawal model: Terminate walks the dispatch tree and leaves nothing of it but tombstones.

Added are [withdraw], which begins it, the rules that end questions and Interrupts too, [term-record] for what becomes
of a subteam's own record, and the tombstones: a dead thread stays dead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from parley.protocol.conversation import refuse_untaken
from parley.protocol.errors import Disabled, Refused
from parley.protocol.gates import moved
from parley.protocol.molecules import (
    AskHuman,
    AskQuestion,
    Assertion,
    Crashed,
    Hold,
    Idle,
    Interrupt,
    Mailbox,
    MessageKind,
    Molecule,
    Origin,
    Parent,
    Proxy,
    Record,
    Run,
    Send,
    Surface,
    Tally,
    Terminate,
    Tombstone,
    Verdict,
    job_thread,
)
from parley.protocol.rule import Ending, Firing, Menu, Passage, Reaction, Rule, Sites
from parley.protocol.soup import Soup
from parley.protocol.states import APPROVAL, LIVE, Action, State

Tagged = Run | Idle | Mailbox | Send | AskQuestion | Proxy | AskHuman | Interrupt
TAGGED: tuple[type[Any], ...] = get_args(Tagged)
"""The kinds that hold a Terminate open while one of them is left on its thread."""


_STRENGTH = (Origin.WITHDRAWAL, Origin.BACKTRACK, Origin.END, Origin.PHASE, Origin.CLOSE, Origin.ACCEPT)


def strongest(soup: Soup, thread: str) -> Terminate:
    """The Terminate that speaks for its thread where there are several: what was abandoned is not merged after all."""
    found = soup.all(Terminate, thread)
    if not found:
        raise Disabled(f"no Terminate on {thread}")
    return min(found, key=lambda terminate: _STRENGTH.index(terminate.origin))


def _consume(name: str, kind: type[Any], shape: str, section: str, when: str = "") -> Rule:
    """A rule that lets Terminate(t) consume a molecule of a kind on t."""

    def sites(soup: Soup, menu: Menu) -> Iterator[Firing]:
        for terminate in soup.of(Terminate):
            for molecule in soup.all(kind, terminate.thread):
                yield Firing(name, (terminate.thread, _name(molecule)))

    def react(soup: Soup, firing: Firing) -> Reaction:
        thread, which = firing.at
        terminate = strongest(soup, thread)
        for molecule in soup.all(kind, thread):
            if _name(molecule) == which:
                return Reaction((terminate, molecule), (terminate,))
        raise Disabled(f"no {kind.__name__} {which} on {thread}")

    return Rule(
        name=name,
        section=section,
        shape=f"Terminate(t) ‖ {shape} → Terminate(t)",
        when=when,
        sites=sites,
        react=react,
    )


def _name(molecule: Tagged) -> str:
    if isinstance(molecule, Proxy | AskHuman):
        return molecule.id
    if isinstance(molecule, Interrupt):
        return molecule.message
    return molecule.agent


def _each_terminate(name: str) -> Sites:
    def sites(soup: Soup, menu: Menu) -> Iterator[Firing]:
        for terminate in soup.of(Terminate):
            for choice in menu(name, soup, terminate):
                yield Firing(name, (terminate.thread,), choice)

    return sites


def _cascade_sites(soup: Soup, menu: Menu) -> Iterator[Firing]:
    for terminate in soup.of(Terminate):
        for child in soup.children(terminate.thread):
            yield Firing("cascade", (terminate.thread, child))


def _cascade(soup: Soup, firing: Firing) -> Reaction:
    thread, child = firing.at
    terminate = strongest(soup, thread)
    edge = Parent(child, thread)
    if edge not in soup:
        raise Disabled(f"{child} was not sparked from {thread}")
    return Reaction((terminate, edge), (terminate, Terminate(child, terminate.origin)))


def last_action(soup: Soup, record: Record, origin: Origin) -> Action:
    """What the record of a subteam that ends so goes on by, until it has ended.

    Only a withdrawal gives it up. Work that was accepted passes every gate that is left; a lead that lost its last turn
    for good has no work to accept.
    """
    if origin is Origin.WITHDRAWAL:
        return Action.WITHDRAW
    if origin is Origin.ACCEPT and soup.get(Crashed, record.thread) is None:
        return APPROVAL[record.state]
    return Action.FAILURE


def _term_record(soup: Soup, firing: Firing) -> Reaction:
    (thread,) = firing.at
    terminate = strongest(soup, thread)
    record = soup.need(Record, thread)
    if not record.live:
        raise Disabled(f"the record of {thread} has ended")
    passage = firing.chosen(Passage)
    if passage.action is not last_action(soup, record, terminate.origin):
        raise Refused(f"{passage.action} is not what becomes of {thread} when it ends by {terminate.origin}")
    ended = moved(soup, record, passage)
    judged: tuple[Molecule, ...] = (*soup.all(Verdict, thread), *soup.all(Assertion, thread))
    return Reaction((terminate, record, *judged), (terminate, ended))


def _terminates(soup: Soup, thread: str) -> list[Terminate]:
    """All of them, in an order that does not depend on how the soup came about."""
    found = sorted(soup.all(Terminate, thread), key=lambda terminate: terminate.origin)
    return [each for terminate in found for each in (terminate,) * soup.count(terminate)]


def _term_again(soup: Soup, firing: Firing) -> Reaction:
    (thread,) = firing.at
    kept = strongest(soup, thread)
    others = _terminates(soup, thread)
    others.remove(kept)
    if not others:
        raise Disabled("there is one Terminate at most")
    return Reaction((kept, max(others, key=lambda terminate: _STRENGTH.index(terminate.origin))), (kept,))


def _term_final(soup: Soup, firing: Firing) -> Reaction:
    (thread,) = firing.at
    terminate = strongest(soup, thread)
    record = soup.get(Record, thread)
    if any(soup.get(kind, thread) is not None for kind in TAGGED) or soup.has_children(thread):
        raise Disabled(f"{thread} is not empty yet")
    if len(_terminates(soup, thread)) > 1 or (record is not None and record.live):
        raise Disabled(f"{thread} is not empty yet")
    remembered: tuple[Molecule, ...] = (
        *soup.all(Surface, thread),
        *soup.all(Crashed, thread),
        *soup.all(Tally, thread),
        *soup.all(Hold, thread),
    )
    tombstone = Tombstone(thread)
    return Reaction((terminate, *remembered), () if tombstone in soup else (tombstone,))


def _withdraw_sites(soup: Soup, menu: Menu) -> Iterator[Firing]:
    for surface in soup.of(Surface):
        for choice in menu("withdraw", soup, surface):
            yield Firing("withdraw", (surface.thread,), choice)


def _withdraw(soup: Soup, firing: Firing) -> Reaction:
    (thread,) = firing.at
    soup.need(Surface, thread)
    ending = firing.chosen(Ending)
    if soup.dying(thread):
        raise Disabled(f"{thread} is being withdrawn already")
    if thread == job_thread(soup.charter.job):
        state = soup.need(Record, soup.charter.job).state
        if state in LIVE or (state is State.WITHDRAWN) != (ending.origin is Origin.WITHDRAWAL):
            raise Disabled("the job's record has not reached a terminal, or another one than this")
    terminate = Terminate(thread, ending.origin)
    parent = soup.parent(thread)
    mailbox = soup.get(Mailbox, parent) if parent is not None and not soup.dying(parent) else None
    if mailbox is None or ending.origin is not Origin.WITHDRAWAL:
        return Reaction((), (terminate,))
    refuse_untaken(soup, mailbox.thread, MessageKind.NOTICE)
    return Reaction((mailbox,), (terminate, mailbox.grown(ending.notice)))


_OF_A_QUESTION = "x was asked on t, or t is escalation:x"

RULES = (
    _consume("term-run", Run, "Run(A, t, X)", "§9"),
    _consume("term-idle", Idle, "Idle_A(t)", "§9"),
    _consume("term-mbox", Mailbox, "Mailbox_A(t, q)", "§9"),
    _consume("term-send", Send, "Send(A, t, msgs)", "§9"),
    Rule(
        name="cascade",
        section="§9",
        shape="Terminate(t) ‖ Parent(t', t) → Terminate(t) ‖ Terminate(t')",
        sites=_cascade_sites,
        react=_cascade,
    ),
    Rule(
        name="term-final",
        section="§9",
        shape="Terminate(t) → ε",
        besides="Surface_A(t)? ‖ Crashed_A(t)? ‖ Tally_A(t)? ‖ Hold(t, cause)* → Tombstone(t)?",
        when="no other t-tagged molecule remains, on an escalation's thread its Proxy or AskHuman neither, nor a live "
        "Record or an edge below; Parent(t, _) is the parent's",
        sites=_each_terminate("term-final"),
        react=_term_final,
    ),
    _consume("term-ask", AskQuestion, "AskQuestion(A, t, xs, π)", "added"),
    _consume("term-proxy", Proxy, "Proxy(_, x, π, h)", "added", when=_OF_A_QUESTION),
    _consume("term-human", AskHuman, "AskHuman(_, y, π)", "added", when=_OF_A_QUESTION),
    _consume("term-interrupt", Interrupt, "Interrupt(t, Y)", "added"),
    Rule(
        name="term-record",
        section="added",
        shape="Terminate(t) ‖ Record(t, s) → Terminate(t) ‖ Record(t, s')",
        besides="Verdict(t)* ‖ Assertion(t)* → ε",
        when=(
            "a subteam's record is live: a withdrawal leads it to WITHDRAWN, a close that accepts its work on to DONE, "
            "every other end to FAILURE"
        ),
        sites=_each_terminate("term-record"),
        react=_term_record,
    ),
    Rule(
        name="term-again",
        section="added",
        shape="Terminate(t) ‖ Terminate(t) → Terminate(t)",
        sites=_each_terminate("term-again"),
        react=_term_again,
    ),
    Rule(
        name="withdraw",
        section="added",
        shape="Mailbox_P(p, as)? → Mailbox_P(p, as ++ [notice])? ‖ Terminate(t)",
        when="t is alive; where t's parent p lives it is told; a job's own thread only once its record has ended, "
        "as a withdrawal only in WITHDRAWN",
        sites=_withdraw_sites,
        react=_withdraw,
    ),
)
