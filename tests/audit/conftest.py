"""Each job is played once; what a test does to it, it does to a copy."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from parley.audit.export import Exported, export, load_export, write_export
from tests.audit.played_jobs import PLAYS, RecordedHome


@dataclass(frozen=True)
class Kept:
    """A job that was played: where its home is, what its anchor said, and its export."""

    job: str
    home: Path
    state: str | None
    exported: Path

    def load(self) -> Exported:
        return load_export(self.exported)


def perform(name: str, kind: str, home: Path) -> Kept:
    theatre = RecordedHome(home, kind)
    job = PLAYS[name](theatre)
    path = home.with_suffix(".jsonl")
    write_export(path, export(theatre.store, home / "jobs" / job, job))
    state = theatre.state(job)
    theatre.close()
    return Kept(job, home, state, path)


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Kept]:
    """Every play, on the embedded bus."""
    folder = tmp_path_factory.mktemp("records")
    return {name: perform(name, "sqlite", folder / name) for name in PLAYS}


@pytest.fixture(params=["sqlite", "memory"])
def theatre(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RecordedHome]:
    theatre = RecordedHome(tmp_path / "home", request.param)
    yield theatre
    theatre.close()
