"""Runs one operation of a mirror in processes that are killed at every kind of moment, then once to its end.

Run as a program, without threads: it forks. Each child counts what it does to the disk and to the remote, and kills
itself with SIGKILL at the moment that it was given.
"""

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from parley.hosts.mirror.folder_filling import FolderFilling
from parley.hosts.mirror.folder_packing import Allowed
from parley.hosts.mirror.git_remote import GitRemote
from parley.hosts.mirror.mirror_repository import MirrorRepository
from parley.hosts.mirror.place_mirror import Shipped
from parley.hosts.shared import job_state
from parley.hosts.shared.job_state import JobState
from parley.workspaces.files.known_blobs import KnownBlobs
from parley.workspaces.files.safe_fs import SafeFolder
from parley.workspaces.job_repository import JobRepository
from parley.workspaces.safe_git import Git, LooseObjects
from tests.hosts.mirrored_place import CHILD, JOB, ROOT, Mirrored, fill, git, tree_of, without_room, write

MOMENTS = 5  # of each operation
STATE = "refs/parley/state"
STEPS: tuple[tuple[Any, str], ...] = (
    (Git, "run"),
    (LooseObjects, "_place"),
    (SafeFolder, "put"),
    (SafeFolder, "link"),
    (FolderFilling, "_delete"),
    (KnownBlobs, "keep"),
    (MirrorRepository, "set_ref"),
    (Path, "replace"),
    (Path, "rename"),
    (Path, "write_bytes"),
    (job_state, "write_pack"),
)


class Killer:
    """Counts steps, before and after each; at one of them the process is killed."""

    def __init__(self, at: int) -> None:
        self.at, self.seen = at, 0

    def step(self) -> None:
        self.seen += 1
        if self.seen == self.at:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(self) -> None:
        for owner, name in STEPS:
            setattr(owner, name, self._wrapped(getattr(owner, name)))

    def _wrapped(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*words: Any, **more: Any) -> Any:
            self.step()
            found = method(*words, **more)
            self.step()
            return found

        return call


def in_child(at: int, work: Callable[[], object]) -> int:
    """Do the work in a child that is killed at a step; returns how many there were, or 0 where it was killed."""
    out, into = os.pipe()
    child = os.fork()
    if not child:
        killer = Killer(at)
        killer.watch()
        work()
        os.write(into, str(killer.seen).encode())
        os._exit(0)
    os.close(into)
    _, status = os.waitpid(child, 0)
    said = os.read(out, 100)
    os.close(out)
    assert os.WIFSIGNALED(status) == (not said), status
    return int(said or 0)


def killed(work: Callable[[], object], begin_anew: Callable[[], object]) -> int:
    """Kill the work at several moments, each after what the last one left; returns how often it died."""
    steps = in_child(-1, work)
    begin_anew()
    return sum(in_child(1 + number * steps // MOMENTS, work) == 0 for number in range(MOMENTS))


class State:
    """The state of a job, between two homes."""

    def __init__(self, place: Mirrored) -> None:
        self.place, self.remote, self.there = place, GitRemote(place.remote), place.base / "b" / "jobs" / JOB
        self.folder = place.job_folder
        fill(self.folder / "homes/a", {"session.jsonl": "one\n", ".claude/projects/x": "x"})
        self.work("1")

    def work(self, text: str) -> None:
        """A turn, of the lead and of a worker."""
        for name in (ROOT, CHILD):
            self.place.user.prepare(name)
            write(self.place.user.trees.path(JOB, name), {"new": f"{name} {text}", f"n{text}": text})
            self.place.user.trees.snapshot(JOB, name, "turn")
        fill(self.folder / "homes/a", {"session.jsonl": f"one\n{text}\n"})

    def publish(self) -> None:
        repository = JobRepository(self.folder)
        with MirrorRepository(self.folder, "sha1").used() as mirror:
            before = self.remote.listed(mirror.git, STATE).get(STATE, "")
            tree = JobState(JOB, self.folder, b"secret", Allowed()).pack(mirror, repository, 1)
            self.remote.push(mirror.git, (STATE, mirror.commit(tree)), {}, before)
            mirror.set_ref(STATE, mirror.commit(tree))

    def bring(self) -> None:
        with MirrorRepository(self.there, "sha1").used() as mirror:
            self.remote.fetch(mirror.git, STATE, STATE)
            JobState(JOB, self.there, b"secret", Allowed()).lay_out(mirror, mirror.ref(STATE))

    def check(self) -> None:
        """It is the same there."""
        assert JobRepository(self.there).refs("refs/") == JobRepository(self.folder).refs("refs/")
        assert JobRepository(self.there).beginning == JobRepository(self.folder).beginning
        assert tree_of(self.there / "homes") == tree_of(self.folder / "homes")
        assert git(self.there / "snapshots.git", "fsck", "--no-dangling") == ""
        assert {path.name for path in (self.there / "marks").glob("*.json")} == {"job.json", "c1.json"}


def state(operation: str, place: Mirrored) -> int:
    """The same with a job's state: packed for the next coordinator, or laid out there, first anew and then again."""
    moved, times = State(place), 0
    for text in ("2", "3"):
        moved.work(text)
        work = moved.publish if operation == "publish" else moved.bring
        if operation == "bring":
            moved.publish()
        saved = place.base.with_name("saved")
        shutil.copytree(place.base, saved, symlinks=True)

        def begin_anew(saved: Path = saved) -> None:
            shutil.rmtree(place.base)
            saved.rename(place.base)

        times += killed(work, begin_anew)
        moved.publish()
        moved.bring()
        moved.check()
    return times


def main(operation: str) -> None:
    """Prepare a turn up to the operation, kill that again and again, then carry the turn to its end."""
    with tempfile.TemporaryDirectory(prefix="parley-killed-") as folder:
        if operation in ("publish", "bring"):
            times = state(operation, Mirrored(Path(folder) / "place", files={f"d{n}/f{n}": f"{n}" for n in range(6)}))
            assert times >= MOMENTS, times
            sys.stdout.write(f"killed {times} times\n")
            return
        place = Mirrored(Path(folder) / "place", files={f"d{n}/f{n}": f"{n}" for n in range(6)})
        order, host = place.order(), place.host()
        here = Path(order.site.workspace)
        fill(here, {"ignored/x": "x", ".gitignore": "ignored/\n"})
        (here / "link").symlink_to("d0")
        fill(Path(order.home), {"session.jsonl": "one\n"})
        plain = without_room(order)

        def end_of_turn() -> None:
            there = Path(laid.site.workspace)
            write(there, {"new/file": "new", "d1/f1": "changed"})
            (there / "d0/f0").unlink()
            (there / "link").unlink()
            (there / "link").symlink_to("d2")
            with (Path(laid.home) / "session.jsonl").open("a") as file:
                file.write("two\n")

        sent = back = Shipped("", "")
        laid = order
        if operation != "send":
            sent = place.mirror.send(order)
        if operation in ("give_back", "take_back"):
            laid = host.lay_out(plain, sent)
            end_of_turn()
        if operation == "take_back":
            back = host.give_back(plain, laid)
        works: dict[str, Callable[[], object]] = {
            "send": lambda: place.mirror.send(order),
            "lay_out": lambda: host.lay_out(plain, sent),
            "give_back": lambda: host.give_back(plain, laid),
            "take_back": lambda: place.mirror.take_back(order, back),
        }
        saved = Path(folder) / "saved"
        shutil.copytree(place.base, saved, symlinks=True)

        def begin_anew() -> None:
            shutil.rmtree(place.base)
            saved.rename(place.base)

        times = killed(works[operation], begin_anew)
        assert times >= MOMENTS // 2, times
        sent = place.mirror.send(order) if operation == "send" else sent
        if operation in ("send", "lay_out"):
            laid = host.lay_out(plain, sent)
            assert tree_of(Path(laid.site.workspace)) == tree_of(here)
            assert tree_of(Path(laid.home)) == tree_of(Path(order.home))
            end_of_turn()
        back = host.give_back(plain, laid) if operation != "take_back" else back
        place.mirror.take_back(order, back)
        assert tree_of(here) == tree_of(Path(laid.site.workspace))
        assert (Path(order.home) / "session.jsonl").read_text() == "one\ntwo\n"
        place.mirror.drop([order])
        assert not [ref for ref in place.refs() if "/turns/" in ref]
        for repository in (place.bare, place.job_folder / "mirror.git", host.home / "jobs" / JOB / "mirror.git"):
            assert git(repository, "fsck", "--connectivity-only", "--no-dangling") == "", repository
            assert not list(repository.glob("objects/pack/tmp_*")), repository
        sys.stdout.write(f"killed {times} times\n")


if __name__ == "__main__":
    main(sys.argv[1])
