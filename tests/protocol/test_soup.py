"""The soup is a multiset, and its indexes say nothing else than a look at the whole of it."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.protocol.errors import Disabled
from parley.protocol.molecules import (
    AskHuman,
    AskQuestion,
    Charter,
    Crashed,
    Hold,
    Idle,
    Interrupt,
    Mailbox,
    Molecule,
    Parent,
    Policy,
    Proxy,
    Question,
    Record,
    Ruling,
    Run,
    Send,
    Surface,
    Terminate,
    Tombstone,
    Verdict,
    escalation_thread,
    thread_kind,
)
from parley.protocol.soup import Soup
from parley.verify.exploration_menu import phases

agents = st.sampled_from(["lead", "coder"])
threads = st.sampled_from(["job:j", "state:j/1", "dispatch:a", "dispatch:b", "escalation:q"])
askers = st.sampled_from(["job:j", "state:j/1", "dispatch:a"])  # a proxy, on an escalation, never asks
words = st.sampled_from(["x", "y"])
question = st.builds(Question, id=st.sampled_from("qr"), message=words)

molecules: st.SearchStrategy[Molecule] = st.one_of(
    st.builds(Idle, agents, threads),
    st.builds(Run, agents, threads, words),
    st.builds(Send, agents, threads, st.just(())),
    st.builds(Mailbox, agents, threads, st.lists(words, max_size=2).map(tuple)),
    st.builds(Parent, threads, threads),
    st.builds(AskQuestion, agents, threads, st.just(()), st.sampled_from(Policy)),
    st.builds(Proxy, st.sampled_from("qr"), agents, askers, question, st.sampled_from(Policy)),
    st.builds(AskHuman, st.sampled_from("qr"), agents, askers, question, st.sampled_from(Policy), words),
    st.builds(Interrupt, threads, words),
    st.builds(Terminate, threads),
    st.builds(Tombstone, threads),
    st.builds(Hold, threads, words),
    st.builds(Crashed, agents, threads, st.integers(1, 3)),
    st.builds(Surface, agents, threads, st.just(frozenset()), st.just(()), st.just(()), words),
    st.builds(Record, id=st.sampled_from(["j", "dispatch:a"])),
)
bags = st.lists(molecules, max_size=12)
changes = st.lists(st.tuples(st.booleans(), molecules), max_size=20)

UNDER_WAY = (Run, Send, AskQuestion, Proxy, AskHuman, Interrupt, Terminate)


def counted(soup: Soup) -> Counter[Molecule]:
    return Counter(soup)


def changed(bag: list[Molecule], steps: list[tuple[bool, Molecule]]) -> tuple[Soup, Counter[Molecule]]:
    """A soup after some changes, and the multiset that it should be."""
    soup, model = Soup(bag), Counter(bag)
    for take, molecule in steps:
        if not take:
            soup, model = soup.after((), (molecule,)), model + Counter([molecule])
        elif model[molecule]:
            soup, model = soup.after((molecule,), ()), model - Counter([molecule])
        else:
            with pytest.raises(Disabled, match="not in the soup"):
                soup.after((molecule,), ())
    return soup, model


@given(bags, changes)
def test_a_soup_is_the_multiset_of_its_molecules(bag: list[Molecule], steps: list[tuple[bool, Molecule]]) -> None:
    soup, model = changed(bag, steps)

    assert counted(soup) == model
    assert len(soup) == model.total()
    assert all(soup.count(molecule) == count and molecule in soup for molecule, count in model.items())
    assert soup == Soup(model.elements())
    assert hash(soup) == hash(Soup(reversed(list(model.elements()))))


@given(bags, bags, st.randoms(use_true_random=False))
def test_order_does_not_matter(one: list[Molecule], other: list[Molecule], random: object) -> None:
    mixed = [*one, *other]
    random.shuffle(mixed)  # type: ignore[attr-defined]  # Hypothesis gives a Random

    assert Soup(mixed) == Soup(one).after((), other)


@given(bags, bags)
def test_after_leaves_the_soup_as_it_was(bag: list[Molecule], more: list[Molecule]) -> None:
    soup = Soup(bag)
    before = (counted(soup), hash(soup), repr(soup), soup.stirring)
    soup.after(bag[:2], more)

    assert (counted(soup), hash(soup), repr(soup), soup.stirring) == before


@given(bags, bags)
def test_reacting_in_place_does_the_same_as_after(bag: list[Molecule], more: list[Molecule]) -> None:
    kept = Soup(bag).after(bag[:2], more)
    owned = Soup(bag)
    owned.react(bag[:2], more)

    assert owned == kept
    assert hash(owned) == hash(kept)
    assert owned.stirring == kept.stirring


@given(bags, changes)
def test_looking_up_by_thread_finds_what_a_scan_finds(bag: list[Molecule], steps: list[tuple[bool, Molecule]]) -> None:
    soup, model = changed(bag, steps)
    present = [molecule for molecule, count in model.items() if count]

    for kind in (Idle, Run, Send, Mailbox, AskQuestion, Interrupt, Terminate, Tombstone, Hold, Surface):
        for thread in ("job:j", "dispatch:a"):
            scan = {m for m in present if type(m) is kind and m.thread == thread}
            assert set(soup.all(kind, thread)) == scan
            assert (soup.get(kind, thread) is None) == (not scan)
        assert set(soup.of(kind)) == {m for m in present if type(m) is kind}
    for asked in (Proxy, AskHuman):
        found = [m for m in present if isinstance(m, Proxy | AskHuman) and type(m) is asked]
        for name in "qr":
            by_id = {m for m in found if m.id == name or m.thread == escalation_thread(name)}
            assert set(soup.all(asked, escalation_thread(name))) == by_id


@given(bags, changes)
def test_edges_and_open_dispatches_agree_with_a_scan(bag: list[Molecule], steps: list[tuple[bool, Molecule]]) -> None:
    soup, model = changed(bag, steps)
    edges = {m for m, count in model.items() if count and isinstance(m, Parent)}
    dying = {m.thread for m, count in model.items() if count and isinstance(m, Terminate | Tombstone)}

    for thread in ("job:j", "state:j/1", "dispatch:a"):
        children = {edge.child for edge in edges if edge.thread == thread}
        assert set(soup.children(thread)) == children
        assert soup.has_children(thread) == bool(children)
        assert soup.dying(thread) == (thread in dying)
        assert (soup.parent(thread) is None) == all(edge.child != thread for edge in edges)


@given(bags, changes)
def test_it_stirs_while_something_is_under_way(bag: list[Molecule], steps: list[tuple[bool, Molecule]]) -> None:
    soup, model = changed(bag, steps)
    mail = sum(count for m, count in model.items() if isinstance(m, Mailbox) and m.queue)

    assert soup.stirring == mail + sum(count for m, count in model.items() if type(m) in UNDER_WAY)


def test_open_dispatches_are_those_that_are_neither_dead_nor_dying() -> None:
    lead = "state:j/1"
    soup = Soup([Parent("dispatch:a", lead), Parent("dispatch:b", lead), Parent("escalation:q", lead)])

    assert soup.open_dispatches(lead) == 2
    dying = soup.after((), (Terminate("dispatch:a"),))
    assert dying.open_dispatches(lead) == 1
    assert dying.after((Terminate("dispatch:a"),), (Tombstone("dispatch:a"),)).open_dispatches(lead) == 1
    assert soup.after((Parent("dispatch:b", lead),), ()).open_dispatches(lead) == 1
    assert thread_kind("escalation:q") == "escalation"


def test_a_rule_that_needs_what_is_not_there_is_disabled() -> None:
    with pytest.raises(Disabled, match="no Idle of coder on dispatch:a"):
        Soup([Idle("lead", "dispatch:a")]).need(Idle, "dispatch:a", "coder")
    with pytest.raises(Disabled, match="no Charter"):
        _ = Soup().charter


@given(bags)
def test_a_molecule_is_named_in_one_line_of_bounded_length(bag: list[Molecule]) -> None:
    verdict = Verdict(record="j", artifact="", ruling=Ruling.APPROVE, digest="", author="human", question="q")
    for molecule in (*bag, Charter("j", (), phases()), verdict):
        assert "\n" not in molecule.brief()
        assert molecule.brief().startswith(type(molecule).__name__)
    long = Mailbox("lead", "job:j", tuple(f"m{number}" for number in range(1000)))
    assert long.brief() == "Mailbox lead job:j 1000 m0 m999"


def test_an_empty_soup_is_written_as_nothing() -> None:
    assert repr(Soup()) == "ε"
    assert repr(Soup([Idle("a", "t"), Terminate("t")])).count("‖") == 1
