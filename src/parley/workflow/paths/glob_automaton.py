"""Matches and intersects patterns with gaps (`*`, `**`): what fits one, and whether anything fits two.

A row is a sequence of items, in which `GAP` stands for any run of things, also for none. A name with `*` is such a row
of characters, a path with `**` is such a row of names: both are decided here, in the same way.

Where one may stand in a row is a set of places, kept as the bits of a number. So the cost grows with the product of two
lengths and never faster, for all items.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final, TypeVar

GAP: Final = None

Item = TypeVar("Item", bound=Hashable)
Thing = TypeVar("Thing", bound=Hashable)


def tidy(row: Iterable[Item | None]) -> tuple[Item | None, ...]:
    """The same row with no two gaps side by side."""
    kept: list[Item | None] = []
    for item in row:
        if item is not GAP or not kept or kept[-1] is not GAP:
            kept.append(item)
    return tuple(kept)


def fits(row: Sequence[Item | None], things: Iterable[Thing], takes: Callable[[Item, Thing], bool]) -> bool:
    """Whether the things, one after another, fit into a tidy row."""
    gaps = _gaps(row)
    places = _over(1, gaps)
    taking: dict[Thing, int] = {}
    for thing in things:
        if thing not in taking:
            taking[thing] = _bits(item is not GAP and takes(item, thing) for item in row)
        places = _over((places & taking[thing]) << 1 | places & gaps, gaps)
        if not places:
            return False
    return bool(places >> len(row) & 1)


def meet(
    left: Sequence[Item | None],
    right: Sequence[Item | None],
    common: Callable[[Item, Item], Thing | None],
    some: Callable[[Item], Thing],
) -> list[Thing] | None:
    """Things that fit into both tidy rows, or None if there are none.

    `common` gives a thing that both items take, or None; `some` gives one that an item takes: each takes at least one.
    """
    if _apart(left, right, common) or _apart(left[::-1], right[::-1], common):
        return None
    shared: dict[tuple[Item, Item], Thing | None] = {}

    def both(one: Item, other: Item) -> Thing | None:
        if (one, other) not in shared:
            shared[one, other] = common(one, other)
        return shared[one, other]

    gaps = _gaps(right)
    whole = (1 << len(right) + 1) - 1
    agreeing: dict[Item, int] = {}
    reached = [_over(1, gaps)]  # for each place in the left row: the places in the right one
    for item in left:
        places = reached[-1]
        if item is GAP:
            # From the lowest on all of them: the gap takes all that the right row wants next.
            reached[-1] = places = whole & -(places & -places)
            reached.append(places)
            continue
        if item not in agreeing:
            agreeing[item] = _bits(other is not GAP and both(item, other) is not None for other in right)
        reached.append(_over((places & agreeing[item]) << 1 | places & gaps, gaps))
        if not reached[-1]:
            return None
    if not reached[-1] >> len(right) & 1:
        return None
    return _way_back(left, right, reached, both, some)


def _apart(
    left: Sequence[Item | None], right: Sequence[Item | None], common: Callable[[Item, Item], Thing | None]
) -> bool:
    """Whether what stands before the first gap of either row rules out that they meet: it mostly does."""
    for one, other in zip(left, right, strict=False):
        if one is GAP or other is GAP:
            return False
        if common(one, other) is None:
            return True
    return False


def _way_back(
    left: Sequence[Item | None],
    right: Sequence[Item | None],
    reached: Sequence[int],
    both: Callable[[Item, Item], Thing | None],
    some: Callable[[Item], Thing],
) -> list[Thing]:
    """From the ends of both rows to their beginnings, by places that were reached: the things on that way."""
    things: list[Thing] = []
    i, j = len(left), len(right)
    while i or j:
        one = left[i - 1] if i else GAP
        other = right[j - 1] if j else GAP
        if i and one is GAP and reached[i - 1] >> j & 1:
            i -= 1
        elif j and other is GAP and reached[i] >> j - 1 & 1:
            j -= 1
        elif (
            one is not GAP and other is not GAP and reached[i - 1] >> j - 1 & 1 and (it := both(one, other)) is not None
        ):
            things.append(it)
            i, j = i - 1, j - 1
        elif one is not GAP and j < len(right) and right[j] is GAP and reached[i - 1] >> j & 1:
            things.append(some(one))  # into the gap of the right row, where the way still stands
            i -= 1
        else:
            assert other is not GAP  # noqa: S101 - for mypy: nothing else leads to a place that was reached
            things.append(some(other))
            j -= 1
    return things[::-1]


def _gaps(row: Sequence[Item | None]) -> int:
    return _bits(item is GAP for item in row)


def _bits(flags: Iterable[bool]) -> int:
    return sum(1 << place for place, flag in enumerate(flags) if flag)


def _over(places: int, gaps: int) -> int:
    """The places, and those behind the gaps that may be passed with nothing; no two gaps are side by side."""
    return places | (places & gaps) << 1
