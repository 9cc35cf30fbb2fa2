"""The commits that an agent can read by git inside its boundary, carried as files of a tree and made commits again.

They can't be pushed as commits: the history that jobs start from is cut after some commits, and git servers refuse to
take a history without its beginning. So each commit goes as a folder of its own name, with the bytes of the commit and
its tree; made again from its bytes, it has the same name.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from parley.hosts.mirror.folder_packing import FOLDER, write_tree
from parley.hosts.mirror.mirror_errors import PlaceRefused
from parley.hosts.mirror.mirror_repository import MirrorRepository
from parley.hosts.mirror.place_listing import PARTS, TURNS, read_tree
from parley.workspaces.files.known_blobs import REGULAR
from parley.workspaces.files.safe_delete import discard
from parley.workspaces.files.tree_entry import TreeEntry
from parley.workspaces.job_repository import JobRepository
from parley.workspaces.safe_git import Git, LooseObjects, ObjectReader, quoted

COMMIT, TREE, SHALLOW = b"commit", b"tree", b"shallow"
TIP, LOG, BASE = b"tip", b"log", b"base"
COMMIT_BYTES = 16 << 20
DRAFT_SECONDS = 86400  # one that is older was left by a crash
PACKS = 40  # one for each turn that brings commits; then they are made anew


def pack_base(mirror: MirrorRepository, bases: Path, base: str) -> str:
    """The tree with the commits that a job started from, and where their history is cut.

    Its files also lie where a place has its workspace and the tip of its commits: git looks for what another tree has
    already at the same paths.
    """
    git = Git(bases / base)
    shallow = git.folder / "shallow"
    cut = mirror.objects.write("blob", shallow.read_bytes() if shallow.is_file() else b"")
    commits = git.text("rev-list", base).split()
    with git.contents() as reader:
        packed = write_tree(mirror, [*_packed(mirror, reader, commits), (SHALLOW, REGULAR, cut)])
    files = git.text("rev-parse", f"{base}^{{tree}}")
    tip = write_tree(mirror, [(TREE, FOLDER, files)])
    seeming = {PARTS: [(b"0", FOLDER, files)], TURNS: [(TIP, FOLDER, tip)]}
    alike = [(name, FOLDER, write_tree(mirror, entries)) for name, entries in seeming.items()]
    return write_tree(mirror, [(BASE, FOLDER, packed), *alike])


def pack_turns(mirror: MirrorRepository, repository: JobRepository, tips: Sequence[str], base: str) -> str:
    """The tree with the commits of a job that lead to some commits; the first has a place of its own."""
    without = [f"^{base}"] if base else []
    commits = dict.fromkeys([*tips[:1], *repository.git.text("rev-list", *tips, *without).split()])
    with repository.git.contents() as reader:
        (_, mode, tip), *others = _packed(mirror, reader, commits)
    return write_tree(mirror, [(TIP, mode, tip), (LOG, FOLDER, write_tree(mirror, others))])


def _packed(mirror: MirrorRepository, reader: ObjectReader, commits: Iterable[str]) -> Iterator[tuple[bytes, str, str]]:
    for name in commits:
        data = reader.whole(name)
        tree = data.partition(b"\n")[0].removeprefix(b"tree ").decode("ascii")
        inside = [(COMMIT, REGULAR, mirror.objects.write("blob", data)), (TREE, FOLDER, tree)]
        yield name.encode(), FOLDER, write_tree(mirror, inside)


def lay_base(mirror: MirrorRepository, packed: str, bases: Path, base: str) -> None:
    """Make the frozen repository of a base from the commit that holds it packed, unless it is there."""
    place = bases / base
    if place.is_dir():
        os.utime(place)  # a host deletes what has long not been needed
        return
    bases.mkdir(parents=True, exist_ok=True)
    for left in bases.glob(".draft-*"):
        if time.time() - left.stat().st_mtime > DRAFT_SECONDS:
            discard(left)
    with draft_of(mirror, bases, [mirror.git.folder]) as git, mirror.git.contents() as reader:
        entries = read_tree(reader, _folder(read_tree(reader, mirror.tree(packed)), BASE))
        cut = reader.whole(entries[SHALLOW].name) if SHALLOW in entries else b""
        if cut:
            (git.folder / "shallow").write_bytes(cut)
        if base not in unpack(git, mirror, reader, [entry for name, entry in entries.items() if name != SHALLOW]):
            raise PlaceRefused(f"the commit {base} was announced and is not there; it is refused")
        write_pack(git, git.folder / "objects", [base], [])
        git("prune-packed", "--quiet")
        (git.folder / "objects/info/alternates").unlink()
        try:
            git.folder.rename(place)
        except OSError:
            if not place.is_dir():  # no other turn was first
                raise


def lay_turns(mirror: MirrorRepository, tree: str, folder: Path, tips: Sequence[str], bases: Path, base: str) -> None:
    """Bring the commits that an agent can read up to date; `folder` is what is bound for it."""
    mark = mirror.git.folder / f"turns-{folder.parent.name}"
    known = mark.read_text(encoding="ascii").split() if mark.is_file() and (folder / "pack").is_dir() else []
    if known == list(tips):
        return
    mark.unlink(missing_ok=True)
    if not known or sum(path.suffix == ".pack" for path in (folder / "pack").iterdir()) >= PACKS:
        discard(folder)
        known = []
    (folder / "pack").mkdir(parents=True, exist_ok=True)
    others = [mirror.git.folder, *([bases / base] if base else [])]
    with draft_of(mirror, mirror.git.folder, others) as git, mirror.git.contents() as reader:
        shallow = bases / base / "shallow" if base else None
        if shallow is not None and shallow.is_file():
            (git.folder / "shallow").write_bytes(shallow.read_bytes())
        entries = read_tree(reader, tree)
        log = read_tree(reader, _folder(entries, LOG))
        there = unpack(git, mirror, reader, [TreeEntry(FOLDER, _folder(entries, TIP)), *log.values()])
        if lost := [tip for tip in tips if tip not in there and tip != base]:
            raise PlaceRefused(f"the commit {lost[0]!r:.60} was announced and is not there; it is refused")
        write_pack(git, folder, tips, [base, *(one for one in known if one in there)])
    mark.write_text(" ".join(tips), encoding="ascii")


def _folder(entries: dict[bytes, TreeEntry], name: bytes) -> str:
    entry = entries.get(name)
    if entry is None or entry.mode != FOLDER:
        raise PlaceRefused("the commits that the agent could read are malformed; it is refused")
    return entry.name


def unpack(git: Git, mirror: MirrorRepository, reader: ObjectReader, entries: Iterable[TreeEntry]) -> set[str]:
    """Write packed commits as commits; returns their names, which their content makes."""
    objects, found = LooseObjects(git.folder, mirror.form), set()
    for entry in entries:
        commit = read_tree(reader, entry.name).get(COMMIT)
        if commit is None or reader.size(commit.name) > COMMIT_BYTES:
            raise PlaceRefused("a commit that the agent could read is malformed; it is refused")
        found.add(objects.write("commit", reader.whole(commit.name)))
    return found


def write_pack(git: Git, folder: Path, tips: Iterable[str], without: Iterable[str]) -> None:
    """Pack all that commits need and others do not."""
    lines = "".join(f"{line}\n" for line in (*tips, *(f"^{name}" for name in without if name)))
    words = ("pack-objects", "--quiet", "--revs", "--window=0", "--delta-base-offset")
    git(*words, str(folder / "pack/pack"), stdin=lines.encode())


@contextmanager
def draft_of(mirror: MirrorRepository, beside: Path, others: Iterable[Path]) -> Iterator[Git]:
    """A repository for a moment, which reads others' objects."""
    folder = Path(tempfile.mkdtemp(prefix=".draft-", dir=beside))
    try:
        git = Git(folder / "draft.git")
        for part in ("objects/info", "objects/pack", "refs", "info"):
            (git.folder / part).mkdir(parents=True)
        for name in ("HEAD", "config", "info/attributes"):  # a repository as git made that one: this takes no git
            shutil.copyfile(mirror.git.folder / name, git.folder / name)
        lines = "".join(f"{quoted(other / 'objects')}\n" for other in others)
        (git.folder / "objects/info/alternates").write_text(lines, encoding="utf-8", errors="surrogateescape")
        yield git
    finally:
        shutil.rmtree(folder, ignore_errors=True)
