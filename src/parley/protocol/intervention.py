"""The intervention model: an Interrupt redirects one instance, at once or at its turn boundary.

[intervene] is added: it puts the Interrupt there.
"""

from __future__ import annotations

from collections.abc import Iterator

from parley.protocol.conversation import refuse_untaken, refuse_while_held
from parley.protocol.errors import Disabled
from parley.protocol.molecules import Idle, Interrupt, MessageKind, Run, Surface
from parley.protocol.rule import Firing, Menu, Reaction, Rule, Sites
from parley.protocol.soup import Soup


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
    return Reaction(
        (run, interrupt),
        (Run(agent=agent, thread=thread, message=message, turn=firing.chosen(str), interrupt=interrupt),),
    )


def _wake_int(soup: Soup, firing: Firing) -> Reaction:
    agent, thread, message = firing.at
    idle = soup.need(Idle, thread, agent)
    interrupt = _found(soup, thread, message)
    refuse_while_held(soup, thread)
    return Reaction(
        (idle, interrupt),
        (Run(agent=agent, thread=thread, message=message, turn=firing.chosen(str), interrupt=interrupt),),
    )


def _intervene_sites(soup: Soup, menu: Menu) -> Iterator[Firing]:
    for surface in soup.of(Surface):
        for choice in menu("intervene", soup, surface):
            yield Firing("intervene", (surface.thread,), choice)


def _intervene(soup: Soup, firing: Firing) -> Reaction:
    (thread,) = firing.at
    soup.need(Surface, thread)
    interrupt = firing.chosen(Interrupt)
    if soup.dying(thread) or interrupt.thread != thread:
        raise Disabled(f"{thread} is not there to be redirected")
    refuse_untaken(soup, thread, MessageKind.INTERVENTION)
    return Reaction((), (interrupt,))


RULES = (
    Rule(
        name="interrupt",
        section="§8",
        shape="Run(A, t, X) ‖ Interrupt(t, Y) → Run(A, t, Y)",
        when="it was sent to act at once",
        sites=_interrupt_sites("interrupt", Run),
        react=_interrupt,
    ),
    Rule(
        name="wake-int",
        section="§8",
        shape="Idle_A(t) ‖ Interrupt(t, Y) → Run(A, t, Y)",
        when="no Hold on the job or on t",
        sites=_interrupt_sites("wake-int", Idle),
        react=_wake_int,
    ),
    Rule(
        name="intervene",
        section="added",
        shape="ε → Interrupt(t, Y)",
        when="t is alive, and takes interventions",
        sites=_intervene_sites,
        react=_intervene,
    ),
)
