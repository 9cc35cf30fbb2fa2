"""The intervention model: redirect an instance, at once or at its turn boundary."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from parley.core.conversation import refuse_untaken, refuse_while_held
from parley.core.errors import Disabled
from parley.core.rule import Firing, Menu, Reaction, Rule, Sites
from parley.core.soup import Soup
from parley.core.terms import Idle, Interrupt, MessageKind, Run, Surface


def _interrupt_sites(name: str, kind: type[Run | Idle]) -> Sites:
    def sites(soup: Soup, menu: Menu) -> Iterator[Firing]:
        for molecule in soup.of(kind):
            for interrupt in soup.all(Interrupt, molecule.thread):
                for choice in menu(name, soup, interrupt):
                    yield Firing(name, (molecule.agent, molecule.thread, interrupt.message), choice)

    return sites


def _found(soup: Soup, thread: str, message: str) -> Interrupt:
    for interrupt in soup.all(Interrupt, thread):
        if interrupt.message == message:
            return interrupt
    raise Disabled(f"no Interrupt {message} on {thread}")


def _interrupt(soup: Soup, firing: Firing) -> Reaction:
    agent, thread, message = firing.at
    run = soup.need(Run, thread, agent)
    interrupt = _found(soup, thread, message)
    if not interrupt.now:
        raise Disabled("this interrupt waits for the turn boundary")
    return Reaction((run, interrupt), (Run(agent, thread, message, cast("str", firing.choice), interrupt),))


def _wake_int(soup: Soup, firing: Firing) -> Reaction:
    agent, thread, message = firing.at
    idle = soup.need(Idle, thread, agent)
    interrupt = _found(soup, thread, message)
    refuse_while_held(soup, thread)
    return Reaction((idle, interrupt), (Run(agent, thread, message, cast("str", firing.choice), interrupt),))


def _intervene_sites(soup: Soup, menu: Menu) -> Iterator[Firing]:
    for surface in soup.of(Surface):
        for choice in menu("intervene", soup, surface):
            yield Firing("intervene", (surface.thread,), choice)


def _intervene(soup: Soup, firing: Firing) -> Reaction:
    (thread,) = firing.at
    soup.need(Surface, thread)
    interrupt = cast("Interrupt", firing.choice)
    if soup.dying(thread) or interrupt.thread != thread:
        raise Disabled(f"{thread} is not there to be redirected")
    refuse_untaken(soup, thread, MessageKind.INTERVENTION)
    return Reaction((), (interrupt,))


# fmt: off
RULES = (
    Rule(
        "interrupt", "§8", "Run(A, t, X) ‖ Interrupt(t, Y) → Run(A, t, Y)", "it was sent to act at once",
        _interrupt_sites("interrupt", Run), _interrupt,
    ),
    Rule(
        "wake-int", "§8", "Idle_A(t) ‖ Interrupt(t, Y) → Run(A, t, Y)", "no Hold on the job or on t",
        _interrupt_sites("wake-int", Idle), _wake_int,
    ),
    Rule(
        "intervene", "added", "ε → Interrupt(t, Y)", "t is alive, and takes interventions",
        _intervene_sites, _intervene,
    ),
)
# fmt: on
