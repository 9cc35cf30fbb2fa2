"""What is shipped and what stays on the remote: the difference alone, and nothing of turns that are over."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from parley.hosts.mirror.job_refs import delete_refs
from parley.hosts.mirror.mirror_errors import MirrorError, PushLost
from parley.hosts.mirror.mirror_repository import MirrorRepository
from parley.ports.turns import Order
from parley.workspaces.job_repository import MIRROR
from tests.hosts.mirrored_place import JOB, ROOT, Mirrored, fill, git, size_of, tree_of, without_room, write

LARGE, SMALL = 3_000_000, 100_000  # bytes of a workspace, and what a small change may ship


@pytest.fixture
def place(tmp_path: Path) -> Mirrored:
    return Mirrored(tmp_path)


def test_the_second_turn_of_a_large_workspace_ships_about_what_changed(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {f"src/{number}.bin": os.urandom(20_000) for number in range(100)}
    place = Mirrored(tmp_path, files=files)
    warm, cold = place.host("warm"), place.host("cold")
    first = place.order()
    fill(Path(first.site.workspace), {".gitignore": "deps/\n", "deps/large": os.urandom(1 << 20)})
    remote, mirror = place.bare / "objects", warm.home / "jobs" / JOB / MIRROR / "objects"

    laid, _ = place.there(warm, first)
    assert size_of(remote) > LARGE
    assert size_of(mirror) > LARGE

    sizes = [size_of(remote), size_of(mirror)]
    write(Path(laid.site.workspace), {"src/0.bin": "changed", "deps/small": "new"})
    place.back(warm, first, laid)
    place.user.trees.snapshot(JOB, ROOT, "turn")
    place.mirror.drop([first])
    assert size_of(remote) - sizes[0] < SMALL, "what came back"

    sizes = [size_of(remote), size_of(mirror)]
    second = place.order()
    laid, sent = place.there(warm, second)
    assert size_of(remote) - sizes[0] < SMALL, "what went out"
    assert size_of(mirror) - sizes[1] < SMALL, "what a warm host fetched"
    assert tree_of(Path(laid.site.workspace)) == tree_of(Path(second.site.workspace))

    elsewhere = cold.lay_out(without_room(second), sent)
    assert tree_of(Path(elsewhere.site.workspace)) == tree_of(Path(second.site.workspace))


def test_a_new_instance_does_not_ship_what_the_job_started_from_again(tmp_path: Path) -> None:
    place = Mirrored(tmp_path, files={"large.bin": os.urandom(1 << 20)})
    place.mirror.send(place.order())
    before = size_of(place.bare / "objects")

    place.mirror.send(place.order("dispatch:c1"))

    assert size_of(place.bare / "objects") - before < SMALL


def test_what_is_committed_is_not_written_again_on_the_coordinator(tmp_path: Path) -> None:
    place = Mirrored(tmp_path, files={f"{number}.bin": os.urandom(100_000) for number in range(10)})

    place.mirror.send(place.order())

    assert size_of(place.job_folder / MIRROR) < SMALL


def test_unchanged_files_are_not_touched_on_a_warm_host(place: Mirrored) -> None:
    host, first = place.host(), place.order()
    laid, _ = place.there(host, first)
    file = Path(laid.site.workspace) / "a.txt"
    os.utime(file, (1_000_000, 1_000_000))
    place.back(host, first, laid)
    place.user.trees.snapshot(JOB, ROOT, "turn")

    place.there(host, place.order())

    assert file.stat().st_mtime == 1_000_000


# ---- refs ----------------------------------------------------------------------------------------


def test_a_turn_that_is_over_leaves_only_what_the_next_one_builds_upon(place: Mirrored) -> None:
    host = place.host()
    for number in range(3):
        order = place.order()
        laid, _ = place.there(host, order)
        write(Path(laid.site.workspace), {"n.txt": str(number)})
        place.back(host, order, laid)
        place.user.trees.snapshot(JOB, ROOT, "turn")
        place.mirror.drop([order])
        place.mirror.drop([order])

    kinds = sorted(ref.split("/")[4] for ref in place.refs())
    assert kinds == ["base", "last-back", "last-sent"]
    assert len(git(place.bare, "rev-list", "--all").splitlines()) == 3, "no older place is kept"


def test_all_that_is_left_of_a_job_can_be_deleted_from_any_home(place: Mirrored, tmp_path: Path) -> None:
    place.mirror.send(place.order())
    elsewhere = tmp_path / "elsewhere"

    assert delete_refs(elsewhere, place.remote, "other", JOB) == 0
    assert delete_refs(elsewhere, place.remote, "bus", "j") == 0, "a job whose name begins the same is another"
    assert delete_refs(elsewhere, place.remote, "bus", JOB) == 3
    assert delete_refs(elsewhere, place.remote, "bus", JOB) == 0
    assert place.refs() == []
    assert list(elsewhere.iterdir()) == []


def test_a_host_forgets_a_job_that_is_over(place: Mirrored) -> None:
    host = place.host()
    place.there(host, place.order())

    host.forget(JOB)
    host.forget("../b")

    assert list((host.home / "jobs").iterdir()) == []


def test_a_host_forgets_what_jobs_started_from_once_none_needs_it(place: Mirrored) -> None:
    host = place.host()
    place.there(host, place.order())
    (base,) = (host.home / "bases").iterdir()

    host.forget_bases(time.time() + 60)
    assert base.is_dir(), "a job here has started from it"
    host.forget(JOB)
    host.forget_bases(time.time() - 60)
    assert base.is_dir(), "a turn has just needed it"
    host.forget_bases(time.time() + 60)
    assert not base.exists()
    laid, _ = place.there(host, place.order())
    assert Path(laid.site.workspace).is_dir()
    assert base.is_dir()


def test_what_no_ref_holds_is_collected(place: Mirrored, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parley.hosts.mirror.mirror_repository.LOOSE", 0)
    host, order = place.host(), place.order()
    home = Path(order.home)
    fill(home, {"old": os.urandom(500_000)})
    laid, _ = place.there(host, order)
    (Path(laid.home) / "old").unlink()
    place.back(host, order, laid)
    place.mirror.drop([order])
    order = place.order()
    laid, _ = place.there(host, order)
    place.back(host, order, laid)
    place.mirror.drop([order])
    order = place.order()
    laid, _ = place.there(host, order)
    place.back(host, order, laid)
    place.mirror.drop([order])

    for folder in (place.job_folder, host.home / "jobs" / JOB):
        assert size_of(folder / MIRROR) < 300_000
        mirror = MirrorRepository.existing(folder)
        assert mirror is not None
        assert mirror.git("fsck", "--connectivity-only", "--no-dangling") == b""


# ---- races ---------------------------------------------------------------------------------------


def test_of_two_results_of_one_attempt_the_first_counts_and_the_second_changes_nothing(place: Mirrored) -> None:
    order, one, two = place.order(), place.host("one"), place.host("two")
    sent = place.mirror.send(order)
    here, there = (host.lay_out(without_room(order), sent) for host in (one, two))
    write(Path(here.site.workspace), {"who": "one"})
    write(Path(there.site.workspace), {"who": "two"})
    won = one.give_back(order, here)
    before = git(place.bare, "for-each-ref")

    with pytest.raises(PushLost, match=r"has another refs/parley/bus/j1/turns/t1/1/back/1 \("):
        two.give_back(order, there)

    assert git(place.bare, "for-each-ref") == before
    place.mirror.take_back(order, won)
    assert (Path(order.site.workspace) / "who").read_text() == "one"


def test_the_next_attempt_has_a_place_of_its_own(place: Mirrored) -> None:
    """A host that pushed and died before it told so must not keep the turn from ever ending."""
    order, one, two = place.order(), place.host("one"), place.host("two")
    sent = place.mirror.send(order)
    here, there = (host.lay_out(without_room(order), sent) for host in (one, two))
    one.give_back(order, here, attempt=1)
    write(Path(there.site.workspace), {"who": "two"})

    place.mirror.take_back(order, two.give_back(order, there, attempt=2))

    assert (Path(order.site.workspace) / "who").read_text() == "two"


def test_every_operation_can_be_done_again(place: Mirrored) -> None:
    order, host = place.order(), place.host()
    sent = place.mirror.send(order)
    assert place.mirror.send(order) == sent
    laid = host.lay_out(without_room(order), sent)
    assert host.lay_out(without_room(order), sent) == laid
    write(Path(laid.site.workspace), {"new": "new"})
    back = host.give_back(order, laid)
    assert host.give_back(order, laid) == back
    place.mirror.take_back(order, back)
    place.mirror.take_back(order, back)

    assert (Path(order.site.workspace) / "new").read_text() == "new"


def test_turns_of_several_instances_go_out_and_come_back_at_once(place: Mirrored) -> None:
    """The first of them all bring what the job started from, at the same time."""
    host = place.host()
    place.user.prepare(ROOT)
    orders = [place.order(f"dispatch:c{number}") for number in range(3)]

    def turn(order: Order) -> None:
        laid, _ = place.there(host, order)
        write(Path(laid.site.workspace), {"who": order.thread})
        place.back(host, order, laid)
        place.mirror.drop([order])

    with ThreadPoolExecutor(len(orders)) as threads:
        list(threads.map(turn, orders))

    assert [(Path(order.site.workspace) / "who").read_text() for order in orders] == [one.thread for one in orders]
    assert not [ref for ref in place.refs() if "/turns/" in ref]


def test_instances_of_one_workspace_each_have_their_own_home(place: Mirrored) -> None:
    host, first, second = place.host(), place.order(), place.order("state:j1")
    fill(Path(first.home), {"who": "first"})
    fill(Path(second.home), {"who": "second"})

    one, _ = place.there(host, first)
    two, _ = place.there(host, second)

    assert [(Path(laid.home) / "who").read_text() for laid in (one, two)] == ["first", "second"]


# ---- another coordinator -------------------------------------------------------------------------


def test_what_a_turn_of_another_coordinators_had_written_is_laid_out_in_the_home_of_the_next(place: Mirrored) -> None:
    host, order = place.host(), place.order()
    laid, _ = place.there(host, order)
    fill(Path(laid.home), {"session.jsonl": "one\n"})
    write(Path(laid.site.workspace), {"new": "new"})
    back = host.give_back(without_room(order), laid)

    second = place.host("second", limit=1 << 20, files=1000)
    second.take_back(without_room(order), back)

    folder = second.home / "jobs" / JOB
    assert tree_of(folder / "work") == tree_of(Path(laid.site.workspace))
    assert (folder / "homes" / Path(order.home).name / "session.jsonl").read_text() == "one\n"
    assert not (Path(order.site.workspace) / "new").exists(), "the home of the first is another's"
    second.drop([order])
    assert not [ref for ref in place.refs() if "/turns/" in ref]


def test_the_quota_bounds_what_comes_back_also_where_another_process_has_put_the_turn_out(place: Mirrored) -> None:
    host, order = place.host(), place.order()
    laid, _ = place.there(host, order)
    write(Path(laid.site.workspace), {"large": b"\0" * (2 << 20)})
    back = host.give_back(without_room(order), laid)
    before = tree_of(Path(order.site.workspace))

    with pytest.raises(MirrorError, match="it takes more than the job's quota"):
        place.host("repo/.parley", limit=1 << 20, files=1000).take_back(without_room(order), back)
    assert tree_of(Path(order.site.workspace)) == before
