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


def keys(molecule: Molecule) -> tuple[Key, ...]:
    """Where the soup files a molecule: by its kind and thread, and by whatever else it is looked up by."""
    kind = type(molecule)
    if kind is Parent:
        edge = cast("Parent", molecule)
        return (Parent, edge.child), ("children", edge.thread)
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
    return kind in (Run, Send, AskQuestion, Proxy, AskHuman, Interrupt, Terminate)


class Soup:
    """A multiset of molecules."""

    __slots__ = ("_bag", "_filed", "_hash", "_open", "stirring")

    def __init__(self, molecules: Iterable[Molecule] = ()) -> None:
        self._bag: dict[Molecule, int] = {}
        self._filed: dict[Key, dict[Molecule, None]] = {}
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
        return cast("tuple[M, ...]", tuple(self._filed.get((kind, thread), ())))

    def of(self, kind: type[M]) -> tuple[M, ...]:
        """Every molecule of a kind. Looks at the whole soup: not for use inside a rule."""
        return cast("tuple[M, ...]", tuple(m for m in self._bag if type(m) is kind))

    def get(self, kind: type[M], thread: str, agent: str | None = None) -> M | None:
        """The molecule of a kind on a thread, of that agent if one is named."""
        for molecule in self._filed.get((kind, thread), ()):
            if agent is None or cast("Any", molecule).agent == agent:
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
        edges = cast("dict[Parent, None]", self._filed.get(("children", thread), {}))
        return tuple(edge.child for edge in edges)

    def has_children(self, thread: str) -> bool:
        """Whether any edge leads down from the thread."""
        return bool(self._filed.get(("children", thread)))

    def parent(self, thread: str) -> str | None:
        """The thread that sparked this one."""
        edge = self.get(Parent, thread)
        return edge.thread if edge else None

    def open_dispatches(self, thread: str) -> int:
        """How many of the thread's dispatches hold a slot of its fan-out."""
        return len(self._open.get(thread, ()))

    def dying(self, thread: str) -> bool:
        """Whether the thread is being terminated, or has been."""
        return (Terminate, thread) in self._filed or (Tombstone, thread) in self._filed

    @property
    def charter(self) -> Charter:
        """What the job was opened with."""
        return self.need(Charter, "")

    # ---- changing ----------------------------------------------------------------------------

    def after(self, consumed: Iterable[Molecule], produced: Iterable[Molecule]) -> Soup:
        """The soup in which `consumed` are gone and `produced` are there; this one stays as it is."""
        other = Soup()
        other._bag = self._bag.copy()
        other._filed = {key: filed.copy() for key, filed in self._filed.items()}
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
        filed = self._filed
        for key in keys(molecule):
            shelf = filed.get(key)
            if shelf is None:
                filed[key] = {molecule: None}
            else:
                shelf[molecule] = None
        kind = type(molecule)
        if kind is Parent:
            edge = cast("Parent", molecule)
            if thread_kind(edge.child) == "dispatch" and not self.dying(edge.child):
                self._open.setdefault(edge.thread, {})[edge.child] = None
        elif kind is Terminate or kind is Tombstone:
            self._close(cast("Terminate | Tombstone", molecule).thread)

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
        for key in keys(molecule):
            shelf = self._filed[key]
            del shelf[molecule]
            if not shelf:
                del self._filed[key]
        if type(molecule) is Parent:
            self._open.get(molecule.thread, {}).pop(molecule.child, None)

    def _close(self, thread: str) -> None:
        parent = self.parent(thread)
        if parent is not None:
            self._open.get(parent, {}).pop(thread, None)
