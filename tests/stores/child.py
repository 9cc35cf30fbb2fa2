"""A process with a store of its own, which does what it reads and prints what came of it, a line for each.

Run as `python -m tests.stores.child HOME [OPTION=VALUE ...]`.
"""

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

from parley.bus import key_files
from parley.bus.rows import BusError, LostOwnership
from parley.bus.sqlite.sqlite_store import SqliteStore
from parley.bus.store import Store
from tests.stores.rows import commit, job, message, step

ROOT = Path(__file__).resolve().parents[2]


def do(store: Store, what: str, *values: str) -> str:
    """Do one thing; what to print."""
    match what, values:
        case "create", [name]:
            store.create(job(name))
        case "own", [name]:
            return str(store.own(name))
        case "lives", [name]:
            return str(store.owner_lives(name))
        case "commit", [name, epoch, first, last]:  # one each
            for number in range(int(first), int(last) + 1):
                rows = {"steps": [step(number, number)], "messages": [message(number, number)]}
                store.commit([commit(number, int(epoch), name, **rows)])  # type: ignore[arg-type]  # as JSON has them
        case "put", [name, who, count]:
            for number in range(int(count)):
                store.put(name, "answer", f"{who}-{number}", 1.0, who, "{}")
        case "spawn", []:  # a child that outlives this process
            child = subprocess.Popen(["sleep", "60"], close_fds=False, stdout=subprocess.DEVNULL)
            return str(child.pid)
        case "fork", []:
            return str(os.fork() or wait_for_the_end())
        case "fork-commit", [name, epoch]:
            return str(os.waitstatus_to_exitcode(os.waitpid(os.fork() or try_to_commit(store, name, epoch), 0)[1]))
        case "limit", [size]:  # what any file of this process can grow to: a write beyond it fails
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (int(size), resource.RLIM_INFINITY))
        case _:
            raise ValueError(what)
    return "done"


def try_to_commit(store: Store, name: str, epoch: str) -> NoReturn:
    """In a forked child: 7 if it may not."""
    try:
        store.commit([commit(1, int(epoch), name)])
    except LostOwnership:
        os._exit(7)
    os._exit(1)


def wait_for_the_end() -> int:
    """In a forked child: keep what was inherited, and do nothing, until a signal comes."""
    os.close(1)
    while True:
        signal.pause()


def opened(home: str, given: dict[str, str]) -> Store:
    """The bus of a home; on a server, if its address and key are given."""
    if "url" not in given:
        return SqliteStore(Path(home), **given)  # type: ignore[arg-type]  # as JSON has them
    from parley.bus.postgres.postgres_store import PostgresStore  # noqa: PLC0415 - other children need no psycopg
    from parley.bus.postgres.server_address import address_of  # noqa: PLC0415 - as above

    key = key_files.read(given["key"])
    assert key is not None
    address = address_of("tests", {"tests": given["url"]}, {})
    return PostgresStore(Path(home), key, address, lease_seconds=float(given["lease"]))


def tell(text: str) -> None:
    """Say it with one write, whatever the buffering: a trace shows when."""
    os.write(1, f"{text}\n".encode())


def main() -> None:
    home, *options = sys.argv[1:]
    if os.geteuid() == 0 and "unprivileged" in options:  # root may write anything
        os.setuid(65534)
    given = dict(option.split("=", 1) for option in options if "=" in option)
    try:
        store = opened(home, given)
    except BusError as error:
        tell(f"{type(error).__name__}: {error}")
        return
    tell("open")
    for line in sys.stdin:
        try:
            said = do(store, *line.split())
        except BusError as error:
            said = f"{type(error).__name__}: {error}"
        tell(said)


class Process:
    """A child of the test, spoken to by lines."""

    def __init__(self, home: Path, *options: str, under: tuple[str, ...] = ()) -> None:
        self.process = subprocess.Popen(
            [*under, sys.executable, "-m", "tests.stores.child", str(home), *options],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
        )  # fmt: skip
        self.opened = self.hear()

    def say(self, *words: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(map(str, words)) + "\n")

    def hear(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def ask(self, *words: object) -> str:
        self.say(*words)
        return self.hear()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> None:
        """Let it come to its end, or end it."""
        if self.process.poll() is None:
            self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
        self.process.wait()


if __name__ == "__main__":
    main()
