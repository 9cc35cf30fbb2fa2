"""The remote: only what the user's own settings name, no program of anybody's, and one clear line for every trouble."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.hosts.mirror import git_remote
from parley.hosts.mirror.git_remote import Remote
from parley.hosts.mirror.job_refs import delete_refs
from parley.hosts.mirror.mirror_errors import MirrorError, RemoteTrouble
from parley.hosts.mirror.place_mirror import PlaceMirror
from parley.settings.load import parse, read_own
from tests.hosts.mirrored_place import Mirrored, fill, git, tree_of, without_room, write


@pytest.fixture
def place(tmp_path: Path) -> Mirrored:
    return Mirrored(tmp_path)


# ---- who names it --------------------------------------------------------------------------------


def test_the_users_own_settings_name_the_remote(tmp_path: Path) -> None:
    own = tmp_path / "parley.toml"
    own.write_text('[hosts]\nremote = "ssh://git@example.org:2222/~/parley.git"\n')

    assert read_own(own).hosts.remote == "ssh://git@example.org:2222/~/parley.git"
    assert parse(tmp_path, b"", own.read_bytes(), own).hosts.remote.startswith("ssh://")


def test_no_repository_names_it(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="hosts: no repository says where your jobs' files are sent"):
        parse(tmp_path, b'[hosts]\nremote = "/srv/x.git"\n')


def test_the_users_origin_is_never_used(place: Mirrored, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "origin.git")
    git(place.user.root, "remote", "add", "origin", str(tmp_path / "origin.git"))

    place.mirror.send(place.order())

    assert git(tmp_path / "origin.git", "for-each-ref") == ""


def test_a_remote_that_is_a_path_keeps_what_many_pushes_made_in_one_file(
    place: Mirrored, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_remote, "PUSHES_A_TIDYING", 3)

    for _ in range(3):
        place.mirror.send(place.order())

    kept = (place.bare / "packed-refs").read_text(encoding="utf-8")
    apart = [path for path in (place.bare / "refs").rglob("*") if path.is_file()]
    assert all(f"/t{turn}/1/sent/" in kept for turn in (1, 2))
    assert not [path for path in apart if "/t1/" in str(path) or "/t2/" in str(path)]
    assert len(place.refs()) > len(apart)  # the last push's are there, too


def test_a_remote_that_is_a_path_keeps_what_is_pushed_in_a_few_files(
    place: Mirrored, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_remote, "PUSHES_A_TIDYING", 3)

    shipped = [place.mirror.send(place.order()) for _ in range(9)]

    objects = [path for path in (place.bare / "objects").rglob("*") if path.is_file()]
    assert sum(path.suffix == ".pack" for path in objects) < 6  # of nine
    assert not [path for path in objects if path.parent.name not in ("pack", "info")]
    git(place.bare, "fsck", "--strict", *(each.commit for each in shipped))


@pytest.mark.parametrize(
    "url",
    [
        "", "origin", "relative/path", "git@example.org:x.git", "http://example.org/x", "git://example.org/x",
        "ext::sh -c x", "file:///srv/x", "ssh://-oProxyCommand=x/y", "ssh://example.org",
        "https://example.org /x", "/srv/x\ny",
    ],
)  # fmt: skip
def test_what_is_no_remote_is_refused_with_what_to_write(url: str) -> None:
    with pytest.raises(MirrorError, match=r'^\[hosts\] remote: .* is no git remote; write "ssh://') as caught:
        Remote(url)
    assert "\n" not in str(caught.value)


def test_a_password_in_the_address_is_not_shown() -> None:
    assert Remote("https://me:s3cret@example.org/x.git").shown == "https://example.org/x.git"


# ---- nothing runs --------------------------------------------------------------------------------


def test_no_hook_setting_or_program_of_the_user_or_the_remote_runs(
    place: Mirrored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    traps = tmp_path / "traps"
    fill(traps, {"trap": f"#!/bin/sh\ntouch {traps}/sprung\nexit 1\n"}, ["trap"])
    hooks = (
        "pre-receive",
        "update",
        "post-receive",
        "post-update",
        "reference-transaction",
        "proc-receive",
        "pre-push",
    )
    for folder in (place.bare / "hooks", traps / "hooks"):
        fill(folder, dict.fromkeys(hooks, f"#!/bin/sh\ntouch {traps}/sprung\n"), hooks)
    with (place.bare / "config").open("a") as file:
        file.write(f"[core]\n\talternateRefsCommand = {traps}/trap\n\tfsmonitor = {traps}/trap\n")
    (place.bare / "objects/info/alternates").write_text(f"{place.user.root}/.git/objects\n")
    settings = (
        f"[core]\n\thooksPath = {traps}/hooks\n\tsshCommand = {traps}/trap\n[credential]\n\thelper = {traps}/trap\n"
    )
    settings += (
        f'[filter "x"]\n\tclean = {traps}/trap\n\tsmudge = {traps}/trap\n[url "ext::{traps}/trap"]\n\tinsteadOf = /\n'
    )
    fill(tmp_path / "home", {".gitconfig": settings})
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GIT_SSH_COMMAND", f"{traps}/trap")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.hooksPath")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", f"{traps}/hooks")
    order, host = place.order(), place.host()
    fill(Path(order.site.workspace), {".gitattributes": "* filter=x\n", "f": "f"})

    laid, _ = place.there(host, order)
    place.back(host, order, laid)
    place.mirror.drop([order])
    delete_refs(place.mirror.home, place.remote, "bus", order.job)

    assert not (traps / "sprung").exists()


@pytest.fixture
def by_ssh(place: Mirrored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An `ssh` that runs here what it was told to run there."""
    script = f'#!/bin/sh\necho "$@" >> {tmp_path}/said\nfor word; do last=$word; done\nexec sh -c "$last"\n'
    fill(tmp_path / "bin", {"ssh": script}, ["ssh"])
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    return tmp_path / "bin/ssh"


def test_a_place_goes_by_ssh_which_asks_no_person(place: Mirrored, by_ssh: Path, tmp_path: Path) -> None:
    remote = Remote(f"ssh://git@example.org{place.bare}")
    coordinator, host = PlaceMirror(place.mirror.home, remote), PlaceMirror(tmp_path / "b", remote)
    order = place.order()

    laid = host.lay_out(without_room(order), coordinator.send(order))
    write(Path(laid.site.workspace), {"new": "new"})
    coordinator.take_back(order, host.give_back(order, laid))

    assert (Path(order.site.workspace) / "new").read_text() == "new"
    assert all("-oBatchMode=yes" in line for line in (tmp_path / "said").read_text().splitlines())


# ---- trouble -------------------------------------------------------------------------------------


def one_line(caught: pytest.ExceptionInfo[MirrorError]) -> str:
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_remote_that_is_not_there_is_told_in_one_line_and_the_send_can_be_tried_again(place: Mirrored) -> None:
    order = place.order()
    away = place.bare.rename(place.bare.with_suffix(".away"))

    with pytest.raises(RemoteTrouble) as caught:
        place.mirror.send(order)
    assert one_line(caught).startswith(
        f"{place.bare} could not be written to: fatal: '{place.bare}' does not appear to be a git repository; see that"
    )

    away.rename(place.bare)
    place.host().lay_out(without_room(order), place.mirror.send(order))


def test_a_remote_that_goes_away_before_the_result_is_fetched_leaves_everything_as_it_was(place: Mirrored) -> None:
    order, host = place.order(), place.host()
    laid, _ = place.there(host, order)
    write(Path(laid.site.workspace), {"new": "new"})
    back = host.give_back(order, laid)
    before = tree_of(Path(order.site.workspace))
    away = place.bare.rename(place.bare.with_suffix(".away"))

    with pytest.raises(RemoteTrouble, match="could not be read: "):
        place.mirror.take_back(order, back)
    assert tree_of(Path(order.site.workspace)) == before

    away.rename(place.bare)
    place.mirror.take_back(order, back)
    assert (Path(order.site.workspace) / "new").read_text() == "new"


def test_a_ref_that_is_gone_is_told(place: Mirrored) -> None:
    order = place.order()
    sent = place.mirror.send(order)
    place.mirror.drop([order])

    with pytest.raises(RemoteTrouble, match=r"could not be read: .*couldn't find remote ref"):
        place.host().lay_out(without_room(order), sent)


def test_a_remote_that_refuses_says_why(place: Mirrored) -> None:
    git(place.bare, "config", "transfer.hideRefs", "refs/parley")

    with pytest.raises(RemoteTrouble, match=r"could not be written to: .*deny updating a hidden ref") as caught:
        place.mirror.send(place.order())
    assert one_line(caught).endswith("([hosts] remote in your own settings)")


def test_a_slow_remote_is_waited_for_so_long_and_no_longer(place: Mirrored, by_ssh: Path) -> None:
    by_ssh.write_text("#!/bin/sh\nexec sleep 60\n")
    mirror = PlaceMirror(place.mirror.home, Remote("ssh://example.org/x.git"), patience_seconds=0.3)

    with pytest.raises(RemoteTrouble, match=r"ssh://example.org/x.git could not be written to within 0.3 s") as caught:
        mirror.send(place.order())
    one_line(caught)


def test_a_user_who_gives_up_the_job_does_not_wait_for_a_slow_remote(place: Mirrored, by_ssh: Path) -> None:
    by_ssh.write_text("#!/bin/sh\nexec sleep 60\n")
    mirror = PlaceMirror(place.mirror.home, Remote("ssh://example.org/x.git"), given_up=lambda job: True)

    with pytest.raises(Exception, match="the job is given up"):
        mirror.send(place.order())


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A disk of its own, or skip: only root can mount one."""
    folder.mkdir()
    words = ("mount", "-t", "tmpfs", "-o", f"size={size},mode=0755", "none", folder)
    if subprocess.run(words, check=False, capture_output=True).returncode:
        pytest.skip("this user can't mount a small filesystem")
    try:
        yield folder
    finally:
        subprocess.run(("umount", "-l", folder), check=True)


def test_a_hosts_full_disk_is_told_as_such_and_what_is_half_there_is_never_used(
    place: Mirrored, tmp_path: Path
) -> None:
    order = place.order()
    fill(Path(order.site.workspace), {"large": os.urandom(3 << 20)})
    sent = place.mirror.send(order)
    with small_disk(tmp_path / "disk", "32m") as disk:
        host = PlaceMirror(disk / "home", place.remote)
        filler = disk / "filler"
        for free in (1 << 20, 4 << 20):  # too little to fetch it; enough to fetch, too little to lay it out
            filler.write_bytes(bytes((32 << 20) - free))
            with pytest.raises(MirrorError, match=r"full|no room|No space") as caught:
                host.lay_out(without_room(order), sent)
            one_line(caught)
            assert not isinstance(caught.value, RemoteTrouble), "it is this machine's disk"
        filler.unlink()

        laid = host.lay_out(without_room(order), sent)
        assert tree_of(Path(laid.site.workspace)) == tree_of(Path(order.site.workspace))


def test_a_remotes_full_disk_is_the_remotes(place: Mirrored, tmp_path: Path) -> None:
    order = place.order()
    fill(Path(order.site.workspace), {"large": os.urandom(2 << 20)})
    with small_disk(tmp_path / "disk", "1m") as disk:
        git(disk, "init", "-q", "--bare", "r.git")
        mirror = PlaceMirror(place.mirror.home, Remote(f"{disk}/r.git"))

        with pytest.raises(RemoteTrouble, match=r"the disk of the remote \S+/r\.git is full") as caught:
            mirror.send(order)
        one_line(caught)
