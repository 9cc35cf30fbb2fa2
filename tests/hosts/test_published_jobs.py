"""The state of a job on the git remote: its repository, marks and sessions, packed here and made again there."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from parley.bus.postgres.postgres_store import PostgresStore
from parley.bus.rows import BusError, LostOwnership
from parley.hosts.mirror import folder_packing
from parley.hosts.mirror.git_remote import GitRemote, Remote
from parley.hosts.mirror.mirror_errors import MirrorError, PlaceRefused
from parley.hosts.mirror.place_names import session_folder
from parley.hosts.shared.file_table import FileTable
from parley.hosts.shared.published_jobs import PublishedJobs
from parley.hosts.shared.shared_workspaces import SharedWorkspaces
from parley.ports.turns import Site
from parley.settings.schema import WorkspaceSettings
from parley.workspaces.files.tree_entry import TreeEntry
from tests.postgres_server import Bus, Server
from tests.stores import rows


def git(folder: Path, *words: str) -> str:
    """Run git, as the user would."""
    who = ("-c", "user.name=u", "-c", "user.email=u@example.org")
    return subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


class Coordinator:
    """One host: a clone, a home, its workspaces, and what it publishes."""

    def __init__(self, world: "Hosts", name: str, *, wait_seconds: float = 0.0) -> None:
        self.root = world.folder / name
        git(world.folder, "clone", "-q", str(world.origin), name)
        self.home = self.root / ".parley"
        self.home.mkdir()
        self.store: PostgresStore = world.held.enter_context(closing(world.bus.open()))
        table = world.held.enter_context(closing(FileTable(world.bus.key, world.bus.address, name, self.store.owner)))
        self.trees = SharedWorkspaces(self.home, self.root)
        self.told: list[str] = []
        self.jobs = self.trees.published = PublishedJobs(
            self.home,
            Remote(str(world.remote)),
            world.bus.key,
            table,
            repository=self.trees.own_repository,
            tell=self.told.append,
            wait_seconds=wait_seconds,
        )

    def take(self, epoch: int) -> None:
        """Own the job."""
        self.jobs.take("j1", epoch)
        self.trees.forget("j1")

    def turn(self, name: str, files: dict[str, str]) -> str:
        """A turn that writes files; its tree."""
        self.trees.prepare("j1", name, "job:j1")
        for path, text in files.items():
            (self.trees.path("j1", name) / path).write_text(text)
        return self.trees.snapshot("j1", name, "a turn").tree

    def refs(self) -> dict[str, str]:
        return self.trees.own_repository("j1").refs("refs/")


class Hosts:
    """A bus, a project, a remote; and coordinators."""

    def __init__(self, server: Server, folder: Path, held: ExitStack) -> None:
        self.folder, self.held = folder, held
        (folder / "bus").mkdir()
        self.bus = Bus(server, folder / "bus")
        with closing(self.bus.open()) as store:
            store.create(rows.job("j1"))
        self.origin, self.remote = folder / "origin", folder / "remote.git"
        self.origin.mkdir()
        git(self.origin, "init", "-q", "-b", "main")
        for number in range(3):
            (self.origin / "a.txt").write_text(f"{number}\n")
            git(self.origin, "add", "."), git(self.origin, "commit", "-q", "-m", str(number))
        git(folder, "init", "-q", "--bare", str(self.remote))

    def state(self) -> str:
        """The job's state on the remote."""
        return git(self.remote, "for-each-ref", "--format=%(objectname)", f"refs/parley/{self.bus.key.id}/j1/state")

    def packed(self) -> int:
        """How many bytes the remote holds."""
        return sum(path.stat().st_size for path in (self.remote / "objects").rglob("*") if path.is_file())


@pytest.fixture
def hosts(server: Server, tmp_path: Path) -> Iterator[Hosts]:
    with ExitStack() as held:
        yield Hosts(server, tmp_path, held)


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and ".git" not in path.parts
    }


def test_another_host_has_the_same_repository_worktrees_and_sessions(hosts: Hosts) -> None:
    here, there = Coordinator(hosts, "a"), Coordinator(hosts, "b")
    here.take(1)
    lead = here.turn("job:j1", {"new.txt": "new\n", "a.txt": "changed\n"})
    worker = here.turn("dispatch:d1", {"w.txt": "worker\n"})
    here.trees.merge("j1", "dispatch:d1", "job:j1")
    lead = here.trees.committed("j1", "job:j1")
    session = here.home / "jobs/j1/homes/lead-job/.claude/projects"
    before = session_folder(str(here.trees.path("j1", "job:j1")))
    (session / before).mkdir(parents=True)
    (session / before / "s1.jsonl").write_text("{}\n")
    here.jobs.publish("j1")
    here.jobs.leave("j1")

    there.take(2)
    assert there.refs() == here.refs()
    there.trees.restore("j1", "job:j1", lead, "epoch-2")
    there.trees.restore("j1", "dispatch:d1", worker, "epoch-2")
    for name in ("job:j1", "dispatch:d1"):
        there.trees.prepare("j1", name, "job:j1")
        assert files(there.trees.path("j1", name)) == files(here.trees.path("j1", name))
    now = session_folder(str(there.trees.path("j1", "job:j1")))
    assert (there.home / "jobs/j1/homes/lead-job/.claude/projects" / now / "s1.jsonl").read_text() == "{}\n"
    assert there.trees.anchors("j1") == here.trees.anchors("j1")
    # and it goes on there, and back
    tree = there.turn("job:j1", {"second.txt": "2\n"})
    there.jobs.publish("j1")
    there.jobs.leave("j1")
    here.take(3)
    here.trees.restore("j1", "job:j1", tree, "epoch-3")
    assert files(here.trees.path("j1", "job:j1"))["second.txt"] == b"2\n"
    assert git(here.home / "jobs/j1/snapshots.git", "fsck", "--no-dangling") == ""


def test_an_earlier_owner_can_publish_nothing_once_another_has_taken_the_job(hosts: Hosts) -> None:
    here, there = Coordinator(hosts, "a"), Coordinator(hosts, "b")
    here.take(1)
    here.turn("job:j1", {"x": "1"})
    here.jobs.publish("j1")
    there.take(2)
    state = hosts.state()
    here.turn("job:j1", {"x": "late"})
    with pytest.raises(LostOwnership, match="another owner has taken job j1; nothing was written"):
        here.jobs.publish("j1")
    assert hosts.state() == state
    there.turn("job:j1", {"x": "2"})
    there.jobs.publish("j1")
    assert hosts.state() != state


def test_a_job_that_was_taken_over_before_it_began_begins_with_the_next_owner(hosts: Hosts) -> None:
    here, there = Coordinator(hosts, "a"), Coordinator(hosts, "b")
    here.take(1)
    there.take(2)
    with pytest.raises((LostOwnership, MirrorError)):
        here.turn("job:j1", {"x": "1"})
    there.turn("job:j1", {"x": "2"})
    there.jobs.publish("j1")


def test_the_base_of_a_job_is_the_same_wherever_its_first_turn_is_done_again(hosts: Hosts) -> None:
    here = Coordinator(hosts, "a")
    here.take(1)
    here.trees.prepare("j1", "job:j1", "")  # the coordinator dies now
    (hosts.origin / "a.txt").write_text("moved on\n")
    git(hosts.origin, "commit", "-q", "-am", "later")
    there = Coordinator(hosts, "b")
    there.take(2)
    there.trees.prepare("j1", "job:j1", "")
    assert (there.trees.path("j1", "job:j1") / "a.txt").read_text() == "2\n"


def test_the_set_up_command_is_run_again_where_a_worktree_is_new(hosts: Hosts) -> None:
    here, there = Coordinator(hosts, "a"), Coordinator(hosts, "b")
    ran: list[str] = []

    def set_up(site: Site, command: str) -> None:
        ran.append(command)
        (Path(site.workspace) / "installed").write_text("by the host")

    for one in (here, there):
        one.trees.settings = WorkspaceSettings(setup="install")
        one.trees._set_up = set_up
    here.take(1)
    tree = here.turn("job:j1", {"x": "1"})
    here.jobs.publish("j1")
    there.take(2)
    there.trees.restore("j1", "job:j1", tree, "epoch-2")
    for _ in range(2):
        there.trees.prepare("j1", "job:j1", "")
    assert ran == ["install", "install"]
    assert (there.trees.path("j1", "job:j1") / "installed").is_file()
    assert there.trees.snapshot("j1", "job:j1", "a turn").tree == tree


def test_nothing_is_pushed_where_nothing_has_changed_and_only_what_is_new_otherwise(hosts: Hosts) -> None:
    here = Coordinator(hosts, "a")
    here.take(1)
    here.turn("job:j1", {"big": os.urandom(300_000).hex()})
    here.jobs.publish("j1")
    state, size = hosts.state(), hosts.packed()
    here.jobs.publish("j1")
    here.jobs.publish("j1", turn_ended=True)
    assert (hosts.state(), hosts.packed()) == (state, size)
    here.turn("job:j1", {"small": "x"})
    here.jobs.publish("j1")
    assert hosts.state() != state
    assert hosts.packed() - size < 20_000


def test_homes_that_have_not_changed_are_not_read_again(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    here = Coordinator(hosts, "a")
    here.take(1)
    home = here.home / "jobs/j1/homes/lead-job"
    home.mkdir(parents=True)
    for number in range(5):
        (home / f"{number}.jsonl").write_text(f"{number}\n")
    here.turn("job:j1", {"x": "1"})
    here.jobs.publish("j1", turn_ended=True)
    read: list[str] = []

    def counted(reading: folder_packing._Reading, path: str) -> TreeEntry:
        read.append(path)
        return whole(reading, path)

    whole = folder_packing._Reading.read
    monkeypatch.setattr(folder_packing._Reading, "read", counted)
    here.turn("job:j1", {"x": "2"})
    here.jobs.publish("j1", turn_ended=True)
    assert read == []
    (home / "3.jsonl").write_text("changed\n")
    here.turn("job:j1", {"x": "3"})
    here.jobs.publish("j1", turn_ended=True)
    assert read == ["3.jsonl"]


def test_those_who_look_bring_what_was_published_unless_the_owner_is_here(hosts: Hosts) -> None:
    here, there = Coordinator(hosts, "a"), Coordinator(hosts, "b")
    here.take(1)
    here.turn("job:j1", {"x": "1"})
    here.jobs.publish("j1")
    assert there.jobs.bring("j1")
    assert not there.jobs.bring("j1")
    assert there.refs() == here.refs()
    face = PublishedJobs(here.home, Remote(str(hosts.remote)), hosts.bus.key, here.jobs._table)
    here.turn("job:j1", {"x": "2"})
    before = here.refs()
    here.jobs._table.publish("j1", "0" * 40)
    assert not face.bring("j1")
    assert here.refs() == before


def test_a_remote_that_is_down_is_waited_for_then_told_in_one_line(hosts: Hosts) -> None:
    here = Coordinator(hosts, "a", wait_seconds=0.1)
    here.take(1)
    here.turn("job:j1", {"x": "1"})
    away = hosts.remote.rename(hosts.folder / "away")
    with pytest.raises(
        BusError, match=r"remote.git could not be written to: .*not appear to be.* go on with `parley resume`"
    ) as said:
        here.jobs.publish("j1")
    assert "\n" not in str(said.value)
    assert len(here.told) == 1
    assert here.told[0].startswith("waiting for the git remote: ")
    away.rename(hosts.remote)
    here.jobs.publish("j1")


def test_a_push_whose_answer_got_lost_is_not_taken_for_another_owners(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The remote takes the push and is gone before it can say so; sessions have grown when it is back."""
    here = Coordinator(hosts, "a", wait_seconds=60.0)
    here.take(1)
    home = here.home / "jobs/j1/homes/lead-job"
    home.mkdir(parents=True)
    (home / "session.jsonl").write_text("one\n")
    tree = here.turn("job:j1", {"x": "1"})
    pushed, away = GitRemote._pushed, hosts.folder / "away"

    def cut_off(remote: GitRemote, *words: Any) -> subprocess.CompletedProcess[bytes]:
        done = pushed(remote, *words)
        if not here.told:
            assert done.returncode == 0
            hosts.remote.rename(away)
            return subprocess.CompletedProcess([], 128, b"", b"fatal: the remote end hung up unexpectedly")
        return done

    def back(line: str) -> None:
        here.told.append(line)
        away.rename(hosts.remote)
        (home / "session.jsonl").write_text("one\ntwo\n")

    monkeypatch.setattr(GitRemote, "_pushed", cut_off)
    here.jobs._tell = back
    here.jobs.publish("j1", turn_ended=True)
    assert len(here.told) == 1

    there = Coordinator(hosts, "b")
    there.take(2)
    assert there.refs() == here.refs()
    assert there.trees.committed("j1", "job:j1") == tree
    assert (there.home / "jobs/j1/homes/lead-job/session.jsonl").read_text() == "one\ntwo\n"
    here.turn("job:j1", {"x": "late"})
    with pytest.raises(LostOwnership):
        here.jobs.publish("j1")


def test_what_is_published_just_while_another_takes_the_job_is_brought_too(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = Coordinator(hosts, "a"), Coordinator(hosts, "b")
    here.take(1)
    here.turn("job:j1", {"x": "1"})
    here.jobs.publish("j1")
    listed, late = GitRemote.listed, ["2"]

    def then_published(remote: GitRemote, *words: Any) -> dict[str, str]:
        found = listed(remote, *words)
        if remote is there.jobs._remote and late:
            here.turn("job:j1", {"x": late.pop()})
            here.jobs.publish("j1")
        return found

    monkeypatch.setattr(GitRemote, "listed", then_published)
    there.take(2)
    assert there.refs() == here.refs()
    there.turn("job:j1", {"y": "3"})
    assert (there.trees.path("j1", "job:j1") / "x").read_text() == "2"


def test_a_host_whose_remote_has_nothing_of_a_job_does_not_begin_it_anew(hosts: Hosts) -> None:
    here, there = Coordinator(hosts, "a"), Coordinator(hosts, "b")
    here.take(1)
    here.turn("job:j1", {"x": "1"})
    here.jobs.publish("j1")
    here.jobs.leave("j1")
    other = hosts.folder / "other.git"
    git(hosts.folder, "init", "-q", "--bare", str(other))
    there.jobs._remote = GitRemote(Remote(str(other)))
    with pytest.raises(PlaceRefused, match=r"other.git does not have them; see that \[hosts\] remote is the same"):
        there.take(2)
    assert git(other, "for-each-ref") == ""
    here.jobs._remote = GitRemote(Remote(str(other)))  # who has all of it can move to another remote
    here.take(3)
    assert "/j1/state" in git(other, "for-each-ref")


def test_what_a_lost_turn_had_written_is_kept_where_no_worktree_was_yet(hosts: Hosts) -> None:
    """Its host has given it back to a coordinator that has just taken the job over."""
    here, there = Coordinator(hosts, "a"), Coordinator(hosts, "b")
    ran: list[str] = []

    def set_up(site: Site, command: str) -> None:
        ran.append(command)

    here.take(1)
    tree = here.turn("dispatch:d1", {"x": "1"})
    here.jobs.publish("j1")
    there.trees.settings, there.trees._set_up = WorkspaceSettings(setup="install"), set_up
    there.take(2)
    folder = there.trees.path("j1", "dispatch:d1")
    folder.mkdir(parents=True)
    (folder / "x").write_text("half")
    (folder / "a.txt").write_text("2\n")
    there.trees.restore("j1", "dispatch:d1", tree, "epoch-2")
    assert files(folder) == files(here.trees.path("j1", "dispatch:d1"))
    lost = there.trees.own_repository("j1").ref("refs/parley/lost/j1/d1/epoch-2")
    assert git(there.home / "jobs/j1/snapshots.git", "show", f"{lost}:x") == "half"
    there.trees.prepare("j1", "dispatch:d1", "job:j1")
    assert ran == ["install"], "the worktree is new on this host"


def test_a_state_that_no_coordinator_of_this_bus_has_packed_is_refused(hosts: Hosts) -> None:
    here, there = Coordinator(hosts, "a"), Coordinator(hosts, "b")
    here.take(1)
    here.turn("job:j1", {"x": "1"})
    here.jobs.publish("j1")
    work = hosts.folder / "hostile"
    ref = f"refs/parley/{hosts.bus.key.id}/j1/state"
    git(hosts.folder, "clone", "-q", str(hosts.remote), "hostile")
    git(work, "fetch", "-q", "origin", f"{ref}:refs/heads/state")
    git(work, "checkout", "-q", "state")
    manifest = work / "manifest"
    manifest.write_text(manifest.read_text().replace('"epoch":1', '"epoch":9'))
    git(work, "commit", "-q", "-am", "forged")
    git(work, "push", "-q", "origin", f"HEAD:{ref}")
    with pytest.raises(PlaceRefused, match="not packed with this bus's key"):
        there.take(2)
    assert not (there.home / "jobs/j1/snapshots.git").exists()
    shutil.rmtree(work)
