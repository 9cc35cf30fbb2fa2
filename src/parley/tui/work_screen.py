"""What was said and done in a job: its messages, and the tool calls of its agents with their results, as they come."""

from __future__ import annotations

import time
from collections.abc import Iterable

from parley.base.wording import count
from parley.engine.values.message_meta import Intervened, Put, Replied, Requested
from parley.protocol.molecules import HUMAN, thread_kind
from parley.tui.pages import Line, Page, PageScreen
from parley.tui.screen import clean
from parley.views.history.chronicle import Follower, LogEvent, concerns, headline
from parley.views.repository_context import JobContext
from parley.views.work import WorkEvent, WorkFollower, WorkKind

MESSAGES, STEPS = 5_000, 50_000  # of a job's last ones that are shown
CUT = 64 * 1024  # characters of one message
WORK_BYTES = 1 << 20  # of each stream's end
RESULT_LINES, RESULT_COLUMNS = 8, 300  # of a tool's result, unless it is shown in full


class WorkScreen(PageScreen):
    """What was said and done in a job, all or in one thread; what is new is added at the end."""

    def __init__(self, at: JobContext, thread: str = "", name: str = "") -> None:
        self._job, self._thread = at, thread
        self._names = {"": at.id} | ({thread: name} if thread else {})  # the threads, in the order of their messages
        self._with_tools, self._in_full = True, False
        self._begin()

    def _begin(self) -> None:
        store, job = self._job.context.store, self._job.id
        last = store.load(job).transaction
        steps, messages = (last.steps, last.messages) if last else (0, 0)
        self._follower = Follower(store, job, step=max(0, steps - STEPS), message=max(0, messages - MESSAGES))
        context = self._job.context
        self._work = WorkFollower(
            context.files.home(job), thread=self._thread, last_bytes=WORK_BYTES, redact=context.redact
        )
        self._last = ("", "")  # the use whose beginning is the last line, by turn and use
        earlier = f"parley log {job} --work"
        super().__init__(Page(f"work of {self._names[self._thread]}", at_end=True, earlier=earlier))
        if messages > MESSAGES:
            self._page.add([(f"earlier messages: parley log {job}", "dim"), ("", "")])
        self.read()
        if self._work.left_out and self._with_tools:
            self._page.put_first((f"earlier tool calls: {earlier}", "dim"))

    def read(self) -> None:
        """Add what is new, in the order in which it happened."""
        new: list[tuple[float, Iterable[Line]]] = []
        for event in self._follower.read():
            if event.kind == "message" and thread_kind(event.thread) in ("state", "dispatch"):
                self._names.setdefault(event.thread, event.to)
            if self._thread in (event.thread, event.sender_thread) or (not self._thread and concerns(event)):
                new.append((event.time, _told(event)))
        if self._with_tools:
            new += [(event.time, self._did(event)) for event in self._work.read()]
        for _, lines in sorted(new, key=lambda one: one[0]):
            self._page.add(lines)

    def _did(self, event: WorkEvent) -> Iterable[Line]:
        """What an agent did, as it is shown: a tool's use when it begins, its result below when it is over."""
        moment = time.strftime("%H:%M:%S", time.localtime(event.time))
        which, last = (event.turn, event.use), self._last
        self._last = which if event.kind is WorkKind.USE else ("", "")
        head = f"{moment}  {clean(event.agent)}: "
        if event.kind is WorkKind.SAYS:
            yield f"{head}{clean(event.words)}", "dim"
        elif event.kind is WorkKind.WAITS:
            yield f"{head}waits: {clean(event.words)}", "yellow"
        elif event.kind is WorkKind.CUT:
            yield f"{head}more than is kept of a turn's work; nothing of what came later", "yellow"
        elif event.kind is WorkKind.USE or (event.kind is WorkKind.RESULT and which != last):
            yield f"{head}{clean(f'{event.tool} {event.words}')}", "cyan"
        if event.kind is WorkKind.RESULT:
            took = f" ({event.seconds:.1f} s)" if event.seconds is not None else ""
            mark = "failed: " if event.failed else ""
            lines = self._shown(f"{mark}{event.result or 'done'}".splitlines())
            lines[-1] += took
            yield from ((f"            {line}", "red" if event.failed else "dim") for line in lines)

    def _shown(self, lines: list[str]) -> list[str]:
        """The lines of a result, or its beginning with what is left out of it."""
        if self._in_full:
            return lines
        shown = [line if len(line) <= RESULT_COLUMNS else f"{line[:RESULT_COLUMNS]}…" for line in lines[:RESULT_LINES]]
        if shown != lines:
            left = count(len(lines) - RESULT_LINES, "more line") if len(lines) > RESULT_LINES else "more"
            shown[-1] += f" … {left}: f shows all"
        return shown

    def press(self, key: str) -> bool:
        """Scroll, go to the next thread, ended ones too, leave tool calls out, or show their results in full."""
        if key == "tab":
            order = list(self._names)
            self._thread = order[(order.index(self._thread) + 1) % len(order)]
        elif key == "w":
            self._with_tools = not self._with_tools
        elif key == "f" and self._with_tools:
            self._in_full = not self._in_full
        else:
            return super().press(key)
        before = self._page
        self._begin()
        if key != "tab":
            self._page.stay_near(before)
        return True

    def keys(self) -> list[str]:
        """The keys."""
        tools = ["w without tools", "f short results" if self._in_full else "f full results"]
        return [*super().keys(), "Tab next thread", *(tools if self._with_tools else ["w with tools"])]


def _told(event: LogEvent) -> Iterable[Line]:
    moment = time.strftime("%H:%M:%S", time.localtime(event.time))
    if event.kind != "message":
        yield f"{moment}  {clean(headline(event, 400))}", "bold cyan" if event.kind == "transition" else "red"
        yield "", ""
        return
    head, body = _said(event)
    yield f"{moment}  {clean(head)}", "bold yellow" if HUMAN in (event.who, event.to) else "bold"
    for line in body[:CUT].splitlines():
        yield f"  {line}", ""
    if len(body) > CUT:
        yield "  … cut; `parley log` has all of it", "dim"
    yield "", ""


def _said(event: LogEvent) -> tuple[str, str]:
    """The speaker and recipient, and the text without the protocol's marks."""
    match event.meta:
        case Put(asker=asker):
            return f"{asker} asks you", event.text
        case Requested():
            return "the request", event.text
        case Intervened(by=by, text=text):
            return f"{by} intervenes", text
        case Replied(by=by, ruling=ruling, text=text):
            return f"{by}{f': {ruling}' if ruling else ' answers'}", text
        case _:
            return f"{event.who} → {event.to}", event.text
