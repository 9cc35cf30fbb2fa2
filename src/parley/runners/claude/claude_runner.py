"""The runner of Claude Code: one event loop in a thread of its own, and a few processes kept ready."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from parley.base.text import cut
from parley.ports.turns import Bind, BoundaryError, Judge, Order, TurnEvent, unjudged
from parley.runners.claude.agent_home import AgentHome, InterruptedMessage
from parley.runners.claude.claude_program import ClaudeProgram
from parley.runners.claude.claude_turn import ClaudeTurn
from parley.runners.claude.instance import Instance, InstanceConfig
from parley.runners.claude.login import Login
from parley.runners.claude.session_handle import SessionHandle
from parley.runners.claude.system_prompt import RolePrompt, bare_prompt
from parley.runners.claude.turn_results import Fault
from parley.sandbox import Boundary
from parley.settings.schema import ClaudeSettings

LOOK_SECONDS = 5.0  # between two looks for idle processes
END_SECONDS = 30.0  # that the event loop gets to end a turn, or all of them

Key = tuple[str, str, str]  # job, agent, thread
T = TypeVar("T")


@dataclass(slots=True)
class _Running:
    """A turn under way, the instance that it runs on, and the task that runs it."""

    turn: ClaudeTurn
    instance: Instance
    task: asyncio.Task[None]


class ClaudeRunner:
    """Runs turns of Claude Code."""

    def __init__(
        self,
        settings: ClaudeSettings,
        boundary: Boundary,
        program: ClaudeProgram,
        login: Callable[[], Login | None],
        *,
        prompt: RolePrompt = bare_prompt,
        binds: Callable[[Order], tuple[Bind, ...]] = lambda _: (),
        judge: Judge = unjudged,
        idle_seconds: float = 600.0,
    ) -> None:
        self._config = InstanceConfig(settings, boundary, program, login, prompt=prompt, binds=binds, judge=judge)
        self._warm = settings.warm
        self._idle_seconds = idle_seconds
        self._instances: dict[Key, Instance] = {}
        self._running: dict[tuple[str, str], _Running] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="parley-claude", daemon=True)
        self._thread.start()
        self._closed = False
        self._looking = asyncio.run_coroutine_threadsafe(self._end_idle(), self._loop)

    # ---- the port --------------------------------------------------------------------------------

    def start(self, order: Order, tell: Callable[[TurnEvent], None]) -> None:
        """Begin a turn."""
        turn = ClaudeTurn(order, tell)

        def begin() -> None:
            key = (order.job, order.agent, order.thread)
            instance = self._instances.setdefault(key, Instance(self._config))
            task = self._loop.create_task(self._run(instance, turn))
            self._running[order.job, order.turn] = _Running(turn, instance, task)

        self._loop.call_soon_threadsafe(begin)

    def reply(self, job: str, turn: str, number: int, ok: bool, text: str, data: Mapping[str, Any]) -> None:
        """Answer a call."""

        def answer() -> None:
            running = self._running.get((job, turn))
            if running is not None:
                running.turn.answer(number, ok, text)

        self._loop.call_soon_threadsafe(answer)

    def cancel(self, job: str, turn: str) -> None:
        """End a turn and all its processes."""
        self._do(self._cancel(job, turn))

    def wrap_up(self, job: str, turn: str) -> bool:
        """Tell the agent, after its next tool calls, that its time is over."""

        def ask() -> None:
            if (running := self._running.get((job, turn))) is not None:
                running.turn.wrapping = True

        self._loop.call_soon_threadsafe(ask)
        return True

    def stop(self, job: str, turn: str) -> bool:
        """End a turn at once: its session is kept as far as it was written."""

        def end() -> None:
            if (running := self._running.get((job, turn))) is not None:
                ending = self._loop.create_task(running.instance.stop(running.turn, running.task))
                self._ending.add(ending)
                ending.add_done_callback(self._ending.discard)

        self._loop.call_soon_threadsafe(end)
        return True

    def rest(self, job: str) -> None:
        """End what is kept ready of a job."""
        self._do(self._rest(lambda key: key[0] == job))

    def close(self) -> None:
        """End everything, the thread too."""
        if self._closed:
            return
        self._closed = True
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(END_SECONDS)
        self._loop.close()

    def _do(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(END_SECONDS)

    # ---- on the loop -----------------------------------------------------------------------------

    async def _run(self, instance: Instance, turn: ClaudeTurn) -> None:
        order = turn.order
        ended = None
        try:
            async with instance.lock:
                await self._make_room(instance)
                ended = await instance.run(turn)
        except asyncio.CancelledError:
            await instance.end()
            raise
        except Exception as error:  # noqa: BLE001 - a fault of ours must end the turn, not leave it silent
            turn.finish()
            await instance.end()
            said = cut(" ".join(str(error).split()), 300)
            ended = turn.ended(fault=Fault(f"the runner failed: {type(error).__name__}: {said}"))
        finally:
            if not turn.silent:
                self._running.pop((order.job, order.turn), None)
        if ended is not None:
            turn.tell(ended)
        await self._make_room()

    async def _make_room(self, wanted: Instance | None = None) -> None:
        """End the processes that were idle longest, where more are kept ready than allowed."""
        waiting = sorted(
            (one for one in self._instances.values() if one.alive and one is not wanted and not one.lock.locked()),
            key=lambda one: one.used,
        )
        alive = sum(one.alive for one in self._instances.values()) + (wanted is not None and not wanted.alive)
        for one in waiting[: max(0, alive - self._warm)]:
            if not one.lock.locked():
                async with one.lock:
                    await one.end()

    async def _cancel(self, job: str, name: str) -> None:
        running = self._running.pop((job, name), None)
        if running is None:
            return
        turn, instance, task = running.turn, running.instance, running.task
        turn.silence()
        order = turn.order
        await asyncio.to_thread(
            AgentHome(order.home).note_interrupted,
            SessionHandle.of(order).document(),
            InterruptedMessage(order.message_id, order.addressed),
        )
        if not await instance.interrupt(task):
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    async def _rest(self, which: Callable[[Key], bool]) -> None:
        for key in [key for key in self._instances if which(key)]:
            instance = self._instances[key]
            if not instance.lock.locked():
                del self._instances[key]
                await instance.end()

    async def _end_idle(self) -> None:
        """End processes that were idle for too long."""
        while True:
            await asyncio.sleep(min(LOOK_SECONDS, self._idle_seconds))
            before = time.monotonic() - self._idle_seconds
            for key, instance in list(self._instances.items()):
                if not instance.lock.locked() and instance.used < before:
                    del self._instances[key]
                    with contextlib.suppress(BoundaryError):
                        await instance.end()

    async def _close(self) -> None:
        self._looking.cancel()
        for job, name in list(self._running):
            await self._cancel(job, name)
        await self._rest(lambda _: True)
        await self._loop.shutdown_asyncgens()
        await self._loop.shutdown_default_executor()
