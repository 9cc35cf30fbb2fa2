"""Rules fire wherever their molecules are disjoint, in any order, and every step keeps every law."""

from collections import Counter
from itertools import combinations, permutations

from hypothesis import given, settings
from msgspec.structs import replace

from parley.protocol.errors import Disabled, Refused
from parley.protocol.molecules import (
    EVERYDAY,
    Charter,
    Deliver,
    Idle,
    Mailbox,
    Molecule,
    Parent,
    Policy,
    Role,
    Run,
    Send,
    Surface,
)
from parley.protocol.rule import Broadcast, Firing, Reaction
from parley.protocol.rules import apply, enabled, react
from parley.protocol.soup import Soup
from parley.verify.exploration_menu import Choices, phases
from parley.verify.invariants import check, lawful
from tests.explorer.scenarios import fire, woken
from tests.protocol.walks import WIDE, soups, steps, walks

Walk = tuple[Policy, list[int]]


def installed(agent: str, thread: str) -> Surface:
    return Surface(agent=agent, thread=thread, team=frozenset(), tools=(), messages=EVERYDAY, workspace="w")


THREE_AT_ONCE = Soup(
    [
        Charter("j", (Role("A"), Role("B"), Role("C"), Role("D")), phases()),
        Run("A", "t1", "m1"),
        Idle("B", "t3"),
        Send("C", "t4", (Deliver("D", "t2", "hi"),)),
        Mailbox("B", "t3", ("reply",)),
        Mailbox("D", "t2"),
        Parent("t2", "t4"),
        *(installed(agent, thread) for agent, thread in (("A", "t1"), ("B", "t3"), ("C", "t4"), ("D", "t2"))),
    ]
)
THREE = (
    fire("send", "C", "t4"),
    woken("B", "t3"),
    fire("send-step", "A", "t1", choice=Broadcast(())),
)


def test_three_reductions_on_disjoint_molecules_give_one_soup_in_any_order() -> None:
    ends = set()
    for order in permutations(THREE):
        soup = THREE_AT_ONCE
        for firing in order:
            soup = apply(soup, firing)
        ends.add(soup)

    (end,) = ends
    assert {Mailbox("D", "t2", ("hi",)), Run("B", "t3", "reply", "turn"), Send("A", "t1", ())} <= set(end)


def touched(reaction: Reaction) -> Counter[Molecule]:
    """What a firing takes away for good; a molecule that it takes and gives back, it only reads."""
    return Counter(reaction.consumed) - Counter(reaction.produced)


def tried(soup: Soup, *firings: Firing) -> Soup | None:
    """The soup after the firings, if they are all possible in this order."""
    try:
        for firing in firings:
            soup = apply(soup, firing)
    except (Disabled, Refused):
        return None
    return soup


# A record's state is what others ask by, and whether a parent is told of a withdrawal depends on its own life.
READ_BY_OTHERS = {"transition", "term-record", "withdraw"}


@given(walks)
def test_firings_on_disjoint_molecules_commute_where_neither_disables_the_other(walk: Walk) -> None:
    bounds = replace(WIDE, policy=walk[0])
    soup = soups(bounds, walk[1])[-1]
    firings = [f for f in enabled(soup, menu=Choices(bounds)) if f.rule not in READ_BY_OTHERS]
    for one, other in combinations(firings[:30], 2):
        if touched(react(soup, one)) & touched(react(soup, other)):
            continue
        there, back = tried(soup, one, other), tried(soup, other, one)
        if there is not None and back is not None:
            assert there == back, (one, other)


@given(walks)
def test_firings_at_the_same_molecule_exclude_each_other(walk: Walk) -> None:
    soup = soups(replace(WIDE, policy=walk[0]), walk[1])[-1]
    ending = ("nosend-step", "recover", "give-up", "term-run", "term-idle", "wake")
    firings = [firing for firing in enabled(soup) if firing.rule in ending]
    for one, other in combinations(firings, 2):
        both = touched(react(soup, one)) + touched(react(soup, other))
        if any(isinstance(m, Run | Idle) and count > soup.count(m) for m, count in both.items()):
            assert tried(soup, one, other) is None or other.rule == "wake"


@given(walks)
@settings(max_examples=60)
def test_every_soup_of_a_job_keeps_every_invariant_and_every_step_every_law(walk: Walk) -> None:
    for before, firing, after in steps(replace(WIDE, policy=walk[0]), walk[1]):
        lawful(before, firing, after)
        check(after)
