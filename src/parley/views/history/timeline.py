"""Who worked when, as rows and segments for drawing: turns, waits, stalls, pauses, and questions to the human.

The rows are paged, and for a width in pixels segments that could not be told apart are merged: a drawing's size
depends on what is seen of it, not on how long the job is.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from parley.protocol.molecules import job_thread
from parley.views.history import held_times
from parley.views.history.held_times import HeldTime
from parley.views.history.job_index import JobIndex, PastThread

ROWS = 60
WIDTH = 1000
WORKING = "working"
_KINDS = (WORKING, held_times.WAITS, held_times.STALLED, held_times.ASKS, held_times.PAUSED, held_times.BUDGET)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A time of one kind. `count`: how many were merged into it, where one alone would be too small to see."""

    kind: str  # working, waits, stalled, asks, paused, budget, stuck
    began: float
    ended: float
    open: bool = False  # it still lasts
    count: int = 1
    how: str = ""  # a turn's end: ended, lost, abandoned, terminated
    turn: str = ""
    words: str = ""
    host: str = ""  # where a turn runs or ran, if that is one other host


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineRow:
    """One thread."""

    thread: str
    agent: str
    depth: int
    began: float
    ended: float  # up to now where it is still there
    open: bool
    worked: float  # seconds in turns
    hosts: tuple[str, ...]  # the other hosts on which its turns ran
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A moment that all rows share: a transition of the job's."""

    time: float
    before: str
    after: str
    backtrack: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Some rows of a job's timeline."""

    began: float
    ended: float
    rows: tuple[TimelineRow, ...]
    whole: tuple[Segment, ...] = ()  # what held all rows: pauses and spent budgets
    marks: tuple[Mark, ...] = ()
    first: int = 0  # which row is the first of these
    total: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineView:
    """What is seen: which rows, which time, how many pixels wide."""

    first: int = 0
    rows: int = ROWS
    width: int = WIDTH
    began: float = 0.0  # 0: from the job's beginning
    ended: float = 0.0  # 0: to now
    code: frozenset[str] = frozenset()  # agents whose turns are code, and take no time: left out where they have no row


def timeline(index: JobIndex, now: float, view: TimelineView | None = None) -> Timeline:
    """The rows of a job in tree order, as far as they are in view. What still lasts ends now."""
    view = view or TimelineView()
    ordered = [(depth, one) for depth, one in in_tree_order(index.threads()) if one.agent not in view.code]
    threads = [one for _, one in ordered]
    began = view.began or min((one.begun for one in threads), default=now)
    ended = max(view.ended or now, began)
    held: dict[str, list[HeldTime]] = {}
    for one in index.held_times():
        held.setdefault(one.thread, []).append(one)
    pixel = max((ended - began) / max(1, view.width), 1e-9)
    first = max(0, min(view.first, len(ordered)))
    shown = ordered[first : first + max(0, view.rows)]
    running = index.hosts_now() if any(not turn.ended for one in threads for turn in index.turns_of(one.id)) else {}
    whole = [_held(one, now) for one in held.get(job_thread(index.job), ()) if one.kind != held_times.ASKS]
    return Timeline(
        began=began,
        ended=ended,
        rows=tuple(
            _row(index, one, depth, held.get(one.id, ()), (began, ended, pixel), now, running) for depth, one in shown
        ),
        whole=tuple(merged(whole, began, ended, pixel)),
        marks=tuple(
            Mark(time=one.time, before=one.before, after=one.after, backtrack=one.action in ("REALIGN", "REPLAN"))
            for one in index.transitions
            if one.record == index.job and began <= one.time <= ended
        ),
        first=first,
        total=len(ordered),
    )


def in_tree_order(threads: Iterable[PastThread]) -> list[tuple[int, PastThread]]:
    """Threads in the order of the dispatch tree, each with its depth, children in the order in which they came."""
    everyone = {one.id: one for one in threads}
    below: dict[str, list[PastThread]] = {}
    for one in everyone.values():
        below.setdefault(one.parent if one.parent in everyone else "", []).append(one)
    found: list[tuple[int, PastThread]] = []
    waiting = [(0, one) for one in reversed(below.get("", []))]
    while waiting:
        depth, one = waiting.pop()
        found.append((depth, one))
        waiting.extend((depth + 1, child) for child in reversed(below.get(one.id, [])))
    return found


def _row(
    index: JobIndex,
    thread: PastThread,
    depth: int,
    held: Sequence[HeldTime],
    window: tuple[float, float, float],
    now: float,
    running: Mapping[str, str],
) -> TimelineRow:
    turns = [
        Segment(
            kind=WORKING,
            began=turn.began,
            ended=turn.ended or now,
            open=not turn.ended,
            how=turn.how,
            turn=turn.turn,
            words=turn.fault,
            host=turn.host or running.get(turn.turn, ""),
        )
        for turn in index.turns_of(thread.id)
    ]
    began, ended, pixel = window
    segments = merged(turns, began, ended, pixel) + merged([_held(one, now) for one in held], began, ended, pixel)
    return TimelineRow(
        thread=thread.id,
        agent=thread.agent,
        depth=depth,
        began=thread.begun,
        ended=thread.ended or now,
        open=not thread.ended,
        worked=sum(max(0.0, one.ended - one.began) for one in turns),
        hosts=tuple(sorted({one.host for one in turns if one.host})),
        segments=tuple(sorted(segments, key=lambda one: (one.began, _place(one.kind)))),
    )


def _place(kind: str) -> int:
    """What is drawn over what: work lies below all else."""
    return _KINDS.index(kind) if kind in _KINDS else len(_KINDS)


def _held(one: HeldTime, now: float) -> Segment:
    return Segment(
        kind=one.kind,
        began=one.began,
        ended=one.ended or max(now, one.began),
        open=not one.ended,
        words=one.words or one.question,
    )


def merged(segments: Sequence[Segment], began: float, ended: float, pixel: float) -> list[Segment]:
    """The segments in a window, cut to it; those of one kind that are nearer to each other than a pixel are one."""
    found: dict[str, list[Segment]] = {}
    for one in sorted(segments, key=lambda one: one.began):
        if one.ended < began or one.began > ended:
            continue
        seen = replace(one, began=max(one.began, began), ended=min(max(one.ended, one.began), ended))
        row = found.setdefault(one.kind, [])
        if row and seen.began - row[-1].ended < pixel and _is_tiny(row[-1], seen, pixel):
            row[-1] = _joined(row[-1], seen)
        else:
            row.append(seen)
    return [one for row in found.values() for one in row]


def _is_tiny(one: Segment, other: Segment, pixel: float) -> bool:
    """Whether one of two neighbours is too small to be drawn by itself, or is a mix already."""
    return min(one.ended - one.began, other.ended - other.began) < pixel or one.count > 1


def _joined(one: Segment, other: Segment) -> Segment:
    count = one.count + other.count
    return Segment(
        kind=one.kind,
        began=one.began,
        ended=max(one.ended, other.ended),
        open=one.open or other.open,
        count=count,
        how="lost" if "lost" in (one.how, other.how) else other.how,
        turn=other.turn,
        words=f"{count} times",
        host=one.host if one.host == other.host else "",
    )


def row_of(index: JobIndex, thread: str, code: frozenset[str] = frozenset()) -> int:
    """Which row a thread has, so that a page can show it; -1: none."""
    names = [one.id for _, one in in_tree_order(index.threads()) if one.agent not in code]
    return names.index(thread) if thread in names else -1


def ticks(began: float, ended: float, most: int = 8) -> list[float]:
    """Round moments between two, at most so many, for an axis."""
    steps = (1, 5, 10, 30, 60, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400, 604800)
    least = max(0.0, ended - began) / max(1, most)
    step = steps[min(bisect_left(steps, least), len(steps) - 1)]
    first = int(began // step + 1) * step
    return [float(moment) for moment in range(first, int(ended) + 1, step)][:most]
