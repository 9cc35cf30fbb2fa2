"""Soups to try things on: small jobs made by firing rules, and random walks through all that may be chosen."""

from collections.abc import Iterable, Iterator

from hypothesis import strategies as st

from parley.protocol.molecules import Kind, Policy, Ruling
from parley.protocol.rule import Firing
from parley.protocol.rules import apply, enabled
from parley.protocol.soup import Soup
from parley.verify.exploration_menu import Bounds, Choices

WIDE = Bounds(
    sends=6, threads=3, closes=2, questions=4, escalations=1, interrupts=2, withdrawals=2, crashes=3, holds=1,
    transitions=3, failures=3, pendings=1, observations=1, silences=2,
    rulings=tuple(Ruling), kinds=(Kind.QUESTION, Kind.ASSERT), several=True, nested=True, steered=True,
)  # fmt: skip

walks = st.tuples(
    st.sampled_from(Policy), st.lists(st.integers(min_value=0, max_value=10**6), min_size=25, max_size=60)
)
"""A policy, and the numbers that choose among what is enabled."""


def opened(bounds: Bounds = WIDE, then: Iterable[Firing] = ()) -> Soup:
    """A job that was opened, and what happened then."""
    soup = Soup()
    for firing in (Firing("open", (bounds.opening.charter.job,), bounds.opening), *then):
        soup = apply(soup, firing)
    return soup


def steps(bounds: Bounds, numbers: list[int]) -> Iterator[tuple[Soup, Firing, Soup]]:
    """Walk through a job: the soup before, the firing, the soup after."""
    soup = opened(bounds)
    choices = Choices(bounds)
    for number in numbers:
        affordable = [
            (firing, paid) for firing in enabled(soup, menu=choices) if (paid := choices.pay(soup, firing)) is not None
        ]
        if not affordable:
            return
        firing, paid = affordable[number % len(affordable)]
        after = apply(soup, firing)
        yield soup, firing, after
        soup, choices.spent = after, paid


def soups(bounds: Bounds, numbers: list[int]) -> list[Soup]:
    """The soups along a walk."""
    return [opened(bounds), *(after for _, _, after in steps(bounds, numbers))]
