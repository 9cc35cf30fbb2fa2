"""The state of jobs on the git remote: a job's owner publishes it before a commit of the bus names it; others bring it.

A job has one ref there that counts, `refs/parley/BUS/JOB/state`, moved by compare-and-set. An owner moves it once when
it takes the job, so that no earlier owner can move it any more; what that one had published stays, and recovery goes by
what the bus names.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from parley.bus.key_files import Key
from parley.bus.rows import BusError, LostOwnership
from parley.hosts.mirror.folder_packing import Allowed
from parley.hosts.mirror.git_remote import GitRemote, Remote
from parley.hosts.mirror.job_refs import refs_of
from parley.hosts.mirror.mirror_errors import MirrorError, PlaceRefused, PushLost, RemoteTrouble
from parley.hosts.mirror.mirror_repository import MirrorRepository, WhoseGit, object_format
from parley.hosts.shared.file_table import FileTable
from parley.hosts.shared.job_state import JobState, see_repository
from parley.workspaces.job_repository import JobRepository

LOCK = ".owner.lock"
STATE, BUILT = "state", "state-built"  # what counts, and what the next push can build upon
WAIT_SECONDS = 30.0  # for a remote that is down, before the job is left alone
PAUSE_SECONDS = 1.0
LOCK_SECONDS = 20.0  # for another process of this host that brings the job's state just now
_TRIES = 5
_HERE, _HERE_BUILT = "refs/parley/state", "refs/parley/state-built"  # the same in the mirror of this host


class _Owned:
    """A job that this process owns."""

    def __init__(self, lock: int, epoch: int) -> None:
        self.lock = lock
        self.epoch = epoch
        self.commit = ""  # the state as the remote has it
        self.tree = ""
        self.sent: set[str] = set()  # states whose pushes seemed to fail: the remote may have taken one of them
        self.moves = -1  # of the repository's refs, when it was published


class PublishedJobs:
    """The states of a home's jobs.

    `repository` gives a job's repository as its owner uses it, `allowed` says how much a job's homes may take and
    `most_bytes` how much is fetched at once, `form` tells the object format of a job that has no repository yet, and
    `tell` gets a line while the remote is waited for.
    """

    def __init__(
        self,
        home: Path,
        remote: Remote,
        key: Key,
        table: FileTable,
        *,
        repository: Callable[[str], JobRepository] | None = None,
        allowed: Allowed | None = None,
        most_bytes: int | None = None,
        form: Callable[[], str] = lambda: "sha1",
        mark: Callable[[str], Mapping[str, str]] = lambda job: {},
        tell: Callable[[str], None] = lambda line: None,
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        self._home = home.resolve()
        self._remote = GitRemote(remote)
        self._key = key
        self._table = table
        self._repository = repository or (lambda job: JobRepository(self._folder(job), mark(job)))
        self._allowed = allowed or Allowed()
        self._most_bytes = most_bytes
        self._form = form
        self._mark = mark
        self._tell = tell
        self._wait_seconds = wait_seconds
        self._owned: dict[str, _Owned] = {}
        self._states: dict[str, JobState] = {}

    # ---- the owner -----------------------------------------------------------------------------

    def take(self, job: str, epoch: int) -> None:
        """This process owns the job: bring its state, and keep earlier owners from publishing any more."""
        self.leave(job)
        owned = _Owned(self._lock(job, LOCK_SECONDS), epoch)
        try:
            self._patiently(lambda: self._fence(job, owned))
        except BaseException:
            os.close(owned.lock)
            raise
        self._owned[job] = owned

    def _fence(self, job: str, owned: _Owned) -> None:
        for _ in range(_TRIES):
            mirror = self._mirror(job)
            with mirror.used():
                there = self._remote.listed(mirror.git, self._ref(job)).get(self._ref(job), "")
                if not there:
                    self._refuse_lost(job, mirror)
                if there and there != mirror.ref(_HERE):
                    there = self._fetch(job, mirror)  # the earlier owner may have published meanwhile
                    self._state(job).lay_out(mirror, there)
                    mirror.set_ref(_HERE, there)
                try:
                    self._push(job, mirror, owned, there)
                except PushLost:
                    continue  # the earlier owner was just about to: what it has published is brought too
                return
        raise RemoteTrouble(f"the state of job {job} on {self._remote.shown} keeps changing; see who writes there")

    def _refuse_lost(self, job: str, mirror: MirrorRepository) -> None:
        """Where the job's files were published, and are neither on the remote nor here, they are not begun anew."""
        if self._table.published(job) not in ("", mirror.ref(_HERE)):
            raise PlaceRefused(
                f"another host has published the files of job {job}, and {self._remote.shown} does not have them; see "
                "that [hosts] remote is the same on all hosts, or restore that repository from a backup"
            )

    def publish(self, job: str, *, turn_ended: bool = False) -> None:
        """Have on the remote what the next commit names. Nothing is pushed where nothing has changed.

        LostOwnership where another owner has taken the job; BusError where the remote stays out of reach.
        """
        owned = self._owned.get(job)
        if owned is None:
            raise LostOwnership(f"this process does not own job {job}; nothing was written")
        moves = self._repository(job).moves
        if moves == owned.moves and not turn_ended:
            return
        try:
            self._patiently(lambda: self._republish(job, owned))
        except PushLost as lost:
            raise LostOwnership(f"another owner has taken job {job}; nothing was written ({lost})") from lost
        owned.moves = moves

    def _republish(self, job: str, owned: _Owned) -> None:
        mirror = self._mirror(job)
        with mirror.used():
            try:
                self._push(job, mirror, owned, owned.commit)
            except PushLost as lost:
                if lost.there not in owned.sent:
                    raise
                owned.commit = lost.there  # it was this owner's own: the remote took it, and its answer got lost
                self._push(job, mirror, owned, owned.commit)

    def _push(self, job: str, mirror: MirrorRepository, owned: _Owned, before: str) -> None:
        """Pack the state, and move the ref from what it was. The former state is a parent: only what is new is sent."""
        tree = self._state(job).pack(mirror, self._repository(job), owned.epoch)
        if tree == owned.tree:
            self._state(job).keep()
            return
        alone = mirror.commit(tree)
        commit = mirror.commit(tree, mirror.ref(_HERE_BUILT))
        built = f"{self._job(job)}/{BUILT}"
        try:
            self._remote.push(mirror.git, (self._ref(job), commit), {built: alone}, before)
        except MirrorError:
            self._states.pop(job, None)  # no ref holds what was packed: it may be collected
            owned.sent.add(commit)
            raise
        mirror.set_ref(_HERE, commit)
        mirror.set_ref(_HERE_BUILT, alone)
        self._state(job).keep()
        owned.commit, owned.tree = commit, tree
        self._table.publish(job, commit)

    def leave(self, job: str) -> None:
        """This process does not own the job any more."""
        owned = self._owned.pop(job, None)
        if owned is not None:
            os.close(owned.lock)
            mirror = MirrorRepository.existing(self._folder(job), self._whose(job))
            if mirror is not None:
                mirror.tidy()

    def begun(self, job: str) -> None:
        """The job's repository was just made: no turn begins before another host can go on from the same."""
        if job in self._owned:
            self.publish(job, turn_ended=True)

    # ---- everyone ------------------------------------------------------------------------------

    def bring(self, job: str, *, latest: bool = False) -> bool:
        """Bring the state that was last published, unless a process of this host owns the job; whether it was new.

        `latest`: ask the remote which that is, and not the bus, which may have been restored to an older state.
        """
        if job in self._owned:
            return False
        said = self._table.published(job)
        mirror = MirrorRepository.existing(self._folder(job), self._whose(job))
        if not said or (not latest and mirror is not None and mirror.ref(_HERE) == said):
            return False
        try:
            lock = self._lock(job, 0.0)
        except BlockingIOError:  # its owner is on this host, or another process brings it
            return False
        try:
            mirror = self._mirror(job, said)
            with mirror.used():
                if latest and self._remote.listed(mirror.git, self._ref(job)).get(self._ref(job)) == mirror.ref(_HERE):
                    return False
                there = self._fetch(job, mirror)
                self._state(job).lay_out(mirror, there)
                mirror.set_ref(_HERE, there)
            return True
        finally:
            os.close(lock)

    # ---- pieces --------------------------------------------------------------------------------

    def _patiently(self, act: Callable[[], None]) -> None:
        """Do something with the remote; where it is out of reach, try again for a while."""
        deadline: float | None = None
        while True:
            try:
                return act()
            except RemoteTrouble as trouble:
                if deadline is None:
                    deadline = time.monotonic() + self._wait_seconds
                    self._tell(f"waiting for the git remote: {trouble}")
                elif time.monotonic() > deadline:
                    raise BusError(
                        f"{trouble}; nothing was written: go on with `parley resume` when the remote is back"
                    ) from trouble
                time.sleep(min(PAUSE_SECONDS, self._wait_seconds))

    def _fetch(self, job: str, mirror: MirrorRepository) -> str:
        """Fetch the state that the remote has now; its commit."""
        self._remote.fetch(mirror.git, self._ref(job), f"{_HERE}-fetched", self._most_bytes)
        there = mirror.ref(f"{_HERE}-fetched")
        mirror.set_ref(_HERE_BUILT, mirror.commit(mirror.tree(there)))
        return there

    def _lock(self, job: str, seconds: float) -> int:
        """Keep other processes of this host from the job's repository; BlockingIOError where one has it."""
        folder = self._folder(job)
        folder.parent.mkdir(exist_ok=True)
        folder.mkdir(exist_ok=True)
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    os.close(handle)
                    if seconds:
                        raise MirrorError(
                            f"another process of this host has the files of job {job} ({folder / LOCK}); end it first"
                        ) from None
                    raise
                time.sleep(0.05)
            else:
                return handle

    def _state(self, job: str) -> JobState:
        if job not in self._states:
            self._states[job] = JobState(job, self._folder(job), self._key.secret, self._allowed)
        return self._states[job]

    def _mirror(self, job: str, commit: str = "") -> MirrorRepository:
        folder = self._folder(job)
        found = MirrorRepository.existing(folder, self._whose(job))
        if found is None:
            repository = self._repository(job)
            form = object_format(commit) if commit else repository.beginning.object_format if repository.exists else ""
            found = MirrorRepository(folder, form or self._form(), self._whose(job))
        else:
            see_repository(found)
        return found

    def _whose(self, job: str) -> WhoseGit:
        return WhoseGit(self._mark(job))

    def _folder(self, job: str) -> Path:
        return self._home / "jobs" / job

    def _job(self, job: str) -> str:
        return refs_of(self._key.id, job)

    def _ref(self, job: str) -> str:
        return f"{self._job(job)}/{STATE}"
