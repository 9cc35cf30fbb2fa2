"""The soup: a multiset of molecules that can be read by thread without looking at the rest of it.

A soup is a value for its readers: `after` gives a new one. The engine, which owns its soup, may `react` in place; both
do the same thing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from types import MappingProxyType
from typing import Any, TypeVar, get_args

from parley.protocol.errors import Disabled
from parley.protocol.molecules import (
    AskHuman,
    AskQuestion,
    Assertion,
    Charter,
    Interrupt,
    Mailbox,
    Molecule,
    Parent,
    Proxy,
    Record,
    Run,
    Send,
    Terminate,
    Tombstone,
    Verdict,
    escalation_thread,
    thread_kind,
)

M = TypeVar("M")

QUESTIONS = (Proxy, AskHuman)

NAMES: Mapping[type[Any], Callable[[Any], tuple[str, ...]]] = MappingProxyType(
    {
        **dict.fromkeys(get_args(Molecule), lambda molecule: (molecule.thread,)),
        **dict.fromkeys(QUESTIONS, lambda asked: (asked.thread, escalation_thread(asked.id))),
        **dict.fromkeys((Assertion, Verdict), lambda gate: (gate.record,)),
        Parent: lambda edge: (edge.child,),
        Record: lambda record: (record.id,),
        Charter: lambda charter: ("",),
    }
)
"""What the soup files a molecule of each kind under: its thread, or what it is looked up by instead."""

STIRRING = frozenset((Run, Send, AskQuestion, Proxy, AskHuman, Interrupt, Terminate))


def stirs(molecule: Molecule) -> bool:
    """Whether the molecule means that something is under way, so that its soup is not quiescent."""
    return type(molecule) in STIRRING or (type(molecule) is Mailbox and bool(molecule.queue))


Shelf = dict[str, tuple[Any, ...]]  # name -> the molecules there, oldest first, equal ones included


class Soup:
    """A multiset of molecules."""

    __slots__ = ("_below", "_hash", "_open", "_shelves", "stirring")

    def __init__(self, molecules: Iterable[Molecule] = ()) -> None:
        self._shelves: dict[type[Any], Shelf] = {kind: {} for kind in NAMES}
        self._below: dict[str, dict[str, int]] = {}  # thread -> its children, each with how many edges
        self._open: dict[str, dict[str, None]] = {}  # thread -> its dispatches, none dead or dying
        self._hash: int | None = None
        self.stirring = 0  # how many molecules say that something is under way
        for molecule in molecules:
            self._add(molecule)

    # ---- reading -----------------------------------------------------------------------------

    def __contains__(self, molecule: object) -> bool:
        return type(molecule) in NAMES and molecule in self._beside(molecule)

    def __iter__(self) -> Iterator[Molecule]:
        for kind, shelf in self._shelves.items():
            for name, there in shelf.items():  # a question is filed twice
                yield from there if kind not in QUESTIONS else (asked for asked in there if asked.thread == name)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Soup):
            return False
        return self._shelves == other._shelves or Counter(self) == Counter(other)

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(sum(map(hash, self)))
        return self._hash

    def __repr__(self) -> str:
        return " ‖ ".join(sorted(repr(molecule) for molecule in self)) or "ε"

    def _beside(self, molecule: Any) -> tuple[Any, ...]:
        """What is filed where the molecule would be."""
        kind = type(molecule)
        return self._shelves[kind].get(NAMES[kind](molecule)[0], ())

    def count(self, molecule: Molecule) -> int:
        """How many of exactly this molecule there are."""
        return self._beside(molecule).count(molecule)

    def all(self, kind: type[M], thread: str) -> tuple[M, ...]:
        """The molecules of a kind filed under a thread (for a record, under its id), each once."""
        there = self._shelves[kind].get(thread, ())
        return there if len(there) < 2 else tuple(dict.fromkeys(there))  # noqa: PLR2004 - nothing to compare

    def of(self, kind: type[M]) -> tuple[M, ...]:
        """Every molecule of a kind, each once. It looks at the whole soup: not for use inside a rule."""
        shelf = self._shelves[kind]
        return tuple(dict.fromkeys(chain.from_iterable(shelf.values()))) if shelf else ()

    def get(self, kind: type[M], thread: str, agent: str | None = None) -> M | None:
        """The molecule of a kind on a thread, of that agent if one is named."""
        there = self._shelves[kind].get(thread)
        if there is None:
            return None
        for molecule in there:
            if agent is None or molecule.agent == agent:
                return molecule  # type: ignore[no-any-return] # a shelf holds its kind
        return None

    def need(self, kind: type[M], thread: str, agent: str | None = None) -> M:
        """As `get`, but a rule that needs the molecule is disabled without it."""
        found = self.get(kind, thread, agent)
        if found is None:
            whose = f" of {agent}" if agent else ""
            raise Disabled(f"no {kind.__name__}{whose} on {thread}")
        return found

    def children(self, thread: str) -> tuple[str, ...]:
        """The threads sparked from a thread, while their edges stand."""
        return tuple(self._below.get(thread, ()))

    def has_children(self, thread: str) -> bool:
        """Whether any edge leads down from the thread."""
        return thread in self._below

    def parent(self, thread: str) -> str | None:
        """The thread that sparked this one."""
        for edge in self._shelves[Parent].get(thread, ()):
            return edge.thread  # type: ignore[no-any-return] # a shelf holds its kind
        return None

    def linked(self, child: str, thread: str) -> bool:
        """Whether Parent(child, thread) is there."""
        return child in self._below.get(thread, ())

    def open_dispatches(self, thread: str) -> int:
        """How many of the thread's dispatches hold a slot of its fan-out."""
        return len(self._open.get(thread, ()))

    def dying(self, thread: str) -> bool:
        """Whether the thread is being terminated, or has been."""
        return thread in self._shelves[Tombstone] or thread in self._shelves[Terminate]

    @property
    def charter(self) -> Charter:
        """What the job was opened with."""
        return self.need(Charter, "")

    # ---- changing ----------------------------------------------------------------------------

    def after(self, consumed: Iterable[Molecule], produced: Iterable[Molecule]) -> Soup:
        """The soup in which `consumed` are gone and `produced` are there; this one stays as it is."""
        other = Soup()
        other._shelves = {kind: shelf.copy() for kind, shelf in self._shelves.items()}
        other._below = {thread: children.copy() for thread, children in self._below.items()}
        other._open = {thread: threads.copy() for thread, threads in self._open.items()}
        other.stirring = self.stirring
        other.react(consumed, produced)
        return other

    def react(self, consumed: Iterable[Molecule], produced: Iterable[Molecule]) -> None:
        """The same in place, for the owner of this soup."""
        for molecule in consumed:
            self._remove(molecule)
        for molecule in produced:
            self._add(molecule)
        self._hash = None

    def _add(self, molecule: Molecule) -> None:
        kind = type(molecule)
        shelf = self._shelves[kind]
        for name in NAMES[kind](molecule):
            shelf[name] = (*shelf[name], molecule) if name in shelf else (molecule,)
        if stirs(molecule):
            self.stirring += 1
        if type(molecule) is Parent:
            self._link(molecule)
        elif type(molecule) is Terminate or type(molecule) is Tombstone:
            self._close(molecule.thread)

    def _remove(self, molecule: Molecule) -> None:
        kind = type(molecule)
        shelf = self._shelves[kind]
        for name in NAMES[kind](molecule):
            there = shelf.get(name)
            if there is None or molecule not in there:
                raise Disabled(f"not in the soup: {molecule!r}")
            if len(there) == 1:
                del shelf[name]
            else:
                last = len(there) - 1 - there[::-1].index(molecule)
                shelf[name] = (*there[:last], *there[last + 1 :])
        if stirs(molecule):
            self.stirring -= 1
        if type(molecule) is Parent:
            self._unlink(molecule)

    def _link(self, edge: Parent) -> None:
        below = self._below.setdefault(edge.thread, {})
        below[edge.child] = below.get(edge.child, 0) + 1
        if thread_kind(edge.child) == "dispatch" and not self.dying(edge.child):
            self._open.setdefault(edge.thread, {})[edge.child] = None

    def _unlink(self, edge: Parent) -> None:
        below = self._below[edge.thread]
        below[edge.child] -= 1
        if below[edge.child]:
            return
        del below[edge.child]
        if not below:
            del self._below[edge.thread]
        self._free(edge.thread, edge.child)

    def _close(self, thread: str) -> None:
        parent = self.parent(thread)
        if parent is not None:
            self._free(parent, thread)

    def _free(self, parent: str, child: str) -> None:
        slots = self._open.get(parent)
        if slots is not None:
            slots.pop(child, None)
            if not slots:
                del self._open[parent]
