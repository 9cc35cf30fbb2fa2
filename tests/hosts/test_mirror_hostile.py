"""Nothing that comes back is trusted: a host may be in an agent's hands, and so may the remote."""

import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from parley.hosts.mirror.folder_packing import FOLDER, Modes, write_tree
from parley.hosts.mirror.mirror_errors import MirrorError, PlaceRefused
from parley.hosts.mirror.mirror_repository import MirrorRepository
from parley.hosts.mirror.place_manifest import BACK, Manifest, PartNote
from parley.hosts.mirror.place_mirror import Shipped
from parley.ports.turns import Order
from parley.settings.schema import WorkspaceSettings
from parley.workspaces.job_repository import MIRROR
from tests.hosts.mirrored_place import JOB, Mirrored, fill, tree_of, write

Entry = tuple[bytes, str, str]
REGULAR, LINK = "100644", "120000"


@dataclass
class Forger:
    """A host that puts what it likes on the remote."""

    place: Mirrored
    order: Order
    number: int = 0

    def __post_init__(self) -> None:
        folder = self.place.base / "forger"
        folder.mkdir()
        (folder / MIRROR).symlink_to(self.place.bare)  # straight into the remote: no git has checked it
        self.mirror = MirrorRepository(folder, "sha1")

    def blob(self, data: bytes = b"forged") -> str:
        return self.mirror.objects.write("blob", data)

    def tree(self, *entries: Entry) -> str:
        return write_tree(self.mirror, entries)

    def raw(self, kind: str, data: bytes) -> str:
        return self.mirror.objects.write(kind, data)

    def manifest(self, **more: Any) -> bytes:
        back = ("work", f"homes/{Path(self.order.home).name}", "gitdirs/job.git")
        given = {
            "kind": BACK,
            "job": JOB,
            "turn": self.order.turn,
            "epoch": 1,
            "folder": "/elsewhere/jobs/j1",
            "workspace": "/elsewhere/jobs/j1/work",
            "parts": tuple(PartNote(path, Modes()) for path in back),
        }
        return Manifest(**{**given, **more}).data()

    def place_tree(self, workspace: str, home: str = "", manifest: bytes | None = None) -> str:
        empty = self.tree()
        parts = self.tree((b"0", FOLDER, workspace), (b"1", FOLDER, home or empty), (b"2", FOLDER, empty))
        said = self.blob(manifest if manifest is not None else self.manifest())
        return self.tree((b"manifest", REGULAR, said), (b"parts", FOLDER, parts))

    def push(self, tree: str) -> Shipped:
        self.number += 1
        ref = f"refs/parley/bus/j1/turns/{self.order.turn}/1/back/{self.number}"
        commit = self.mirror.commit(tree)
        self.mirror.set_ref(ref, commit)
        return Shipped(commit, ref)


@pytest.fixture(scope="module")
def forger(tmp_path_factory: pytest.TempPathFactory) -> Forger:
    """One turn that is out for the whole file: what is refused changes nothing."""
    place = Mirrored(tmp_path_factory.mktemp("hostile"))
    place.user.settings = WorkspaceSettings(quota_mb=4, files=1000)
    place.user.again()
    order = place.order()
    fill(Path(order.home), {"mine": "mine"})
    place.mirror.send(order)
    return Forger(place, order)


def refused(forger: Forger, shipped: Shipped, words: str) -> None:
    """It is refused with one line, and nothing was changed."""
    folders = [Path(forger.order.site.workspace), Path(forger.order.home)]
    before = [tree_of(folder) for folder in folders]
    with pytest.raises(MirrorError, match=words) as caught:
        forger.place.mirror.take_back(forger.order, shipped)
    assert "\n" not in str(caught.value)
    assert [tree_of(folder) for folder in folders] == before


@pytest.mark.parametrize(
    "name",
    [b"%.git", b"%.GIT", b"%git~1", b"%.g\xe2\x80\x8cit", b"%.git.", b"%.git ", b"%a\\.git", "%．ｇｉｔ".encode()],  # noqa: RUF001 - full width
)
def test_gits_own_folder_is_refused_in_any_spelling(forger: Forger, name: bytes) -> None:
    hook = forger.tree((b"config", REGULAR, forger.blob()))
    below = forger.tree((name, FOLDER, hook))

    refused(forger, forger.push(forger.place_tree(forger.tree((b"sub", FOLDER, below)))), "its name is git's own")


@pytest.mark.parametrize("name", [b"..", b".", b"%..", b"%a", b"%", b"x" * 256, b".gitignore"])
def test_no_name_leads_elsewhere(forger: Forger, name: bytes) -> None:
    tree = forger.tree((name, REGULAR, forger.blob()))

    refused(forger, forger.push(forger.place_tree(tree)), r"is no name of a file|its name is git's own")


def test_a_malformed_tree_is_refused(forger: Forger) -> None:
    blob = bytes.fromhex(forger.blob())
    twice = forger.raw("tree", b"100644 a\0" + blob + b"100644 a\0" + blob)
    slash = forger.raw("tree", b"100644 a/b\0" + blob)
    for tree in (twice, slash):
        refused(forger, forger.push(forger.place_tree(tree)), "a tree of it is malformed")


def test_a_file_below_a_link_can_not_be_packed_and_none_is_written_through(forger: Forger, tmp_path: Path) -> None:
    """A link and a folder of one name make a malformed tree; a link that lies here already is replaced."""
    (tmp_path / "victim").write_text("victim")
    link = (b"x", LINK, forger.blob(os.fsencode(tmp_path)))
    folder = (b"x", FOLDER, forger.tree((b"victim", REGULAR, forger.blob())))
    refused(forger, forger.push(forger.place_tree(forger.tree(link, folder))), "a tree of it is malformed")

    place = Mirrored(tmp_path / "own")
    order, host = place.order(), place.host()
    laid, _ = place.there(host, order)
    write(Path(laid.site.workspace), {"sub2/victim": "new"})
    back = host.give_back(order, laid)
    (Path(order.site.workspace) / "sub2").symlink_to(tmp_path)
    (Path(order.site.workspace) / "a.txt").unlink()
    (Path(order.site.workspace) / "a.txt").symlink_to(tmp_path / "victim")

    place.mirror.take_back(order, back)

    assert (tmp_path / "victim").read_text() == "victim"
    assert (Path(order.site.workspace) / "sub2/victim").read_text() == "new"
    assert (Path(order.site.workspace) / "a.txt").read_text() == "a\n"


def test_a_folder_of_the_coordinators_that_became_a_link_is_not_followed(tmp_path: Path) -> None:
    place = Mirrored(tmp_path)
    order, host = place.order(), place.host()
    laid, _ = place.there(host, order)
    fill(Path(laid.home), {"x": "x"})
    back = host.give_back(order, laid)
    fill(tmp_path / "outside", {"mine": "mine"})
    Path(order.home).parent.mkdir(exist_ok=True)
    Path(order.home).symlink_to(tmp_path / "outside")

    place.mirror.take_back(order, back)

    assert tree_of(tmp_path / "outside").keys() == {b"mine"}
    assert (Path(order.home) / "x").read_text() == "x"
    assert not Path(order.home).is_symlink()


@pytest.mark.parametrize("mode", ["160000", "100666", "040000", "0", "120777"])
def test_only_files_links_and_folders_are_taken(forger: Forger, mode: str) -> None:
    tree = forger.tree((b"x", mode, forger.tree() if mode == "040000" else forger.blob()))

    refused(forger, forger.push(forger.place_tree(tree)), "has the mode")


def test_a_few_trees_that_name_each_other_very_often_are_refused(forger: Forger) -> None:
    tree = forger.tree((b"f", REGULAR, forger.blob()))
    for _ in range(12):
        tree = forger.tree(*((f"{number}".encode(), FOLDER, tree) for number in range(10)))

    refused(forger, forger.push(forger.place_tree(tree)), "there are too many files")


def test_a_tree_that_is_too_deep_is_refused(forger: Forger) -> None:
    tree = forger.tree((b"f", REGULAR, forger.blob()))
    for _ in range(210):
        tree = forger.tree((b"d", FOLDER, tree))

    refused(forger, forger.push(forger.place_tree(tree)), "lies too deep")


def test_what_is_small_on_the_way_and_large_on_the_disk_is_refused(forger: Forger) -> None:
    zeros = forger.blob(bytes(8 << 20))
    assert len(zlib.compress(bytes(8 << 20))) < 10_000

    refused(
        forger,
        forger.push(forger.place_tree(forger.tree((b"x", REGULAR, zeros)))),
        "it takes more than the job's quota",
    )


def test_a_pack_that_is_larger_than_the_quota_is_not_even_stored(
    forger: Forger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parley.hosts.mirror.place_mirror.SLACK_BYTES", 0)
    entries = [(f"{number}".encode(), REGULAR, forger.blob(os.urandom(60_000))) for number in range(120)]
    shipped = forger.push(forger.place_tree(forger.tree(*entries)))

    refused(forger, shipped, "has more bytes than the job may take")


def test_a_long_link_is_refused(forger: Forger) -> None:
    tree = forger.tree((b"x", LINK, forger.blob(b"y" * 5000)))

    refused(forger, forger.push(forger.place_tree(tree)), "is a link with 5000 bytes")


MANIFESTS: dict[str, Callable[[Forger], bytes]] = {
    "malformed": lambda forger: b"{",
    "malformed: ": lambda forger: msgspec.json.encode({"form": 1}),
    "another version of Parley": lambda forger: forger.manifest(form=2),
    "is the place of turn 't9'": lambda forger: forger.manifest(turn="t9"),
    "is the place of turn 't1' of job 'j2'": lambda forger: forger.manifest(job="j2"),
    "and t1 of j1 was announced": lambda forger: forger.manifest(epoch=2),
    "and t1 of j1 was": lambda forger: forger.manifest(kind="sent"),
    "it has other parts than the turn": lambda forger: forger.manifest(parts=()),
    "it has other parts": lambda forger: forger.manifest(
        parts=tuple(PartNote(path, Modes()) for path in ("../../../x", "work", "y"))
    ),
    "malformed (": lambda forger: forger.manifest(folder="\u20ac"),
}


@pytest.mark.parametrize("words", MANIFESTS)
def test_a_manifest_that_is_not_this_turns_is_refused(forger: Forger, words: str) -> None:
    said = MANIFESTS[words](forger)
    shipped = forger.push(forger.place_tree(forger.tree(), manifest=said))

    refused(forger, shipped, words.rstrip(": ").replace("(", r"\("))


def test_a_commit_that_is_no_place_is_refused(forger: Forger) -> None:
    refused(forger, forger.push(forger.tree((b"x", REGULAR, forger.blob()))), "is no place of a turn")
    top = forger.tree((b"manifest", FOLDER, forger.tree()), (b"parts", FOLDER, forger.tree()))
    refused(forger, forger.push(top), "is no place of a turn")


def test_a_file_that_reads_like_a_commit_is_refused(forger: Forger) -> None:
    shipped = forger.push(forger.place_tree(forger.tree()))
    seeming = forger.blob(f"tree {forger.mirror.tree(shipped.commit)}\n\nno commit\n".encode())
    forger.mirror.set_ref(shipped.ref, seeming)
    refused(forger, Shipped(seeming, shipped.ref), "is no commit of a place")


def test_another_commit_than_the_announced_one_is_refused(forger: Forger) -> None:
    shipped = forger.push(forger.place_tree(forger.tree()))
    other = forger.mirror.commit(forger.tree((b"x", REGULAR, forger.blob())))

    refused(forger, Shipped(other, shipped.ref), f"under {shipped.ref}, and {other[:12]} was announced")


@pytest.mark.parametrize(
    "ref",
    [
        "refs/heads/main",
        "refs/parley/bus/j1/turns/t2/1/back/1",
        "refs/parley/bus/j2/turns/t1/1/back/1",
        "refs/parley/bus/j1/turns/t1/1/back/1:refs/heads/x",
        "refs/parley/bus/j1/turns/t1/1/back/../../x",
        "--upload-pack=x",
    ],
)
def test_a_ref_that_is_not_the_turns_is_never_fetched(forger: Forger, ref: str) -> None:
    refused(forger, Shipped("0" * 40, ref), "is no ref of turn t1 of job j1")


@pytest.mark.parametrize("commit", ["", "x", "HEAD", "0" * 41, "-" * 40])
def test_what_is_no_commit_is_never_fetched(forger: Forger, commit: str) -> None:
    refused(forger, Shipped(commit, "refs/parley/bus/j1/turns/t1/1/back/1"), "is no name of a git object|is no ref of")


def test_permissions_that_come_back_never_give_more_than_a_file_can_have(tmp_path: Path) -> None:
    place = Mirrored(tmp_path)
    order = place.order()
    place.mirror.send(order)
    forger = Forger(place, order)
    tree = forger.tree((b"s", "100755", forger.blob()), (b"d", FOLDER, forger.tree((b"f", REGULAR, forger.blob()))))
    odd = Modes(odd={"s": 0o6755, "d": 0, "d/f": 0, "../../x": 0o777})
    notes = tuple(PartNote(path, odd) for path in ("work", f"homes/{Path(order.home).name}", "gitdirs/job.git"))

    place.mirror.take_back(order, forger.push(forger.place_tree(tree, manifest=forger.manifest(parts=notes))))

    found = tree_of(Path(order.site.workspace))
    assert {path: mode for path, (_, mode, _) in found.items()} == {b"s": 0o755, b"d": 0o700, b"d/f": 0o400}


def test_after_all_of_that_the_turns_own_result_is_taken(forger: Forger) -> None:
    home = forger.tree((b"notes", REGULAR, forger.blob(b"n")))
    tree = forger.tree((b"new", REGULAR, forger.blob(b"new")), (b"%.gitignore", REGULAR, forger.blob(b"x\n")))

    forger.place.mirror.take_back(forger.order, forger.push(forger.place_tree(tree, home)))

    assert tree_of(Path(forger.order.site.workspace)).keys() == {b"new", b".gitignore"}
    assert tree_of(Path(forger.order.home)).keys() == {b"notes"}


def test_a_refusal_is_told_apart_from_what_may_be_tried_again(forger: Forger) -> None:
    with pytest.raises(PlaceRefused):
        forger.place.mirror.take_back(forger.order, forger.push(forger.tree()))
