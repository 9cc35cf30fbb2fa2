"""A turn's place on another host: sent there, laid out, given back, taken back. Git carries it.

Each place is a commit with one tree: a manifest, the parts, and the commits that the agent can read. Its parents are
the instance's last places, so that only what has changed since is shipped, either way; these have none, so that nothing
older is kept. On the remote all lies below `refs/parley/BUS/JOB/`:

| ref | what | written by |
| --- | --- | --- |
| `turns/TURN/EPOCH/sent/COMMIT` | what a turn begins with | the coordinator |
| `turns/TURN/EPOCH/back/ATTEMPT` | what an attempt at it left: created once, never moved | the host |
| `last-sent/INSTANCE`, `base/COMMIT` | what the next shipment builds upon | the coordinator |
| `last-back/INSTANCE` | the same | the host |

What counts is what the bus and the board say. A ref is a place to fetch from, and its commit is compared with the one
that was announced there.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from msgspec import Struct

from parley.base.text import BadText, read_json
from parley.bus.rows import JOB_ID
from parley.hosts.mirror.folder_filling import FolderFilling
from parley.hosts.mirror.folder_packing import FOLDER, LEFT_OUT, Allowed, FolderPacking, Leave, Modes, write_tree
from parley.hosts.mirror.git_remote import PATIENCE_SECONDS, GitRemote, Remote
from parley.hosts.mirror.job_refs import refs_of
from parley.hosts.mirror.mirror_errors import MirrorError, PlaceRefused, RemoteTrouble
from parley.hosts.mirror.mirror_repository import MirrorRepository, WhoseGit, object_format
from parley.hosts.mirror.order_place import OrderPlace, PlacePart, place_of, ref_name
from parley.hosts.mirror.place_listing import MANIFEST, PARTS, TURNS, Listing, MovedSessions, listed, read_tree
from parley.hosts.mirror.place_manifest import BACK, SENT, Manifest, PartNote, read_manifest
from parley.hosts.mirror.place_names import as_path, as_text
from parley.hosts.mirror.shown_commits import lay_base, lay_turns, pack_base, pack_turns
from parley.ports.turns import Order, Room, Site
from parley.workspaces.copy_list import bring
from parley.workspaces.files.known_blobs import REGULAR, KnownBlobs
from parley.workspaces.files.safe_delete import discard
from parley.workspaces.files.safe_fs import SafeFolder
from parley.workspaces.files.safe_walk import walk
from parley.workspaces.files.scan import path_text
from parley.workspaces.files.tree_entry import TreeEntry
from parley.workspaces.home.private_folders import PrivateFolders
from parley.workspaces.job_repository import MIRROR, REPOSITORY, JobRepository
from parley.workspaces.quota import RunningJobQuota
from parley.workspaces.safe_git import ObjectReader
from parley.workspaces.workspace_marks import read_marks

SLACK_BYTES = 64 << 20  # that a pack may have beyond the quota: names, trees, manifests
DROPPED = 200  # turns whose refs are deleted at once
_LAST_SENT, _LAST_BACK, _BASE = "last-sent", "last-back", "base"  # below `refs/parley/` here, below the job's there
_FETCHED, _PACKED = "refs/parley/fetched", "refs/parley/packed"
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_BROUGHT_BYTES = 16 << 20


Stop = Callable[[], bool]


def _goes_on() -> bool:
    return False


class Shipped(Struct, frozen=True):
    """What was pushed: ids alone, for the board."""

    commit: str  # of what was packed
    ref: str


@dataclass(frozen=True, slots=True)
class _Brought:
    """What a host's own set-up and copies have put into a workspace: it is none of the place's."""

    paths: frozenset[str] = frozenset()
    ready: bool = False  # whether they were run

    def __call__(self, path: str) -> bool:
        return path in self.paths


class PlaceMirror:
    """What a turn needs of its place, carried by git between the coordinator and a host.

    `home` is this machine's, `bus` the id of the bus: it tells apart the jobs of several that share a remote. `limit`
    and `files` are the bytes and the names that a job may take on the coordinator, 0: no limit. `setup` is the user's
    set-up command, which goes along from the coordinator; on a host `set_up` runs it in a fresh workspace, and `copies`
    is the folder from which the host's own files of the copy list are taken. `hand_over` gives files to the user that
    agents run as, `mark` is put into the environment of git while it works for a job, `given_up` tells whether the user
    has given the job up, and `tell` gets a line about what of a place stays behind. Any thread may use it, one at a
    time for each instance.
    """

    def __init__(
        self,
        home: Path,
        remote: Remote,
        *,
        bus: str = "bus",
        limit: int = 0,
        files: int = 0,
        setup: str = "",
        set_up: Callable[[Site, str, Stop], None] | None = None,
        copies: Path | None = None,
        hand_over: Callable[[Path], None] | None = None,
        mark: Callable[[str], Mapping[str, str]] = lambda job: {},
        given_up: Callable[[str], bool] = lambda job: False,
        tell: Callable[[str], None] = lambda line: None,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self.home = home.resolve()
        self._remote = GitRemote(remote, patience_seconds)
        self._bus = bus
        self._limit, self._files = limit, files
        self._setup = setup
        self._set_up = set_up
        self._copies = copies
        self._hand_over = hand_over
        self._mark = mark
        self._given_up = given_up
        self._tell = tell

    # ---- the coordinator -----------------------------------------------------------------------

    def send(self, order: Order, stop: Stop = _goes_on) -> Shipped:
        """Pack what a turn begins with, and push it. Again, it is the same. `stop`, here and below: to end."""
        place = self._own(order)
        repository = JobRepository(place.folder, self._mark(order.job))
        if not repository.exists:
            raise MirrorError(f"{place.folder / REPOSITORY} is gone; restore that folder from a backup")
        with self._mirror(place, repository.beginning.object_format, stop).used() as mirror:
            packing = _Packing(mirror, place, order.site.room)
            marks = read_marks(place.folder / "marks" / f"{place.turns}.json") if place.turns else None
            tips = (marks.packed, *marks.shown.values()) if marks is not None else ()
            tips = tuple(dict.fromkeys(tip for tip in tips if tip))
            base = self._base(mirror, place)
            hidden = tuple(sorted(self._hidden(place)))
            notes, entries = packing.parts(place.parts, _Brought(frozenset(hidden)))
            manifest = Manifest(
                kind=SENT,
                job=order.job,
                turn=order.turn,
                epoch=order.epoch,
                folder=as_text(str(place.folder)),
                workspace=as_text(order.site.workspace),
                parts=notes,
                base=base,
                tips=tips,
                limit=order.site.room.limit if order.site.room is not None else 0,
                files=order.site.room.files if order.site.room is not None else 0,
                hidden=tuple(map(as_text, hidden)),
                setup=self._setup,
            )
            turns = pack_turns(mirror, repository, tips, place.base) if tips else ""
            tree = packing.tree(manifest, entries, turns)
            alone, commit = packing.commit(tree, _LAST_BACK, _LAST_SENT, base=base)
            ref = f"{self._turn(order)}/{SENT}/{commit}"
            hints = {f"{self._job(order.job)}/{_LAST_SENT}/{place.key}": alone}
            if base:
                hints[f"{self._job(order.job)}/{_BASE}/{place.base}"] = base
            self._remote.push(mirror.git, (ref, commit), hints)
            mirror.set_ref(_own_ref(_LAST_SENT, place), alone)
            self._told(order, packing.left)
        return Shipped(commit, ref)

    def take_back(self, order: Order, shipped: Shipped, stop: Stop = _goes_on) -> None:
        """Fetch what a turn left, and put it into the coordinator's own folders. Nothing in it is trusted.

        Another coordinator may have put the turn out, from another home: the job is this one's now.
        """
        place = place_of(order).at(self.home, order.site.room or self._room(order.job))
        order, room = place.order, place.order.site.room
        with self._mirror(place, object_format(shipped.commit), stop).used() as mirror:
            self._fetch(mirror, place, shipped, BACK, room.limit + SLACK_BYTES if room is not None else None)
            with mirror.git.contents() as reader:
                tree, entries = self._opened(mirror, reader, shipped)
                manifest = read_manifest(reader, entries[MANIFEST].name, BACK, order)
                parts = [part for part in place.parts if part.back]
                self._lay(mirror, reader, place, (manifest, entries), parts, _Brought(self._hidden(place)))
            mirror.set_ref(_own_ref(_LAST_BACK, place), mirror.commit(tree))

    def drop(self, orders: Iterable[Order], stop: Stop = _goes_on) -> None:
        """Delete the refs of turns that are over from the remote: all of them in one push."""
        found: list[tuple[Order, MirrorRepository]] = []
        whose = WhoseGit(given_up=stop)  # it is none of the job's: a job that was given up has refs there, too
        for order in orders:
            folder = self.home / "jobs" / order.job
            mirror = MirrorRepository.existing(folder, whose) if JOB_ID.fullmatch(order.job) else None
            if mirror is not None:  # else it was never sent, or the job's files are deleted, along with its refs
                found.append((order, mirror))
        while found:
            several, found = found[:DROPPED], found[DROPPED:]
            with several[0][1].used() as mirror:  # whichever: to delete refs no object is needed
                turns = [f"{self._turn(order)}/*" for order, _ in several]
                self._remote.delete(mirror.git, self._remote.listed(mirror.git, *turns))
            for tidied in {mirror.git.folder: mirror for _, mirror in several}.values():
                tidied.tidy()

    # ---- the host ------------------------------------------------------------------------------

    def lay_out(self, order: Order, shipped: Shipped, stop: Stop = _goes_on) -> Order:
        """Fetch what a turn begins with, and lay it out below this machine's home; the order with its paths here."""
        sent = place_of(order)
        place = sent.at(self.home, None)
        with self._mirror(place, object_format(shipped.commit), stop).used() as mirror:
            self._fetch(mirror, place, shipped, SENT, None)
            with mirror.git.contents() as reader:
                tree, entries = self._opened(mirror, reader, shipped)
                manifest = read_manifest(reader, entries[MANIFEST].name, SENT, order)
                room = RunningJobQuota(place.folder, manifest.limit, manifest.files) if manifest.limit else None
                place = sent.at(self.home, room)
                brought = self._brought(mirror, place, manifest)
                self._lay(mirror, reader, place, (manifest, entries), place.parts, brought)
                bases = self.home / "bases"
                if place.base and manifest.base:
                    mirror.set_ref(f"refs/parley/{_BASE}/{place.base}", manifest.base)
                    lay_base(mirror, manifest.base, bases, place.base)
                if place.turns and TURNS in entries:
                    turns = place.folder / "gitdirs" / f"{place.turns}.turns" / "objects"
                    lay_turns(mirror, entries[TURNS].name, turns, manifest.tips, bases, place.base)
            self._shut(place)
            if not brought.ready and place.order.site.writable:
                self._bring(mirror, place, manifest, stop)
            mirror.set_ref(_own_ref(_LAST_SENT, place), mirror.commit(tree))
        return place.order

    def give_back(self, order: Order, laid: Order, attempt: int = 1, stop: Stop = _goes_on) -> Shipped:
        """Pack what a turn left, and push it where this attempt's result goes. PushLost if another is there.

        `laid` is the order as `lay_out` returned it. The same files are the same commit: a push that got through before
        a crash is found again.
        """
        place = place_of(laid)
        if place.folder != self.home / "jobs" / order.job:
            raise MirrorError(f"{place.folder} is no folder of this host's home {self.home}; it was laid out elsewhere")
        mirror = MirrorRepository.existing(place.folder, self._whose(order.job, stop))
        if mirror is None:
            raise MirrorError(f"{place.folder} has no mirror any more; the turn is lost, and can be tried again")
        with mirror.used():
            packing = _Packing(mirror, place, laid.site.room)
            parts = [part for part in place.parts if part.back]
            notes, entries = packing.parts(parts, _read_brought(self._mark_file(mirror, place)))
            manifest = Manifest(
                kind=BACK,
                job=order.job,
                turn=order.turn,
                epoch=order.epoch,
                folder=as_text(str(place.folder)),
                workspace=as_text(laid.site.workspace),
                parts=notes,
            )
            alone, commit = packing.commit(packing.tree(manifest, entries, ""), _LAST_SENT)
            ref = f"{self._turn(order)}/{BACK}/{attempt}"
            hint = {f"{self._job(order.job)}/{_LAST_BACK}/{place.key}": alone}
            self._remote.push(mirror.git, (ref, commit), hint)
            mirror.set_ref(_own_ref(_LAST_BACK, place), alone)
            self._told(order, packing.left)
        mirror.tidy()
        return Shipped(commit, ref)

    def forget(self, job: str) -> None:
        """A job is over: delete what this host has of it."""
        if JOB_ID.fullmatch(job) and (self.home / "jobs" / job).is_dir():
            discard(self.home / "jobs" / job)

    def forget_bases(self, unused_since: float) -> None:
        """Delete the commits that no job here has started from, and that no turn has needed since."""
        for base in (self.home / "bases").glob("[!.]*"):
            old = base.stat().st_mtime < unused_since
            if old and not any(self.home.glob(f"jobs/*/{MIRROR}/refs/parley/{_BASE}/{base.name}")):
                discard(base)

    # ---- refs ----------------------------------------------------------------------------------

    def _job(self, job: str) -> str:
        return refs_of(self._bus, job)

    def _turn(self, order: Order) -> str:
        return f"{self._job(order.job)}/turns/{ref_name(order.turn)}/{order.epoch}"

    def _own(self, order: Order) -> OrderPlace:
        """The place of an order of this coordinator's."""
        place = place_of(order)
        if place.folder != self.home / "jobs" / order.job:
            raise MirrorError(f"{place.folder} is no folder of this coordinator's home {self.home}")
        return place

    def _room(self, job: str) -> Room | None:
        """How much a job may take here, where its order does not say: the board carries none."""
        return RunningJobQuota(self.home / "jobs" / job, self._limit, self._files) if self._limit else None

    def _whose(self, job: str, stop: Stop = _goes_on) -> WhoseGit:
        return WhoseGit(self._mark(job), lambda: self._given_up(job) or stop())

    def _mirror(self, place: OrderPlace, form: str, stop: Stop) -> MirrorRepository:
        whose = self._whose(place.order.job, stop)
        found = MirrorRepository.existing(place.folder, whose)
        if found is not None and found.form != form:
            raise PlaceRefused(f"{found.git.folder} has objects of another kind ({found.form}) than what was announced")
        return found or MirrorRepository(place.folder, form, whose)

    # ---- sending -------------------------------------------------------------------------------

    def _base(self, mirror: MirrorRepository, place: OrderPlace) -> str:
        """The commit that holds the commits that the job started from: packed once."""
        if not place.base:
            return ""
        ref = f"refs/parley/{_BASE}/{place.base}"
        if not (known := mirror.ref(ref)):
            known = mirror.commit(pack_base(mirror, place.home / "bases", place.base))
            mirror.set_ref(ref, known)
        return known

    @staticmethod
    def _hidden(place: OrderPlace) -> frozenset[str]:
        """What the set-up command and the copy list have brought into the workspace here."""
        name = _workspace_name(place)
        marks = place.folder / "marks" / f"{name}.json"
        return frozenset(read_marks(marks).hidden) if name and marks.is_file() else frozenset()

    def _told(self, order: Order, left: list[str]) -> None:
        if left:
            names = ", ".join(map(path_text, islice(left, LEFT_OUT))) + (" and more" if len(left) > LEFT_OUT else "")
            self._tell(f"{order.agent}, turn {order.turn}: only files, links and folders travel; left behind: {names}")

    # ---- fetching ------------------------------------------------------------------------------

    def _fetch(
        self, mirror: MirrorRepository, place: OrderPlace, shipped: Shipped, kind: str, most_bytes: int | None
    ) -> None:
        """Fetch what was announced, and nothing else: the ref is this turn's, and its commit the announced one."""
        order = place.order
        last = re.escape(shipped.commit) if kind == SENT else r"[0-9]{1,9}"
        wanted = rf"{re.escape(self._turn(order))}/{kind}/{last}"
        if not _COMMIT.fullmatch(shipped.commit) or not re.fullmatch(wanted, shipped.ref):
            raise PlaceRefused(f"{shipped.ref!r:.200} is no ref of turn {order.turn} of job {order.job}; it is refused")
        local = f"{_FETCHED}/{place.key}"
        if mirror.ref(local) != shipped.commit:
            self._remote.fetch(mirror.git, shipped.ref, local, most_bytes)
        found = mirror.ref(local)
        if found != shipped.commit:
            mirror.delete_ref(local)
            raise RemoteTrouble(  # no agent can reach it
                f"{self._remote.shown} has {found[:12] or 'nothing'} under {shipped.ref}, and {shipped.commit[:12]} "
                "was announced; it is refused: see who else may write there"
            )

    @staticmethod
    def _opened(mirror: MirrorRepository, reader: ObjectReader, shipped: Shipped) -> tuple[str, dict[bytes, TreeEntry]]:
        """The tree of a place, and what lies at its top."""
        tree = mirror.fetched_tree(reader, shipped.commit)
        entries = read_tree(reader, tree)
        kinds = {MANIFEST: REGULAR, PARTS: FOLDER, TURNS: FOLDER}
        if not {MANIFEST, PARTS} <= entries.keys() or any(
            entry.mode != kinds.get(name) for name, entry in entries.items()
        ):
            raise PlaceRefused(f"{shipped.commit[:12]} is no place of a turn; it is refused")
        return tree, entries

    def _lay(
        self,
        mirror: MirrorRepository,
        reader: ObjectReader,
        place: OrderPlace,
        found: tuple[Manifest, dict[bytes, TreeEntry]],
        parts: Iterable[PlacePart],
        leave: Leave,
    ) -> None:
        """Lay out parts, each where this machine has it. All is read and checked before the first file is changed."""
        manifest, entries = found
        wanted = list(parts)
        held = read_tree(reader, entries[PARTS].name)
        names = [str(number).encode() for number in range(len(wanted))]
        if [note.path for note in manifest.parts] != [as_text(part.path) for part in wanted] or set(held) != set(names):
            raise PlaceRefused("it has other parts than the turn; it is refused")
        room = place.order.site.room
        allowed = Allowed(room.limit, len(wanted) * room.files) if room is not None else Allowed()
        before, workspace = as_path(manifest.folder), as_path(manifest.workspace)
        sessions = MovedSessions(workspace, place.order.site.workspace)
        ours = Allowed()  # what only goes out is Parley's own, and not counted
        fillings: list[tuple[PlacePart, PartNote, TreeEntry, Listing | None]] = []
        for part, note, name in zip(wanted, manifest.parts, names, strict=True):
            entry = held[name]
            if note.is_file != (entry.mode == REGULAR) or entry.mode not in (REGULAR, FOLDER):
                raise PlaceRefused(f"its part {path_text(part.path)} is neither a file nor a folder; it is refused")
            if note.is_file:
                (allowed if part.back else ours).take(reader.size(entry.name), 1, part.path)
                fillings.append((part, note, entry, None))
                continue
            moves = sessions if part.path.startswith("homes/") else None
            fillings.append((part, note, entry, listed(reader, entry.name, allowed if part.back else ours, moves)))
        for number, (part, note, entry, listing) in enumerate(fillings):
            at = place.part_folder(part)
            if listing is None:
                _put_file(at, reader.whole(entry.name), mirror.git.folder / ".aside")
            else:
                filling = FolderFilling(
                    folder=at,
                    known=_known(mirror, part),
                    leave=leave if _is_workspace(part) else _nothing,
                    aside=mirror.git.folder / f".aside-{place.key}-{number}",
                    relink=_Relink(before, str(place.folder)),
                )
                filling.fill(reader, listing, note.modes, allowed if part.back else ours)
            if self._hand_over is not None and (part.back or part.path.startswith("gitdirs/")):
                self._hand_over(at if listing is not None else at.parent)

    # ---- what a host brings itself -------------------------------------------------------------

    @staticmethod
    def _mark_file(mirror: MirrorRepository, place: OrderPlace) -> Path:
        return mirror.git.folder / f"brought-{ref_name(_workspace_name(place) or 'none')}"

    def _brought(self, mirror: MirrorRepository, place: OrderPlace, manifest: Manifest) -> _Brought:
        """What is none of the place's in the workspace here: what was brought on the coordinator, and what was here."""
        found = _read_brought(self._mark_file(mirror, place))
        if found.ready and not Path(place.order.site.workspace).is_dir():
            found = _Brought()  # the workspace is gone, and what was brought with it
        return _Brought(found.paths | {as_path(path) for path in manifest.hidden}, found.ready)

    def _bring(self, mirror: MirrorRepository, place: OrderPlace, manifest: Manifest, stop: Stop) -> None:
        """A workspace is new on this host: copy the host's own files of the copy list, and run the set-up command."""
        folder = Path(place.order.site.workspace)
        hidden = {as_path(path) for path in manifest.hidden}
        if self._copies is not None and self._copies.is_dir():
            bring(self._copies, sorted(hidden), folder, PrivateFolders((self.home,), self._copies))
        if manifest.setup and self._set_up is not None:
            before = _paths(folder)
            self._set_up(place.order.site, manifest.setup, stop)
            hidden |= _topmost(_paths(folder) - before)
        if self._hand_over is not None:
            self._hand_over(folder)
        path = self._mark_file(mirror, place)
        draft = path.with_name(f".{path.name}")
        draft.write_text(json.dumps([as_text(one) for one in sorted(hidden)]), encoding="ascii")
        draft.replace(path)

    @staticmethod
    def _shut(place: OrderPlace) -> None:
        """Put an empty file at `.git`: outside the boundary the folder is no repository."""
        folder = Path(place.order.site.workspace)
        if not os.path.lexists(folder / ".git"):
            with SafeFolder(folder, place.folder / "aside") as safe_folder:
                safe_folder.put(".git", lambda handle: None)


class _Packing:
    """The parts of a place, being packed."""

    def __init__(self, mirror: MirrorRepository, place: OrderPlace, room: Room | None) -> None:
        self._mirror, self._place = mirror, place
        allowed = Allowed(room.limit, len(place.parts) * room.files) if room is not None else Allowed()
        self._packing, self._ours = FolderPacking(mirror, allowed), FolderPacking(mirror, Allowed())
        self._caches: list[tuple[KnownBlobs, set[str]]] = []
        self.left: list[str] = []

    def parts(
        self, parts: Iterable[PlacePart], leave: Leave
    ) -> tuple[tuple[PartNote, ...], list[tuple[bytes, str, str]]]:
        """Pack parts; returns what is noted of each, and their entries in order."""
        notes, entries = [], []
        for number, part in enumerate(parts):
            note, entry = self._part(part, leave if _is_workspace(part) else _nothing)
            notes.append(note)
            entries.append((str(number).encode(), entry.mode, entry.name))
        return tuple(notes), entries

    def _part(self, part: PlacePart, leave: Leave) -> tuple[PartNote, TreeEntry]:
        at = self._place.part_folder(part)
        if at.is_file() and not at.is_symlink():
            return PartNote(as_text(part.path), Modes(), is_file=True), TreeEntry(REGULAR, self._ours.file(at).name)
        if not os.path.lexists(at) and part.path.startswith("homes/"):  # the instance's first turn makes it
            return PartNote(as_text(part.path), Modes()), TreeEntry(FOLDER, write_tree(self._mirror, ()))
        if at.is_symlink() or not at.is_dir():
            raise MirrorError(f"{at} is gone, or no folder; put it back, or withdraw the job")
        known = _known(self._mirror, part)
        packing = self._packing if part.back else self._ours  # what only goes out is Parley's own, and not counted
        packed = packing.folder(at, known, self._others(part), leave)
        self._caches.append((known, packed.paths))
        self.left += [f"{part.path}/{path}" for path in packed.left_out]
        return PartNote(as_text(part.path), packed.modes), TreeEntry(FOLDER, packed.tree)

    def _others(self, part: PlacePart) -> tuple[KnownBlobs, ...]:
        """What the job's own repository knows of the workspace."""
        name = _workspace_name(self._place)
        cache = self._place.folder / REPOSITORY / f"known-{name}"
        return (KnownBlobs(cache),) if name and _is_workspace(part) and cache.is_file() else ()

    def tree(self, manifest: Manifest, entries: Iterable[tuple[bytes, str, str]], turns: str) -> str:
        """The tree of the place."""
        top = [
            (MANIFEST, REGULAR, self._mirror.objects.write("blob", manifest.data())),
            (PARTS, FOLDER, write_tree(self._mirror, entries)),
            *([(TURNS, FOLDER, turns)] if turns else []),
        ]
        return write_tree(self._mirror, top)

    def commit(self, tree: str, *lasts: str, base: str = "") -> tuple[str, str]:
        """The commit of the tree alone, and the one that is shipped. The same tree again is the same commit.

        `lasts` are the places that it builds upon, and `base` the commit with what the job started from.
        """
        mirror, ref = self._mirror, f"{_PACKED}/{self._place.key}"
        alone, commit = mirror.commit(tree), mirror.ref(ref)
        if not commit or mirror.tree(commit) != tree:
            upon = [mirror.ref(_own_ref(last, self._place)) for last in lasts]
            commit = mirror.commit(tree, *dict.fromkeys((*upon, base)))
            mirror.set_ref(ref, commit)
        for known, paths in self._caches:  # only now: a ref holds all that they name
            known.keep(paths)
        return alone, commit


@dataclass(frozen=True, slots=True)
class _Relink:
    """Links into the job's folder lead to where it lies here."""

    before: str
    now: str

    def __call__(self, target: str) -> str:
        if target == self.before or target.startswith(f"{self.before}/"):
            return f"{self.now}{target[len(self.before) :]}"
        return target


def _own_ref(kind: str, place: OrderPlace) -> str:
    """Where this machine's mirror keeps an instance's last place."""
    return f"refs/parley/{kind}/{place.key}"


def _nothing(path: str) -> bool:
    return False


def _is_workspace(part: PlacePart) -> bool:
    return part.path == "work" or part.path.startswith("trees/")


def _workspace_name(place: OrderPlace) -> str:
    """What the job's repository calls the workspace; empty for a clone, which has nothing of its own."""
    path = place.parts[0].path
    return "job" if path == "work" else path.removeprefix("trees/") if path.startswith("trees/") else ""


def _known(mirror: MirrorRepository, part: PlacePart) -> KnownBlobs:
    return KnownBlobs(mirror.git.folder / f"known-{ref_name(part.path.replace('/', '_'))}")


def _put_file(path: Path, data: bytes, aside: Path) -> None:
    """Write a file of Parley's own, where no agent writes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside.mkdir(exist_ok=True)
    with SafeFolder(path.parent, aside) as safe_folder:
        if safe_folder.read(path.name, len(data)) != data:
            safe_folder.put_data(path.name, data)


def _read_brought(path: Path) -> _Brought:
    try:
        listed_paths = read_json(path.read_bytes(), _BROUGHT_BYTES)
        return _Brought(frozenset(as_path(one) for one in listed_paths), ready=True)
    except (OSError, BadText, TypeError, ValueError):
        return _Brought()


def _paths(folder: Path) -> set[str]:
    """Every path in a workspace."""
    found = set()
    for here in walk(folder, mend=True):
        inner = f"{here.path}/" if here.path else ""
        found |= {inner + name for name, _ in here.entries if not here.deep}
    return found


def _topmost(paths: set[str]) -> set[str]:
    """Those of some paths that lie in no other of them."""
    return {path for path in paths if not any(above in paths for above in _above(path))}


def _above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:number]) for number in range(1, len(parts))]
