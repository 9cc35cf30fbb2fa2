"""The soup: a multiset of molecules that can be read by thread without looking at the rest of it.

A soup is a value for whoever reads it: `after` gives a new one. The engine, which owns its soup, may
`react` in place; both do the same thing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, TypeVar, cast, get_args

from parley.core.errors import Disabled
from parley.core.states import Record
from parley.core.terms import (
    AskHuman,
    AskQuestion,
    Assertion,
    Charter,
    Idle,
    Interrupt,
    Mailbox,
    Molecule,
    Parent,
    Proxy,
    Run,
    Send,
    Terminate,
    Tombstone,
    Verdict,
    escalation_thread,
    thread_kind,
)

M = TypeVar("M")
Key = tuple[Any, str]


def keys(molecule: Molecule) -> tuple[Key, ...]:
    """Where the soup files a molecule: by its kind and thread, and by whatever else it is looked up by."""
    kind = type(molecule)
    if kind is Parent:
        return ((Parent, cast("Parent", molecule).child),)
    if kind is Proxy or kind is AskHuman:
        question = cast("Proxy | AskHuman", molecule)
        return (kind, question.thread), (kind, escalation_thread(question.id))
    if kind is Record:
        return ((Record, cast("Record", molecule).id),)
    if kind is Assertion or kind is Verdict:
        return ((kind, cast("Assertion | Verdict", molecule).record),)
    if kind is Charter:
        return ((Charter, ""),)
    return ((kind, cast("Any", molecule).thread),)


def stirs(molecule: Molecule) -> bool:
    """Whether the molecule means that something is under way, so that its soup is not quiescent."""
    kind = type(molecule)
    if kind is Mailbox:
        return bool(cast("Mailbox", molecule).queue)
    return kind in _STIRRING


_STIRRING = frozenset((Run, Send, AskQuestion, Proxy, AskHuman, Interrupt, Terminate))
# Filed by their thread alone, and nothing else depends on them. They are what comes and goes in every turn.
_PLAIN = frozenset((Idle, Run, Send, Mailbox))
_KINDS: tuple[type[Any], ...] = get_args(Molecule)
_CHILDLESS: dict[str, int] = {}
Shelf = dict[str, tuple[Any, ...]]  # thread -> the molecules there, oldest first, equal ones included


class Soup:
    """A multiset of molecules."""

    __slots__ = ("_below", "_hash", "_open", "_shelves", "stirring")

    def __init__(self, molecules: Iterable[Molecule] = ()) -> None:
        self._shelves: dict[Any, Shelf] = {kind: {} for kind in _KINDS}
        self._below: dict[str, dict[str, int]] = {}  # thread -> its children, each with how many edges
        self._open: dict[str, dict[str, None]] = {}  # thread -> its dispatches, none dead or dying
        self._hash: int | None = None
        self.stirring = 0  # how many molecules say that something is under way
        for molecule in molecules:
            self._add(molecule)

    # ---- reading -----------------------------------------------------------------------------

    def __contains__(self, molecule: object) -> bool:
        return type(molecule) in self._shelves and molecule in self._beside(cast("Molecule", molecule))

    def __iter__(self) -> Iterator[Molecule]:
        for kind, shelf in self._shelves.items():
            twice = kind is Proxy or kind is AskHuman  # filed under its thread and under its question's own
            for thread, there in shelf.items():
                for molecule in there:
                    if not twice or molecule.thread == thread:
                        yield molecule

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

    def _beside(self, molecule: Molecule) -> tuple[Any, ...]:
        """What is filed where the molecule would be."""
        kind, thread = keys(molecule)[0]
        return self._shelves[kind].get(thread, ())

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
        if there is not None:
            for molecule in there:
                if agent is None or molecule.agent == agent:
                    return molecule  # type: ignore[no-any-return] # a shelf holds its kind
        return None

    def need(self, kind: type[M], thread: str, agent: str | None = None) -> M:
        """As `get`, but a rule that needs the molecule is disabled without it."""
        for molecule in self._shelves[kind].get(thread, ()):
            if agent is None or molecule.agent == agent:
                return molecule  # type: ignore[no-any-return] # a shelf holds its kind
        whose = f" of {agent}" if agent else ""
        message = f"no {kind.__name__}{whose} on {thread}"
        raise Disabled(message)

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
        return child in self._below.get(thread, _CHILDLESS)

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
        """The same in place, for whoever owns this soup."""
        for molecule in consumed:
            self._remove(molecule)
        for molecule in produced:
            self._add(molecule)
        self._hash = None

    def _add(self, molecule: Any) -> None:
        kind = type(molecule)
        if kind in _STIRRING or (kind is Mailbox and molecule.queue):
            self.stirring += 1
        if kind in _PLAIN:
            shelf, thread = self._shelves[kind], molecule.thread
            shelf[thread] = (*shelf[thread], molecule) if thread in shelf else (molecule,)
            return
        for key, thread in keys(molecule):
            shelf = self._shelves[key]
            shelf[thread] = (*shelf.get(thread, ()), molecule)
        if kind is Parent:
            self._link(molecule)
        elif kind is Terminate or kind is Tombstone:
            self._close(molecule.thread)

    def _remove(self, molecule: Any) -> None:
        kind = type(molecule)
        if kind in _PLAIN:
            shelf, thread = self._shelves[kind], molecule.thread
            there = shelf.get(thread, ())
            if len(there) == 1 and there[0] is molecule:
                del shelf[thread]
            else:
                self._take(shelf, thread, molecule)
        else:
            for key, thread in keys(molecule):
                self._take(self._shelves[key], thread, molecule)
            if kind is Parent:
                self._unlink(molecule)
        if kind in _STIRRING or (kind is Mailbox and molecule.queue):
            self.stirring -= 1

    @staticmethod
    def _take(shelf: Shelf, thread: str, molecule: Molecule) -> None:
        there = shelf.get(thread, ())
        if len(there) == 1 and (there[0] is molecule or there[0] == molecule):
            del shelf[thread]
            return
        if molecule not in there:
            message = f"not in the soup: {molecule!r}"
            raise Disabled(message)
        last = len(there) - 1 - there[::-1].index(molecule)
        shelf[thread] = (*there[:last], *there[last + 1 :])

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
