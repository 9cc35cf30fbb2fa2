"""What Parley takes for changed is what git would, for any tree and any rules: though git never sees the folder."""

import os
import shutil
import stat
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parley.workspaces.files import changed_paths as module
from parley.workspaces.files.changed_paths import ComparedFolder, differing, new
from parley.workspaces.files.known_blobs import KnownBlobs
from parley.workspaces.files.safe_walk import walk
from parley.workspaces.files.scan import survey, users_changes
from parley.workspaces.job_repository import JobRepository
from parley.workspaces.safe_git import LooseObjects, create
from tests.workspaces.user_repository import JOB, ROOT, git, write
from tests.workspaces.user_repository import UserRepository as Repository

NAMES = st.sampled_from(
    ["a", "b", "c.o", "build", "x y", "é", ":(glob)a", "*", "-n", ".hid", "INTENT.md", "orchestration"]
)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
ATOMS = st.sampled_from(
    ["a", "b", "*.o", "build", "*", "?", "[ab]", "x y", "é", "**", "\\*", ".hid", "INTENT.md", "c.*"]
)
PATTERNS = st.builds(
    lambda not_, root, parts, end: f"{not_}{root}{'/'.join(parts)}{end}",
    st.sampled_from(["", "", "!"]),
    st.sampled_from(["", "/"]),
    st.lists(ATOMS, min_size=1, max_size=2),
    st.sampled_from(["", "/", " "]),
)
RULES = st.lists(PATTERNS, max_size=4).map(lambda lines: "".join(f"{line}\n" for line in lines))
KINDS = st.sampled_from(["file", "file", "file", "program", "link", "pipe", "folder", "repository"])
DEEDS = st.lists(st.tuples(st.sampled_from(["put", "put", "remove", "rename"]), PATHS, KINDS, PATHS), max_size=8)


def put(root: Path, path: str, kind: str) -> None:
    """Make something at a path, unless what is there stands in its way."""
    place = root / path
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        if kind == "folder":
            place.mkdir()
        elif kind == "repository":
            place.mkdir()
            git(place, "init", "-q")
        elif kind == "pipe":
            os.mkfifo(place)
        elif kind == "link":
            place.symlink_to("a")
        elif not place.is_symlink():
            place.write_text(f"{kind} {path}\n")
            place.chmod(0o755 if kind == "program" else 0o644)
    except OSError:
        return


def do(root: Path, deed: str, path: str, kind: str, other: str) -> None:
    if deed == "put":
        put(root, path, kind)
    elif deed == "remove":
        shutil.rmtree(root / path, ignore_errors=True)
        if os.path.lexists(root / path) and not (root / path).is_dir():
            (root / path).unlink()
    else:
        try:
            (root / other).parent.mkdir(parents=True, exist_ok=True)
            (root / path).rename(root / other)
        except OSError:
            return


class Copy:
    """A folder, a repository that tracks it, and what is known of it."""

    def __init__(self, base: Path) -> None:
        self.root = base / "work"
        self.root.mkdir()
        self.git = create(base / "own.git", "sha1")
        (self.git.folder / "info" / "exclude").write_text("*.cache\n")
        self.index = base / "index"
        self.repository = JobRepository(base)
        self.repository.git = self.git
        self.repository.__dict__["objects"] = LooseObjects(self.git.folder, "sha1")
        self.known = KnownBlobs(base / "known")
        self.git("read-tree", "--empty", index=self.index)

    def track(self) -> None:
        """Take all that is there, what is ignored included."""
        self.git("add", "-A", "--force", ".", work=self.root, index=self.index)

    def ours(self) -> list[str]:
        place = ComparedFolder(
            git=self.git, folder=self.root, beside=self.root.parent, object_format="sha1", known=self.known
        )
        self.known.begin()
        found = survey(self.root, 10_000, 1 << 30)
        try:
            return sorted(differing(place, found, self.repository.indexed(self.index)))
        finally:
            self.known.keep(found.held)

    def gits(self) -> list[str]:
        return sorted(users_changes(self.git, self.root, self.index))


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    first=st.lists(st.tuples(PATHS, st.sampled_from(["file", "program", "link"])), max_size=8),
    rules=st.dictionaries(st.sampled_from(["", "a/", "build/", "a/b/"]), RULES, max_size=3),
    deeds=DEEDS,
    many=st.booleans(),
)
def test_the_same_paths_differ_as_git_says(
    first: list[tuple[str, str]], rules: dict[str, str], deeds: list[tuple[str, str, str, str]], many: bool
) -> None:
    with tempfile.TemporaryDirectory() as base, pytest.MonkeyPatch.context() as patch:
        copy = Copy(Path(base))
        patch.setattr(module, "AT_ONCE", 0 if many else 5000)
        for path, kind in first:
            put(copy.root, path, kind)
        copy.track()
        assert copy.ours() == copy.gits() == []
        for folder, text in rules.items():
            if (copy.root / folder).is_dir() or not os.path.lexists(copy.root / folder.rstrip("/")):
                try:
                    write(copy.root, {f"{folder}.gitignore": text})
                except OSError:
                    continue
        for deed in deeds:
            do(copy.root, *deed)
        assert copy.ours() == copy.gits()


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path)


def test_a_change_that_leaves_size_and_time_alone_is_seen(copy: Copy) -> None:
    write(copy.root, {"a": "one"})
    copy.track()
    assert copy.ours() == []
    before = (copy.root / "a").stat()
    (copy.root / "a").write_text("two")
    os.utime(copy.root / "a", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert copy.ours() == ["a"]


def test_a_change_in_the_same_moment_as_the_look_is_seen(copy: Copy) -> None:
    """However coarse the filesystem's clock is: what is as new as the look is read again."""
    for number in range(50):
        write(copy.root, {"a": f"{number:03}"})
        copy.track()
        assert copy.ours() == []
        (copy.root / "a").write_bytes(b"%03d" % (number + 500))
        assert copy.ours() == ["a"]


def test_what_did_not_change_is_not_read_again(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    write(copy.root, {f"d/{number}": str(number) for number in range(20)})
    copy.track()
    time.sleep(0.05)  # so that nothing is as new as the look
    assert copy.ours() == []
    read: list[str] = []
    real = module._read

    def reading(place: ComparedFolder, path: str) -> tuple[str, str] | None:
        read.append(path)
        return real(place, path)

    monkeypatch.setattr(module, "_read", reading)
    copy.known = KnownBlobs(copy.root.parent / "known")  # as another process has it
    (copy.root / "d/7").write_text("x")
    assert (copy.ours(), read) == (["d/7"], ["d/7"])


def test_a_cache_that_was_spoilt_is_no_harm(copy: Copy) -> None:
    write(copy.root, {"a": "a"})
    copy.track()
    for text in (b"", b"[", b"[1, 2]", b'[1, {"a": 3}]', b"[" * 5000, b"\xff"):
        (copy.root.parent / "known").write_bytes(text)
        copy.known = KnownBlobs(copy.root.parent / "known")
        assert copy.ours() == []


def test_a_folder_that_is_new_stands_for_all_in_it(copy: Copy) -> None:
    write(copy.root, {"t/a": "a", ".gitignore": "skip/\n*.o\n"})
    copy.track()
    write(copy.root, {"t/new": "", "n/x": "", "n/m/y": "", "skip/z": "", "t/q/w": "", "t/x.o": ""})
    (copy.root / "empty").mkdir()
    git(copy.root, "init", "-q", "t/repo")
    place = ComparedFolder(
        git=copy.git, folder=copy.root, beside=copy.root.parent, object_format="sha1", known=copy.known
    )
    found = new(place, survey(copy.root, 1000, 1 << 30), copy.repository.indexed(copy.index), whole=True)
    assert sorted(found) == ["empty", "n", "t/new", "t/q", "t/repo"]


# ---- the walk ------------------------------------------------------------------------------------------


def deep(root: Path, levels: int, name: str = "d") -> int:
    """Folders in each other, deeper than any path is long."""
    here = os.open(root, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=here)
        below = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    return here


def test_a_tree_of_any_depth_is_walked_with_one_descriptor(tmp_path: Path) -> None:
    bottom = deep(tmp_path, 3000, "a" * 20)
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=bottom))
    os.close(bottom)
    held = len(list(Path("/proc/self/fd").iterdir()))
    most = 0
    seen = 0
    for folder in walk(tmp_path):
        seen += sum(not stat.S_ISDIR(status.st_mode) for _, status in folder.entries)
        most = max(most, len(list(Path("/proc/self/fd").iterdir())) if seen else 0)
    assert (seen, most - held) == (1, 1)
    found = survey(tmp_path, 10_000, 1 << 20)
    assert (found.files, len(found.deep)) == (3001, 1)
    assert subprocess.run(["rm", "-rf", str(tmp_path / ("a" * 20))], check=False).returncode == 0


def test_a_folder_that_is_moved_away_while_it_is_walked_ends_the_walk(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    (inside / "a" / "b" / "c").mkdir(parents=True)
    outside.mkdir()
    seen: list[str] = []

    def look() -> None:
        for folder in walk(inside):
            seen.append(folder.path)
            if folder.path == "a/b":
                (inside / "a" / "b").rename(outside / "b")

    with pytest.raises(OSError, match="moved while they are scanned"):
        look()
    assert set(seen) <= {"", "a", "a/b", "a/b/c"}


def test_a_deep_tree_costs_its_files_and_nothing_else(place: Repository) -> None:
    work = place.prepare()
    os.close(deep(work, 1200))
    kept = place.turn(ROOT, {"x": "x"})
    assert "x" in place.committed()
    assert any("more than 200 folders deep" in line for line in kept.left_out)
    place.trees.retire(JOB, ROOT)
    assert subprocess.run(["rm", "-rf", str(work / "d")], check=False).returncode == 0
