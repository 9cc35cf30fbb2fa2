"""The engines of one home: one for each version of the settings with which jobs were taken over."""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType
from typing import NamedTuple, Self

from parley.cli.common import Workplace
from parley.cli.running.bootstrap import engine_of
from parley.engine.loop import Engine
from parley.settings.schema import Settings


class _Open(NamedTuple):
    settings: Settings
    engine: Engine
    held: ExitStack


class HomeEngines:
    """Makes an engine where jobs need one: a job goes on with the settings that were checked for it."""

    def __init__(self, place: Workplace) -> None:
        self._place = place
        self._open: list[_Open] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close all of them: no process of a turn is left."""
        all_of_them = ExitStack()
        for one in self._open:
            all_of_them.push(one.held)
        self._open = []
        all_of_them.__exit__(kind, error, trace)  # each of them hears what has ended it

    def of(self, settings: Settings) -> Engine:
        """The engine with these settings, made if there is none."""
        for one in self._open:
            if one.settings == settings:
                return one.engine
        held = ExitStack()
        engine = held.enter_context(engine_of(self._place, settings))
        self._open.append(_Open(settings, engine, held))
        return engine

    def in_use(self) -> list[Engine]:
        """All engines."""
        return [one.engine for one in self._open]

    def close_idle(self) -> None:
        """Close the engines that run no job."""
        for one in [one for one in self._open if not one.engine.jobs]:
            self._open.remove(one)
            one.held.close()
