"""Runs git so that no repository, configuration or file makes it run another program.

Git is told everything by argument: which repository, which folder, which index. It reads no configuration of the
user's or the system's, runs no hook, filter, driver or monitor, fetches nothing, and prompts for nothing.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import itertools
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO

from parley.machine.programs import search_path
from parley.ports.workspaces import WorkspaceError

# Content goes in and comes out byte for byte: attributes of a tree have no effect.
RAW_ATTRIBUTES = "* -text !eol -ident -filter !working-tree-encoding !merge !diff\n"
SETTINGS = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.attributesFile": os.devnull,
    "core.excludesFile": os.devnull,
    "core.autocrlf": "false",
    "core.safecrlf": "false",
    "core.symlinks": "true",
    "core.fileMode": "true",
    "core.ignoreCase": "false",
    "core.precomposeUnicode": "false",
    "core.protectHFS": "true",  # no index takes a name that another filesystem reads as git's own
    "core.protectNTFS": "true",
    "core.untrackedCache": "false",
    "core.splitIndex": "false",
    "core.sparseCheckout": "false",
    "core.logAllRefUpdates": "false",
    "core.alternateRefsCommand": "false",
    "core.sshCommand": "false",
    "core.askPass": "false",
    "core.pager": "cat",
    "core.fsync": "committed,reference",
    "core.fsyncMethod": "fsync",
    "core.warnAmbiguousRefs": "false",
    "index.sparse": "false",
    "commit.gpgSign": "false",
    "log.showSignature": "false",
    "diff.ignoreSubmodules": "all",
    "diff.suppressBlankEmpty": "false",
    "merge.directoryRenames": "false",
    "merge.conflictStyle": "merge",
    "submodule.recurse": "false",
    "status.submoduleSummary": "false",
    "protocol.allow": "never",
    "maintenance.auto": "false",
    "gc.auto": "0",
    "safe.directory": "*",
}
_FLAGS = tuple(word for name, value in SETTINGS.items() for word in ("-c", f"{name}={value}"))
_ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOW_PROTOCOL": "",  # none: it outweighs a protocol that a configuration allows by name
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_ASKPASS": "false",
    "GIT_EDITOR": "false",
    "GIT_PAGER": "cat",
    "XDG_CONFIG_HOME": os.devnull,
    "HOME": os.devnull,
    "LC_ALL": "C.UTF-8",
}
OLDEST = (2, 38)  # the first version whose merge-tree writes trees
CHUNK = 1 << 20
_UNMADE = "Unable to create '"
_NO_MEMORY = re.compile(rb"out of memory|cannot allocate memory", re.IGNORECASE)
ABSENT = 128  # git's exit code when it can't do what was asked
# An agent's files must not keep git busy for ever; packing a large repository may take its time.
PATIENCE_SECONDS = 120.0
LONG_SECONDS = 3600.0
LONGEST_HEAD = 64  # bytes before the content of an object: its kind and its size
GRACE_SECONDS = 0.5
_LONG = ("index-pack", "pack-objects")
_MEMORY_FILES = sys.platform == "linux"
# An agent's files can make git take hours over a merge or a diff, and a hundred times their size of memory, while the
# engine and all its other jobs wait. These limits are plenty for honest files.
BUSY_SECONDS = 5
MEMORY_BYTES = 2 << 30  # or a quarter of a smaller machine's
LOOK_SECONDS = 0.1  # between two checks whether the user has given the job up


def _words(settings: Mapping[str, str]) -> tuple[str, ...]:
    """Settings as git's arguments."""
    return tuple(word for name, value in settings.items() for word in ("-c", f"{name}={value}"))


class GitError(WorkspaceError):
    """Git failed: the text has the command and git's last line."""


class GitLocked(GitError):
    """Another git holds a lock, or was killed while it did: the text names the lock file."""


class GitTooLong(GitError):
    """Git exceeded its time or memory, and was killed."""


class JobGivenUp(GitError):
    """Git was killed because the user gave up the job that it worked for."""


class Git:
    """Git on one repository. `owner` is the user that it runs as where that is not the current one.

    `settings` come after ours and override them: the caller has checked what they make git run. `mark` is put into
    the environment of each process, to tell whose it is. `given_up` tells whether the user has given the job up.
    """

    def __init__(
        self,
        folder: Path,
        owner: tuple[int, int] | None = None,
        settings: Mapping[str, str] | None = None,
        mark: Mapping[str, str] | None = None,
        given_up: Callable[[], bool] = lambda: False,
    ) -> None:
        self.folder = folder
        self.mark = dict(mark or {})
        self._given_up = given_up
        self._flags = (*_FLAGS, *_words(settings or {}))
        self._owner = owner if owner is not None and os.geteuid() == 0 and owner[0] != 0 else None

    def with_settings(self, settings: Mapping[str, str]) -> Git:
        """The same git with more settings, which come last."""
        found = copy.copy(self)
        found._flags = (*self._flags, *_words(settings))  # noqa: SLF001 - of its own class
        return found

    def until(self, given_up: Callable[[], bool]) -> Git:
        """The same git, which is killed also when this says so."""
        found, before = copy.copy(self), self._given_up
        found._given_up = lambda: before() or given_up()  # noqa: SLF001 - of its own class
        return found

    def __call__(
        self,
        *words: str,
        work: Path | None = None,
        index: Path | None = None,
        stdin: bytes = b"",
        more: Mapping[str, str] | None = None,
        fine: Iterable[int] = (0,),
        seconds: float | None = None,
    ) -> bytes:
        """What git prints. Any exit code but a fine one is a GitError."""
        return self.run(*words, work=work, index=index, stdin=stdin, more=more, fine=fine, seconds=seconds).stdout

    def run(
        self,
        *words: str,
        work: Path | None = None,
        index: Path | None = None,
        stdin: bytes | IO[bytes] = b"",
        stdout: IO[bytes] | None = None,
        more: Mapping[str, str] | None = None,
        fine: Iterable[int] = (0,),
        seconds: float | None = None,
        busy_seconds: int | None = None,
        file_bytes: int | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        """As calling it, with the exit code. Large data goes in from a file and out into one.

        `busy_seconds`: git works on what agents wrote. It gets so many seconds of processor time, however busy the
        machine is, and MEMORY_BYTES; and it is killed when the user gives the job up. `file_bytes`: with that, no file
        that it writes may have more bytes.
        """
        place = [f"--git-dir={self.folder}", *([f"--work-tree={work}"] if work is not None else [])]
        there = {"GIT_INDEX_FILE": str(index)} if index is not None else {}
        patience = seconds or (LONG_SECONDS if words[0] in _LONG else PATIENCE_SECONDS)
        command, besides = ["git", *self._flags, *place, *words], {**there, **self.mark, **(more or {})}
        bound = GitLimits(busy_seconds, self._given_up, file_bytes) if busy_seconds is not None else None
        done = execute(command, work, stdin, besides, self._owner, stdout=stdout, seconds=patience, bound=bound)
        if done.returncode not in fine:
            said = last_line(done)
            raise (GitLocked if _UNMADE in said else GitError)(f"git {words[0]} failed in {self.folder}: {said}")
        return done

    @contextmanager
    def contents(self) -> Iterator[ObjectReader]:
        """Read the contents of objects, one after the other, in chunks."""
        with self.talk("cat-file", "--batch-command") as process:
            yield ObjectReader(process)

    @contextmanager
    def talk(self, *words: str, more: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
        """A git process that takes one request after the other; it is ended afterwards, and after LONG_SECONDS.

        It ends with its input, and so with this process: nothing need be started before it that sees to that.
        """
        command = ["git", *self._flags, f"--git-dir={self.folder}", *words]
        with _running(command, None, {**self.mark, **(more or {})}, self._owner, tie=()) as process:
            late = threading.Timer(LONG_SECONDS, process.kill)
            late.daemon = True
            late.start()
            try:
                yield process
            finally:
                late.cancel()

    def size(self, name: str) -> int:
        """How many bytes an object holds."""
        return int(self.text("cat-file", "-s", name))

    def text(self, *words: str, **more: object) -> str:
        """One line that git prints."""
        return self(*words, **more).decode("utf-8", "surrogateescape").strip()  # type: ignore[arg-type]  # as given

    def paths(self, tree: str) -> list[str]:
        """Every path of a tree."""
        return os.fsdecode(self("ls-tree", "-r", "-z", "--name-only", tree)).split("\0")[:-1]


class ObjectReader:
    """The contents of objects, read without holding a whole one."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        if process.stdin is None or process.stdout is None:
            raise ValueError("git was started without pipes")
        self._in, self._out = process.stdin, process.stdout

    def copy(self, name: str, write: Callable[[bytes], object]) -> None:
        """Write what an object holds."""
        left = self._ask("contents", name)
        while left:
            data = self._out.read(min(CHUNK, left))
            if not data:
                raise GitError(f"git stopped in the middle of {name}; look at the repository with `git fsck`")
            write(data)
            left -= len(data)
        self._out.read(1)

    def start(self, name: str, limit: int) -> tuple[bytes, int]:
        """The first bytes of an object, and its size; this reader can't be used afterwards."""
        size = self._ask("contents", name)
        return self._out.read(min(size, limit)), size

    def size(self, name: str) -> int:
        """How many bytes an object holds."""
        return self._ask("info", name)

    def kind(self, name: str) -> str:
        """What an object is: commit, tree, blob or tag."""
        return self._head("info", name)[0]

    def whole(self, name: str) -> bytes:
        """All that an object holds."""
        pieces: list[bytes] = []
        self.copy(name, pieces.append)
        return b"".join(pieces)

    def _ask(self, what: str, name: str) -> int:
        return self._head(what, name)[1]

    def _head(self, what: str, name: str) -> tuple[str, int]:
        """What an object is, and how many bytes it holds."""
        self._in.write(f"{what} {name}\n".encode())
        self._in.flush()
        head = self._out.readline().split()
        if len(head) != 3 or not head[2].isdigit():  # noqa: PLR2004 - its name, what it is, its size
            raise GitError(f"the object {name} is missing; restore the repository from a backup")
        return head[1].decode("ascii", "replace"), int(head[2])


@dataclass(frozen=True, slots=True)
class GitLimits:
    """The limits of a git that works on agents' files, and whether its job still goes on."""

    busy_seconds: int
    given_up: Callable[[], bool]
    file_bytes: int | None = None  # of one file that it writes

    def apply(self, process: int) -> None:
        """Apply them to a process. Of its memory only what it writes counts, not the packs that it maps."""
        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        memory = min(MEMORY_BYTES, pages // 4)
        limits = {resource.RLIMIT_CPU: self.busy_seconds, resource.RLIMIT_DATA: memory, resource.RLIMIT_CORE: 0}
        if self.file_bytes is not None:
            limits[resource.RLIMIT_FSIZE] = self.file_bytes
        for name, most in limits.items():
            with suppress(ProcessLookupError, PermissionError, ValueError):  # ended, or its limit is lower already
                resource.prlimit(process, name, (most, most))

    def check(self, done: subprocess.CompletedProcess[bytes]) -> None:
        """Raise GitTooLong where git ended because of a limit."""
        if -done.returncode in (signal.SIGXCPU, signal.SIGKILL):
            raise GitTooLong(f"git kept a processor busy for more than {self.busy_seconds} seconds and was stopped")
        if done.returncode and _NO_MEMORY.search(done.stderr):
            raise GitTooLong(f"git needed too much memory and was stopped: {last_line(done)}")


def execute(
    words: list[str],
    folder: Path | None,
    stdin: bytes | IO[bytes],
    more: Mapping[str, str],
    owner: tuple[int, int] | None = None,
    *,
    stdout: IO[bytes] | None = None,
    seconds: float | None = None,
    bound: GitLimits | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run git with nothing of our environment but PATH, and for a limited time."""
    patience = seconds or PATIENCE_SECONDS
    given, source = (stdin, None) if isinstance(stdin, bytes) else (None, stdin)
    with ExitStack() as held:
        if bound is not None and given:  # from a file: Python can't resume writing to a pipe after a timeout
            source = held.enter_context(_in_memory(given))
            given = None
        process = held.enter_context(_running(words, folder, more, owner, source, stdout))
        if bound is not None:
            bound.apply(process.pid)
        try:
            out, error = _communicate(process, given, patience, bound)
        except subprocess.TimeoutExpired as late:
            where = f" in {folder}" if folder is not None else ""
            raise GitTooLong(
                f"git {_command(words)} took longer than {patience:g} seconds{where} and was stopped; "
                "see that the machine is not overloaded, and try again"
            ) from late
        except JobGivenUp as halted:
            raise JobGivenUp(f"git {_command(words)} was stopped: the job is given up") from halted
    done = subprocess.CompletedProcess(words, process.returncode, out or b"", error)
    if bound is not None:
        bound.check(done)
    return done


def _communicate(
    process: subprocess.Popen[bytes], given: bytes | None, patience: float, bound: GitLimits | None
) -> tuple[bytes | None, bytes]:
    """Collect git's output until it ends. JobGivenUp where the user gives the job up meanwhile."""
    deadline = time.monotonic() + patience
    while True:
        left = deadline - time.monotonic()
        try:
            return process.communicate(given, left if bound is None else min(left, LOOK_SECONDS))
        except subprocess.TimeoutExpired:
            if bound is None or time.monotonic() > deadline:
                raise
            if bound.given_up():
                raise JobGivenUp from None


@contextmanager
def _in_memory(data: bytes) -> Iterator[IO[bytes]]:
    """A file in memory that holds these bytes, at its beginning."""
    with os.fdopen(os.memfd_create("parley"), "w+b") if _MEMORY_FILES else tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        yield file


def _command(words: list[str]) -> str:
    """The git command among the words."""
    pairs = itertools.pairwise(words)
    return next((word for before, word in pairs if not word.startswith("-") and before != "-c"), "")


@functools.cache
def _ending_with_parent() -> tuple[str, ...]:
    """The words before a command that make it end when this process does, however that ends.

    Python can ask for it only by a function between fork and exec, which is slow and unsafe with threads. Where the
    program is missing, or another has its name, git ends by itself, and the job's next owner kills what is left.
    """
    found = shutil.which("setpriv", path=search_path())
    tie = (found, "--pdeathsig", "TERM", "--") if found else ()
    try:
        tried = subprocess.run([*tie, "true"], capture_output=True, check=False, timeout=PATIENCE_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tie if tried.returncode == 0 else ()


@contextmanager
def _running(
    words: list[str],
    folder: Path | None,
    more: Mapping[str, str],
    owner: tuple[int, int] | None = None,
    stdin: IO[bytes] | None = None,
    stdout: IO[bytes] | None = None,
    tie: tuple[str, ...] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """A running git. Afterwards it and everything that it started has ended.

    `tie`: the words before the command that make it end with this process, where they are others than usual.
    """
    path = search_path()
    kept = {"PATH": path, **({"TMPDIR": os.environ["TMPDIR"]} if "TMPDIR" in os.environ else {})}
    user, group = owner or (None, None)
    found = program(path) if words[0] == "git" else words[0]
    tied = _ending_with_parent() if tie is None else tie
    try:
        process = subprocess.Popen(
            [*(tied if found.startswith("/") else ()), found, *words[1:]],
            stdin=subprocess.PIPE if stdin is None else stdin,
            stdout=subprocess.PIPE if stdout is None else stdout,
            stderr=subprocess.PIPE,
            env={**kept, **_ENVIRONMENT, **more},
            cwd=folder if folder is not None else "/",
            user=user,
            group=group,
            extra_groups=[] if owner else None,
            process_group=0,
        )
    except FileNotFoundError as error:
        if folder is not None and not folder.is_dir():
            raise WorkspaceError(f"{folder}: the folder is gone; put it back, or withdraw the job") from error
        raise WorkspaceError("git is not installed; install it and try again") from error
    try:
        yield process
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):  # asked first, so that it deletes its locks
            if process.poll() is None:
                with suppress(ProcessLookupError, subprocess.TimeoutExpired):
                    os.killpg(process.pid, number)
                    process.wait(GRACE_SECONDS)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        process.wait()


@functools.cache
def program(path: str) -> str:
    """The git of a search path, found once: one that a merge puts there later is not used."""
    return shutil.which("git", path=path) or "git"


def last_line(done: subprocess.CompletedProcess[bytes]) -> str:
    """The most telling line of git's errors, or its exit code where it printed none."""
    return most_telling_line(done.stderr) or f"it ended with {done.returncode}"


def most_telling_line(errors: bytes) -> str:
    """The error line that names a file that git could not create, else the last line."""
    said = [line.strip() for line in errors.decode("utf-8", "replace").splitlines() if line.strip()]
    named = [line for line in said if _UNMADE in line]
    return (named or said or [""])[-1]


def check_version() -> None:
    """Refuse a git that can't merge without a work tree."""
    said = execute(["git", "--version"], None, b"", {}).stdout.decode("utf-8", "replace")
    found = re.search(r"(\d+)\.(\d+)", said)
    if found is None or (int(found[1]), int(found[2])) < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        raise WorkspaceError(
            f"git {wanted} or newer is needed, and this is {said.strip() or 'none'}; install a newer one"
        )


def create(folder: Path, object_format: str) -> Git:
    """A bare repository that takes content byte for byte."""
    words = ["git", *_FLAGS, "init", "--quiet", "--bare", "--template=", f"--object-format={object_format}"]
    done = execute([*words, str(folder)], None, b"", {})
    if done.returncode:
        raise GitError(f"git init failed in {folder}: {last_line(done)}")
    (folder / "info").mkdir(exist_ok=True)
    (folder / "info" / "attributes").write_text(RAW_ATTRIBUTES, encoding="utf-8")
    return Git(folder)


def quoted(path: Path) -> str:
    """A path as git's list of alternates takes it, also with quotes, line feeds and the like."""
    plain = str(path)
    if plain.isprintable() and plain.isascii() and not set(plain) & set('":\\#'):
        return plain
    escaped = (chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:03o}" for byte in os.fsencode(plain))  # noqa: PLR2004 - what ASCII can print
    return f'"{"".join(escaped)}"'


# ---- objects, written without git: a file that an agent may be changing is read once, without following links ----


class LooseObjects:
    """The loose objects of a repository."""

    def __init__(self, repository: Path, object_format: str) -> None:
        self._folder = repository / "objects"
        self._format = object_format
        self._unsynced: list[Path] = []
        self.written_bytes = 0

    def write(self, kind: str, data: bytes) -> str:
        """Write an object; returns its id."""
        head, name = f"{kind} {len(data)}\0".encode(), self.name(kind, data)
        path = self._path(name)
        if not path.exists():
            handle, draft = self._draft()
            with handle:
                handle.write(zlib.compress(head + data, 1))
            self._place(draft, path)
        return name

    def write_file(self, source: BinaryIO, size: int) -> str:
        """Write a file's content as an object, in chunks; returns its id. OSError if the file changes meanwhile."""
        head = f"blob {size}\0".encode()
        digest, press, left = hashlib.new(self._format, head), zlib.compressobj(1), size
        handle, draft = self._draft()
        try:
            with handle:
                handle.write(press.compress(head))
                while left and (data := source.read(min(CHUNK, left))):
                    digest.update(data)
                    handle.write(press.compress(data))
                    left -= len(data)
                handle.write(press.flush())
            if left or source.read(1):
                raise OSError("it changes while it is read")  # noqa: TRY301 - as any other failure to read it
            name = digest.hexdigest()
            if self._path(name).exists():
                draft.unlink()
            else:
                self._place(draft, self._path(name))
            return name
        except OSError:
            draft.unlink(missing_ok=True)
            raise

    def read(self, name: str, most: int) -> bytes | None:
        """What an object holds, as its name says; None where it is not loose, or has more than so many bytes."""
        try:
            data = zlib.decompressobj().decompress(self._path(name).read_bytes(), most + LONGEST_HEAD)
        except (OSError, zlib.error):
            return None
        _, _, content = data.partition(b"\0")
        return content if len(content) <= most and hashlib.new(self._format, data).hexdigest() == name else None

    def name(self, kind: str, data: bytes) -> str:
        """The id of an object, written or not."""
        return hashlib.new(self._format, f"{kind} {len(data)}\0".encode() + data).hexdigest()

    def sync(self) -> None:
        """Wait until the disk has what was written."""
        few = 64
        paths, self._unsynced = self._unsynced, []
        if len(paths) > few:
            os.sync()
            return
        for path in dict.fromkeys([*paths, *(path.parent for path in paths)]):
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    def _path(self, name: str) -> Path:
        return self._folder / name[:2] / name[2:]

    def _draft(self) -> tuple[BinaryIO, Path]:
        number, name = tempfile.mkstemp(prefix="tmp_obj_", dir=self._folder)
        return os.fdopen(number, "wb"), Path(name)

    def _place(self, draft: Path, path: Path) -> None:
        self.written_bytes += draft.stat().st_size
        draft.chmod(0o444)
        path.parent.mkdir(exist_ok=True)
        draft.rename(path)
        self._unsynced.append(path)
