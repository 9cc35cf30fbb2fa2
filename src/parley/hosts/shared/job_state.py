"""What another coordinator needs of a job besides its rows and readable files, as one git tree, and made of it again.

| in the tree | what it is |
| --- | --- |
| `manifest`, `signature` | whose state it is, its refs, the ids of the parts; signed with the bus's key |
| `base` | the commits that the job started from, as far as agents can read them |
| `commits` | every commit of the job's repository, as a folder of its name with its bytes and its tree |
| `marks` | what Parley knows of workspaces: open conflicts, hidden paths, what was sent |
| `homes` | the homes of instances, with their sessions |

Commits can't be pushed as commits: the history that jobs start from is cut, and git servers refuse one without its
beginning. Only a process with the bus's key signs a manifest, and everything else is named by its content; so what
comes back is what a coordinator of this home has packed. What agents wrote is in it, and is laid out as such.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from hmac import compare_digest
from pathlib import Path

import msgspec
from msgspec import Struct

from parley.base.text import BadText, read_json
from parley.hosts.mirror.folder_filling import FolderFilling
from parley.hosts.mirror.folder_packing import FOLDER, Allowed, FolderPacking, Modes, write_tree
from parley.hosts.mirror.mirror_errors import MirrorError, PlaceRefused
from parley.hosts.mirror.mirror_repository import MirrorRepository
from parley.hosts.mirror.order_place import ref_name
from parley.hosts.mirror.place_listing import MovedSessions, listed, read_tree
from parley.hosts.mirror.place_names import SESSIONS, as_path, as_text, session_folder, stored, taken_back
from parley.hosts.mirror.shown_commits import COMMIT, TREE, draft_of, lay_base, pack_base, unpack, write_pack
from parley.workspaces.delivery.result_branch import DELIVERED, HOME
from parley.workspaces.files.known_blobs import REGULAR, KnownBlobs
from parley.workspaces.files.tree_entry import TreeEntry
from parley.workspaces.job_repository import REPOSITORY, JobRepository, borrow_objects
from parley.workspaces.safe_git import Git, ObjectReader, create
from parley.workspaces.workspace_marks import read_marks

FORM = 1
MANIFEST, SIGNATURE = b"manifest", b"signature"
BASE, COMMITS, MARKS, HOMES = "base", "commits", "marks", "homes"
_LARGEST = 64 << 20  # bytes of a manifest, or of the marks of one workspace
_SIGNATURE_BYTES = 64
_LOCAL = (DELIVERED, HOME)  # refs about this host's own checkout
_KEPT = tuple(f"refs/parley/{kind}/" for kind in ("left", "lost", "retired"))
_REF = re.compile(r"refs/(?:heads|parley)/[A-Za-z0-9._/@+=-]+")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class HomeNote(Struct, frozen=True):
    """The home of an instance: the name of its folder, and its modes."""

    name: str
    modes: Modes


class StateManifest(Struct, frozen=True, kw_only=True):
    """What a state says of itself. Paths and files are bytes, written as Latin-1."""

    form: int = FORM
    job: str
    epoch: int  # of the owner that packed it
    folder: str  # the job's, where it was packed
    start: str = ""  # what the job started from, as its repository has it; empty: it has none yet
    exclude: str = ""
    base: str = ""
    refs: dict[str, str] = {}
    parts: dict[str, str] = {}  # by name, the tree of each
    homes: tuple[HomeNote, ...] = ()


class JobState:
    """Packs the state of one job, and lays it out. `secret` is the bus's."""

    def __init__(self, job: str, folder: Path, secret: bytes, allowed: Allowed) -> None:
        """`allowed`: how much may lie in the instances' homes."""
        self.job = job
        self.folder = folder
        self._secret = secret
        self._allowed = allowed
        self._packed: dict[str, str] = {}  # by commit, the tree that carries it
        self._tips: list[str] = []  # all that leads to these is packed
        self._base: tuple[str, str] = ("", "")  # the base and its tree
        self._homes: dict[str, tuple[HomeNote, str]] = {}  # as they were last packed
        self._caches: dict[str, tuple[KnownBlobs, set[str]]] = {}  # of their files

    # ---- packing -------------------------------------------------------------------------------

    def pack(self, mirror: MirrorRepository, repository: JobRepository, epoch: int) -> str:
        """The tree of the state."""
        homes = list(self._pack_homes(mirror))
        parts = {
            MARKS: write_tree(mirror, self._pack_marks(mirror)),
            HOMES: write_tree(mirror, [(stored(name.encode("latin-1")), FOLDER, tree) for name, tree in homes]),
        }
        start = exclude = base = ""
        refs: dict[str, str] = {}
        if repository.exists:
            see_repository(mirror)
            base = repository.beginning.base
            refs = {name: commit for name, commit in repository.refs("refs/").items() if name not in _LOCAL}
            parts[COMMITS] = self._pack_commits(mirror, repository, sorted(set(refs.values())), base)
            if base:
                parts[BASE] = self._pack_base(mirror, base)
            start = _text(repository.git.folder / "parley.json")
            exclude = _text(repository.git.folder / "info/exclude")
        manifest = StateManifest(
            job=self.job,
            epoch=epoch,
            folder=as_text(str(self.folder)),
            start=start,
            exclude=exclude,
            base=base,
            refs=refs,
            parts=parts,
            homes=tuple(self._homes[name][0] for name, _ in homes),
        )
        data = msgspec.json.encode(manifest)
        top = [
            (MANIFEST, REGULAR, mirror.objects.write("blob", data)),
            (SIGNATURE, REGULAR, mirror.objects.write("blob", self._signed(data))),
            *((name.encode(), FOLDER, tree) for name, tree in parts.items()),
        ]
        return write_tree(mirror, top)

    def _signed(self, manifest: bytes) -> bytes:
        return blake2b(manifest, key=self._secret, digest_size=32, person=b"parley state").hexdigest().encode()

    def _pack_commits(self, mirror: MirrorRepository, repository: JobRepository, tips: list[str], base: str) -> str:
        """The tree with every commit; those that were packed before are not read again."""
        if tips != self._tips:
            self._read_commits(mirror, repository, tips, base)
            self._tips = tips
        shelves: dict[
            str, list[tuple[bytes, str, str]]
        ] = {}  # so that a long job's tree is not written whole each time
        for name, tree in self._packed.items():
            shelves.setdefault(name[:2], []).append((name.encode(), FOLDER, tree))
        return write_tree(
            mirror, [(shelf.encode(), FOLDER, write_tree(mirror, held)) for shelf, held in shelves.items()]
        )

    def _read_commits(self, mirror: MirrorRepository, repository: JobRepository, tips: list[str], base: str) -> None:
        without = [name for name in (base, *self._tips) if name]
        asked = "".join(f"{line}\n" for line in (*tips, *(f"^{name}" for name in without)))
        with repository.git.contents() as reader:
            for name in repository.git.text("rev-list", "--stdin", stdin=asked.encode()).split():
                data = reader.whole(name)
                tree = data.partition(b"\n")[0].removeprefix(b"tree ").decode("ascii")
                inside = [(COMMIT, REGULAR, mirror.objects.write("blob", data)), (TREE, FOLDER, tree)]
                self._packed[name] = write_tree(mirror, inside)

    def _pack_base(self, mirror: MirrorRepository, base: str) -> str:
        if self._base[0] != base:
            self._base = base, pack_base(mirror, self.folder.parent.parent / "bases", base)
        return self._base[1]

    def _pack_marks(self, mirror: MirrorRepository) -> Iterator[tuple[bytes, str, str]]:
        for path in sorted((self.folder / MARKS).glob("*.json")):
            if not path.name.startswith("."):
                yield stored(os.fsencode(path.name)), REGULAR, mirror.objects.write("blob", path.read_bytes())

    def _pack_homes(self, mirror: MirrorRepository) -> Iterator[tuple[str, str]]:
        """The homes with their trees. One that can't be packed now is as it was, or left out, and begins anew there."""
        packing = FolderPacking(mirror, Allowed(self._allowed.bytes, self._allowed.files))
        found = [path for path in sorted((self.folder / HOMES).glob("*")) if path.is_dir() and not path.is_symlink()]
        for path in found:
            name = as_text(path.name)
            known = KnownBlobs(mirror.git.folder / f"known-state-{ref_name(path.name)}")
            try:
                packed = packing.folder(path, known, (), _nothing)
            except MirrorError:  # a turn works in it, or it is too large
                if name not in self._homes:
                    continue
            else:
                self._homes[name] = HomeNote(name, packed.modes), packed.tree
                self._caches[name] = known, packed.paths
            yield name, self._homes[name][1]

    def keep(self) -> None:
        """A ref holds what was packed: what was read of homes need not be read again."""
        for known, paths in self._caches.values():
            known.keep(paths)
        self._caches = {}

    # ---- laying out ----------------------------------------------------------------------------

    def read(self, mirror: MirrorRepository, reader: ObjectReader, commit: str) -> StateManifest:
        """The manifest of a state that was fetched. PlaceRefused where no coordinator of this home has packed it."""
        entries = read_tree(reader, mirror.tree(commit))
        if MANIFEST not in entries or SIGNATURE not in entries or reader.size(entries[MANIFEST].name) > _LARGEST:
            raise PlaceRefused(f"what the remote has as the state of job {self.job} is none; it is refused")
        data = reader.whole(entries[MANIFEST].name)
        if not compare_digest(_signature(reader, entries[SIGNATURE].name), self._signed(data)):
            raise PlaceRefused(
                f"the state of job {self.job} on the remote was not packed with this bus's key; it is refused"
            )
        try:
            found = msgspec.convert(read_json(data, _LARGEST), StateManifest)
        except (BadText, msgspec.ValidationError) as error:
            raise PlaceRefused(f"the state of job {self.job} on the remote is malformed ({error})") from error
        if found.form != FORM:
            raise PlaceRefused(
                f"the state of job {self.job} was packed by another version of Parley (form {found.form}, here {FORM})"
                "; use the same on all hosts"
            )
        held = {name: entry.name for name, entry in entries.items() if name not in (MANIFEST, SIGNATURE)}
        names = {*found.refs.values(), *found.parts.values()}
        if (
            found.job != self.job
            or held != {name.encode(): tree for name, tree in found.parts.items()}
            or not all(_REF.fullmatch(ref) and ".." not in ref for ref in found.refs)
            or not all(_COMMIT.fullmatch(name) for name in names)
        ):
            raise PlaceRefused(f"the state on the remote is not that of job {self.job}; it is refused")
        return found

    def lay_out(self, mirror: MirrorRepository, commit: str) -> None:
        """Make the job's repository, its marks and its instances' homes what a state says."""
        with mirror.git.contents() as reader:
            manifest = self.read(mirror, reader, commit)
            if manifest.start:
                if manifest.base:
                    lay_base(mirror, manifest.parts[BASE], self.folder.parent.parent / "bases", manifest.base)
                self._lay_repository(mirror, reader, manifest)
                see_repository(mirror)
            self._lay_marks(reader, manifest.parts[MARKS])
            self._lay_homes(mirror, reader, manifest)

    def _lay_repository(self, mirror: MirrorRepository, reader: ObjectReader, manifest: StateManifest) -> None:
        there = self.folder / REPOSITORY
        draft = self.folder / f"{REPOSITORY}.{os.getpid()}"
        shutil.rmtree(draft, ignore_errors=True)
        if there.is_dir():
            git = Git(there, mark=mirror.git.mark)
        else:
            git = create(draft, mirror.form)
            if manifest.base:
                borrow_objects(draft, self.folder.parent.parent / "bases" / manifest.base)
        _write(git.folder / "info/exclude", manifest.exclude)
        _write(git.folder / "parley.json", manifest.start)
        self._lay_commits(mirror, reader, git, manifest)
        _set_refs(git, manifest.refs)
        if git.folder == draft:
            draft.rename(there)

    def _lay_commits(self, mirror: MirrorRepository, reader: ObjectReader, git: Git, manifest: StateManifest) -> None:
        """Put the commits that the repository lacks into it, with all that they need, as a pack."""
        held: dict[bytes, TreeEntry] = {}
        for shelf in read_tree(reader, manifest.parts[COMMITS]).values():
            held |= read_tree(reader, shelf.name)
        lacking = set(_missing(git, [name.decode("latin-1") for name in held]))
        new = {name: entry for name, entry in held.items() if name.decode("latin-1") in lacking}
        tips = [commit for commit in dict.fromkeys(manifest.refs.values()) if commit in lacking]
        if lost := [commit for commit in tips if commit.encode() not in held]:
            raise PlaceRefused(f"the commit {lost[0]} is named in the state of job {self.job} and is not in it")
        if not tips:
            return
        others = [mirror.git.folder, git.folder]
        with draft_of(mirror, mirror.git.folder, others) as drafted:
            shallow = git.folder / "shallow"
            if shallow.is_file():
                (drafted.folder / "shallow").write_bytes(shallow.read_bytes())
            if {name.encode() for name in unpack(drafted, mirror, reader, new.values())} != new.keys():
                raise PlaceRefused(f"a commit in the state of job {self.job} is not what it is called; it is refused")
            known = [commit for commit in _refs(git).values() if commit not in lacking]
            (git.folder / "objects/pack").mkdir(parents=True, exist_ok=True)
            write_pack(drafted, git.folder / "objects", tips, [manifest.base, *known])

    def _lay_marks(self, reader: ObjectReader, tree: str) -> None:
        folder = self.folder / MARKS
        folder.mkdir(parents=True, exist_ok=True)
        found = {}
        for name, entry in read_tree(reader, tree).items():
            plain = taken_back(name) or b""
            if not re.fullmatch(rb"[A-Za-z0-9_.-]+\.json", plain) or reader.size(entry.name) > _LARGEST:
                raise PlaceRefused(f"the marks of job {self.job} are malformed; they are refused")
            found[plain.decode()] = entry.name
        for path in folder.glob("*.json"):
            if path.name not in found:
                path.unlink()
        for file_name, blob in found.items():
            draft = folder / f".{file_name}.{os.getpid()}"
            draft.write_bytes(reader.whole(blob))
            draft.replace(folder / file_name)
            marks = read_marks(folder / file_name)
            marks.packed, marks.shown = "", {}  # what its agent can read by git is made anew on this host
            marks.write()

    def _lay_homes(self, mirror: MirrorRepository, reader: ObjectReader, manifest: StateManifest) -> None:
        held = read_tree(reader, manifest.parts[HOMES])
        allowed = Allowed(self._allowed.bytes, self._allowed.files)
        sessions = _JobSessions(as_path(manifest.folder), str(self.folder))
        for number, note in enumerate(manifest.homes):
            name = as_path(note.name)
            entry = held.get(stored(os.fsencode(name)))
            if entry is None or entry.mode != FOLDER or "/" in name or name in ("", ".", ".."):
                raise PlaceRefused(f"a home in the state of job {self.job} is malformed; it is refused")
            filling = FolderFilling(
                folder=self.folder / HOMES / name,
                known=KnownBlobs(mirror.git.folder / f"known-state-{ref_name(name)}"),
                leave=_nothing,
                aside=mirror.git.folder / f".aside-state-{number}",
                relink=str,
            )
            filling.fill(reader, listed(reader, entry.name, allowed, sessions), note.modes, allowed)


class _JobSessions(MovedSessions):
    """Claude Code's sessions of all workspaces of a job: their folders are called as the paths of these are here."""

    def entries(self, path: str, found: dict[bytes, TreeEntry]) -> dict[bytes, TreeEntry]:
        """The entries of a folder of a home, with the sessions where the program looks for them."""
        before, now = (session_folder(one) for one in (self.before, self.now))
        if path != SESSIONS or before == now or not before or not now:
            return found
        moved = {}
        for name, entry in found.items():
            plain = os.fsdecode(name)
            here = f"{now}{plain.removeprefix(before)}" if plain.startswith(f"{before}-") else plain
            moved[os.fsencode(here)] = entry
        return moved


def see_repository(mirror: MirrorRepository) -> None:
    """Let a job's mirror read what the job's repository has: it is not written twice."""
    path = mirror.git.folder / "objects/info/alternates"
    line = f"../../{REPOSITORY}/objects\n"
    if (mirror.job_folder / REPOSITORY).is_dir() and (not path.is_file() or path.read_text(encoding="ascii") != line):
        path.parent.mkdir(exist_ok=True)
        path.write_text(line, encoding="ascii")


def _refs(git: Git) -> dict[str, str]:
    lines = git.text("for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    return {name: commit for name, commit in (line.split() for line in lines) if name not in _LOCAL}


def _set_refs(git: Git, wanted: dict[str, str]) -> None:
    """Make the refs what is wanted; those about this host's own checkout stay, and what was kept of lost turns here."""
    here = _refs(git)
    lines = [f"delete {name}" for name in here if name not in wanted and not name.startswith(_KEPT)]
    lines += [f"update {name} {commit}" for name, commit in wanted.items() if here.get(name) != commit]
    if lines:
        git("update-ref", "--no-deref", "--stdin", stdin="".join(f"{line}\n" for line in lines).encode())


def _missing(git: Git, names: Iterable[str]) -> Iterator[str]:
    asked = "".join(f"{name}\n" for name in names).encode("latin-1")
    said = git("cat-file", "--batch-check=%(objectname)", stdin=asked).decode("ascii", "replace")
    return (line.split()[0] for line in said.splitlines() if line.endswith(" missing"))


def _signature(reader: ObjectReader, name: str) -> bytes:
    return reader.whole(name) if reader.size(name) <= _SIGNATURE_BYTES else b""


def _text(path: Path) -> str:
    return path.read_bytes().decode("latin-1") if path.is_file() else ""


def _write(path: Path, text: str) -> None:
    """Write a file whole or not at all: a full disk or a crash leaves the one that was there."""
    path.parent.mkdir(exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_bytes(text.encode("latin-1"))
    draft.replace(path)


def _nothing(path: str) -> bool:
    return False
