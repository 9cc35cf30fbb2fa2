"""The soup: a multiset of molecules that can be read by thread without looking at the rest of it.

A soup is a value for whoever reads it: `after` gives a new one. The engine, which owns its soup, may
`react` in place; both do the same thing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar, cast

from parley.core.errors import Disabled
from parley.core.states import Record
from parley.core.terms import (
    Assertion,
    AskHuman,
    AskQuestion,
    Charter,
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
CHILDREN = "children"  # the shelf on which edges stand by the thread they lead down from


def keys(molecule: Molecule) -> tuple[Key, ...]:
    """Where the soup files a molecule: by its kind and thread, and by whatever else it is looked up by."""
    kind = type(molecule)
    if kind is Parent:
        edge = cast("Parent", molecule)
        return (Parent, edge.child), (CHILDREN, edge.thread)
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
_NOTHING: dict[str, dict[Any, None]] = {}
Shelves = dict[Any, dict[str, dict[Any, None]]]  # kind -> thread -> the molecules there, oldest first


class Soup:
    """A multiset of molecules."""

    __slots__ = ("_bag", "_hash", "_open", "_shelves", "stirring")

    def __init__(self, molecules: Iterable[Molecule] = ()) -> None:
        self._bag: dict[Molecule, int] = {}
        self._shelves: Shelves = {}
        self._open: dict[str, dict[str, None]] = {}  # thread -> its dispatches that are neither dead nor dying
        self._hash: int | None = None
        self.stirring = 0  # how many molecules say that something is under way
        for molecule in molecules:
            self._add(molecule)

    # ---- reading -----------------------------------------------------------------------------

    def __contains__(self, molecule: object) -> bool:
        return molecule in self._bag

    def __iter__(self) -> Iterator[Molecule]:
        for molecule, count in self._bag.items():
            for _ in range(count):
                yield molecule

    def __len__(self) -> int:
        return sum(self._bag.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Soup) and self._bag == other._bag

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self._bag.items()))
        return self._hash

    def __repr__(self) -> str:
        return " ‖ ".join(sorted(repr(molecule) for molecule in self)) or "ε"

    def count(self, molecule: Molecule) -> int:
        """How many of exactly this molecule there are."""
        return self._bag.get(molecule, 0)

    def all(self, kind: type[M], thread: str) -> tuple[M, ...]:
        """The molecules of a kind filed under a thread (for a record, under its id)."""
        return tuple(self._shelves.get(kind, _NOTHING).get(thread, ()))

    def of(self, kind: type[M]) -> tuple[M, ...]:
        """Every molecule of a kind, each once. For whoever looks at the whole soup: not for use inside a rule."""
        found: dict[M, None] = {}
        for shelf in self._shelves.get(kind, _NOTHING).values():
            found.update(shelf)
        return tuple(found)

    def get(self, kind: type[M], thread: str, agent: str | None = None) -> M | None:
        """The molecule of a kind on a thread, of that agent if one is named."""
        shelf = self._shelves.get(kind, _NOTHING).get(thread)
        if shelf is not None:
            for molecule in shelf:
                if agent is None or molecule.agent == agent:
                    return cast("M", molecule)
        return None

    def need(self, kind: type[M], thread: str, agent: str | None = None) -> M:
        """As `get`, but a rule that needs the molecule is disabled without it."""
        found = self.get(kind, thread, agent)
        if found is None:
            whose = f" of {agent}" if agent else ""
            message = f"no {kind.__name__}{whose} on {thread}"
            raise Disabled(message)
        return found

    def children(self, thread: str) -> tuple[str, ...]:
        """The threads sparked from a thread, while their edges stand."""
        return tuple(edge.child for edge in self._shelves.get(CHILDREN, _NOTHING).get(thread, ()))

    def has_children(self, thread: str) -> bool:
        """Whether any edge leads down from the thread."""
        return thread in self._shelves.get(CHILDREN, _NOTHING)

    def parent(self, thread: str) -> str | None:
        """The thread that sparked this one."""
        edge = self.get(Parent, thread)
        return edge.thread if edge else None

    def open_dispatches(self, thread: str) -> int:
        """How many of the thread's dispatches hold a slot of its fan-out."""
        return len(self._open.get(thread, ()))

    def dying(self, thread: str) -> bool:
        """Whether the thread is being terminated, or has been."""
        shelves = self._shelves
        return thread in shelves.get(Tombstone, _NOTHING) or thread in shelves.get(Terminate, _NOTHING)

    @property
    def charter(self) -> Charter:
        """What the job was opened with."""
        return self.need(Charter, "")

    # ---- changing ----------------------------------------------------------------------------

    def after(self, consumed: Iterable[Molecule], produced: Iterable[Molecule]) -> Soup:
        """The soup in which `consumed` are gone and `produced` are there; this one stays as it is."""
        other = Soup()
        other._bag = self._bag.copy()
        other._shelves = {
            kind: {thread: shelf.copy() for thread, shelf in shelves.items()}
            for kind, shelves in self._shelves.items()
        }
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

    def _add(self, molecule: Molecule) -> None:
        count = self._bag.get(molecule, 0)
        self._bag[molecule] = count + 1
        if stirs(molecule):
            self.stirring += 1
        if count:
            return
        for kind, thread in keys(molecule):
            shelves = self._shelves.get(kind)
            if shelves is None:
                shelves = self._shelves[kind] = {}
            shelf = shelves.get(thread)
            if shelf is None:
                shelves[thread] = {molecule: None}
            else:
                shelf[molecule] = None
        if isinstance(molecule, Parent):
            if thread_kind(molecule.child) == "dispatch" and not self.dying(molecule.child):
                self._open.setdefault(molecule.thread, {})[molecule.child] = None
        elif isinstance(molecule, Terminate | Tombstone):
            self._close(molecule.thread)

    def _remove(self, molecule: Molecule) -> None:
        count = self._bag.get(molecule, 0)
        if not count:
            message = f"not in the soup: {molecule!r}"
            raise Disabled(message)
        if stirs(molecule):
            self.stirring -= 1
        if count > 1:
            self._bag[molecule] = count - 1
            return
        del self._bag[molecule]
        for kind, thread in keys(molecule):
            shelves = self._shelves[kind]
            shelf = shelves[thread]
            del shelf[molecule]
            if not shelf:
                del shelves[thread]
        if isinstance(molecule, Parent):
            self._unlink(molecule.thread, molecule.child)

    def _close(self, thread: str) -> None:
        parent = self.parent(thread)
        if parent is not None:
            self._unlink(parent, thread)

    def _unlink(self, parent: str, child: str) -> None:
        slots = self._open.get(parent)
        if slots is not None:
            slots.pop(child, None)
            if not slots:
                del self._open[parent]
