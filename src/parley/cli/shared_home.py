"""Jobs' files, repositories and the memory of a home: this machine's own, or shared where its bus is on a server.

Light: what only a shared home needs is imported where there is one.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from parley.bus.key_files import Key
from parley.cli import home_bus
from parley.cli.common import Workplace, own_settings
from parley.features.proxy.decision_store import SqliteDecisions
from parley.features.proxy.decision_store import place as memory_of
from parley.features.proxy.decision_store_check import VARIABLE as MEMORY_VARIABLE
from parley.machine.job_files import JobFiles
from parley.settings import load
from parley.settings.schema import Settings, WorkspaceSettings
from parley.workspaces import JobWorkspaces
from parley.workspaces.checkout.source_repository import find_source

if TYPE_CHECKING:
    from parley.bus.store import HomeStore
    from parley.features.proxy.decision_recall import RecalledDecisions
    from parley.hosts.mirror.git_remote import Remote
    from parley.hosts.shared.file_table import FileTable
    from parley.hosts.shared.published_jobs import PublishedJobs

_FETCHED_BYTES = 8 << 30  # of one shipment, beyond the job's quota: the history that it began with


def job_files(home: Path) -> JobFiles:
    """The files of a home's jobs, to be looked at."""
    key = home_bus.on_server(home)
    if key is None:
        return JobFiles(home)
    files: JobFiles = _shared("shared_files").SharedFiles(home, _table(home, key), key.id)
    return files


def workspaces(
    home: Path, root: Path | None = None, settings: WorkspaceSettings | None = None, **more: Any
) -> JobWorkspaces:
    """The workspaces of a home's jobs, to be looked at, or for their results to be merged."""
    key = home_bus.on_server(home)
    remote = configured_remote() if key is not None else None
    if key is None or remote is None:
        return JobWorkspaces(home, root, settings, **more)
    trees = _shared("shared_workspaces").SharedWorkspaces(home, root, settings, **more)
    trees.published = _published(home, root, key, remote, _table(home, key), trees, settings or WorkspaceSettings())
    made: JobWorkspaces = trees
    return made


def decisions(home: Path) -> RecalledDecisions:
    """The user's memory: on the server of the home's bus, unless the user names a file."""
    key = home_bus.on_server(home) if not os.environ.get(MEMORY_VARIABLE) else None
    if key is None:
        return SqliteDecisions(memory_of(os.environ))
    module = import_module("parley.features.proxy.postgres_decisions")
    made: RecalledDecisions = module.PostgresDecisions(home_bus.address_of(key.server))
    return made


def configured_remote() -> Remote | None:
    """The git remote that the user's own settings name for jobs' files; None: there is none."""
    hosts = load.read_own(own_settings(), notify=False).hosts
    return (
        import_module("parley.hosts.mirror.git_remote").Remote(hosts.remote, hosts.remote_ca) if hosts.remote else None
    )


def moving_words(remote: str | None) -> str:
    """Whether another host can go on with jobs, for people; `remote`: the git remote that has their files."""
    if remote:
        return f"jobs can go on on another host: their files are on {remote}"
    return "jobs stay on the host that runs them: your own settings name no git remote for their files ([hosts] remote)"


def forget_remote(home: Path, job: str) -> None:
    """Delete all that the remote has of a job: for the next coordinator, and of its turns on other hosts."""
    key = home_bus.on_server(home)
    remote = configured_remote() if key is not None else None
    if key is not None and remote is not None:
        import_module("parley.hosts.mirror.job_refs").delete_refs(home, remote, key.id, job)
        _table(home, key).publish(job, "")


class EngineParts(NamedTuple):
    """What an engine has of a home."""

    store: HomeStore
    files: JobFiles
    trees: JobWorkspaces


def engine_parts(
    place: Workplace, bus: HomeStore, settings: Settings, relieve: Callable[[], None], held: ExitStack, **more: Any
) -> EngineParts:
    """The store, the files and the workspaces of an engine; `more` is for the workspaces."""
    key = home_bus.on_server(place.home)
    if key is None:
        trees = JobWorkspaces(place.home, place.root, settings.workspace, **more)
        return EngineParts(bus, JobFiles(place.home, relieve), trees)
    address = home_bus.address_of(key.server)
    owner: str = getattr(bus, "owner")  # noqa: B009 - only a store on a server has it
    table = _shared("file_table").FileTable(key, address, f"{place.home} on {key.server}", owner)
    held.callback(table.close)
    files = _shared("shared_files").SharedFiles(place.home, table, key.id, relieve)
    shared = _shared("shared_workspaces").SharedWorkspaces(place.home, place.root, settings.workspace, **more)
    remote = configured_remote()
    if remote is not None:
        mark = more.get("mark")
        shared.published = _published(
            place.home, place.root, key, remote, table, shared, settings.workspace, **({"mark": mark} if mark else {})
        )
    store = _shared("shared_store").SharedStore(bus, files, shared.published, shared.forget)
    held.callback(store.let_go)
    return EngineParts(store, files, shared)


def _published(
    home: Path,
    root: Path | None,
    key: Key,
    remote: Remote,
    table: FileTable,
    trees: Any,
    settings: WorkspaceSettings,
    **more: Any,
) -> PublishedJobs:
    def form() -> str:
        source = find_source(root) if root is not None else None
        return source.object_format if source is not None else "sha1"

    quota = settings.quota_mb << 20
    allowed = import_module("parley.hosts.mirror.folder_packing").Allowed(quota, settings.files)
    made: PublishedJobs = _shared("published_jobs").PublishedJobs(
        home,
        remote,
        key,
        table,
        repository=trees.own_repository,
        allowed=allowed,
        most_bytes=quota + _FETCHED_BYTES,
        form=form,
        tell=lambda line: print(f"parley: {line}", file=sys.stderr, flush=True),
        **more,
    )
    return made


def _shared(module: str) -> Any:
    return import_module(f"parley.hosts.shared.{module}")


@cache
def _table(home: Path, key: Key) -> FileTable:
    """The table that a home's faces read: one connection for a process."""
    made: FileTable = _shared("file_table").FileTable(key, home_bus.address_of(key.server), f"{home} on {key.server}")
    atexit.register(made.close)
    return made
