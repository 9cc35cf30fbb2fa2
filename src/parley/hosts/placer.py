"""Starts and cancels the workflows of turns, from a thread of its own: no caller ever waits for Temporal."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.service import RPCError

from parley.hosts.temporal_link import NoTemporal, TemporalAddress, connect
from parley.hosts.turn_workflow import WORKFLOW, TurnIds, placing_queue

CALL_SECONDS = 10.0  # that one call to Temporal may take
LONGEST_TASK_SECONDS = 10.0  # that a host may take for a step of a workflow; after it another does it


class Placer:
    """What was asked for and could not be done is dropped: the coordinator asks again for a turn that stays open."""

    def __init__(self, address: TemporalAddress) -> None:
        self._address = address
        self._client: Client | None = None
        self._loop = asyncio.new_event_loop()
        self._connecting: asyncio.Lock | None = None
        self._thread = threading.Thread(target=self._run, name="parley-placer", daemon=True)
        self._thread.start()
        self.trouble = ""  # why turns can't be placed at the moment; empty: they can

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._connecting = asyncio.Lock()
        self._loop.run_forever()

    def place(self, ids: TurnIds, *, anew: bool = False) -> None:
        """Have a turn placed. Where its workflow runs already, nothing happens; `anew`: that one is ended."""
        self._do(self._start(ids, anew=anew))

    def cancel(self, ids: TurnIds) -> None:
        """Tell its host by Temporal that a turn is cancelled: a hint, after it is so on the board."""
        self._do(self._cancel(ids))

    def close(self) -> None:
        """End the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        with contextlib.suppress(RuntimeError):
            self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    def _do(self, what: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(self._guarded(what), self._loop)

    async def _guarded(self, what: Coroutine[Any, Any, None]) -> None:
        try:
            await asyncio.wait_for(what, CALL_SECONDS)
            self.trouble = ""
        except NoTemporal as error:
            self.trouble = str(error)
        except (RPCError, RuntimeError, TimeoutError, OSError):
            self.trouble = f"Temporal does not answer at {self._address.address}"

    async def _connected(self) -> Client:
        assert self._connecting is not None  # noqa: S101 - made before the loop runs anything
        async with self._connecting:
            if self._client is None:
                self._client = await connect(self._address)
            return self._client

    async def _start(self, ids: TurnIds, *, anew: bool) -> None:
        client = await self._connected()
        await client.start_workflow(
            WORKFLOW,
            ids,
            id=ids.workflow_id,
            task_queue=placing_queue(ids.bus),
            id_conflict_policy=(
                WorkflowIDConflictPolicy.TERMINATE_EXISTING if anew else WorkflowIDConflictPolicy.USE_EXISTING
            ),
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            task_timeout=timedelta(seconds=min(LONGEST_TASK_SECONDS, ids.lost_seconds)),
            rpc_timeout=timedelta(seconds=CALL_SECONDS),
        )

    async def _cancel(self, ids: TurnIds) -> None:
        client = await self._connected()
        with contextlib.suppress(RPCError):  # it is over, or Temporal has forgotten it
            await client.get_workflow_handle(ids.workflow_id).cancel(rpc_timeout=timedelta(seconds=CALL_SECONDS))
