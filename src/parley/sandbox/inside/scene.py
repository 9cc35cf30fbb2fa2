"""What the attempts know of their cage and of the host, and the few functions that they share."""

import _socket
import posix

TYPE_CHECKING = False  # typing itself would cost the launcher a megabyte
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

GATEWAY = ("127.0.0.1", 3128)


class Scene:
    """What the attempts know: the cage, and what lies outside that they must not reach."""

    def __init__(self, words: "dict[str, Any]") -> None:
        self.token: str = words["token"]
        self.workspace: str = words["workspace"]
        self.home: str = words["home"]
        self.real_home: list[str] = words["real_home"]
        self.sealed: list[str] = words["sealed"]
        self.visible: dict[str, list[str]] = words["visible"]
        self.namespaces: dict[str, str] = words["namespaces"]
        self.variables: list[str] = words["variables"]
        self.repositories: list[str] = words["repositories"]
        self.folder: str = words["folder"]
        self.file: str = f"{self.folder}/secret"
        self.process: int = words["process"]
        self.tcp: int = words["tcp"]
        self.udp: int = words["udp"]
        self.route: bool = words["route"]
        self.descriptors: set[int] = set()
        self.left: list[str] = []


class Closing:
    """Closes a socket at the end, and gives it a short timeout."""

    def __init__(self, connection: _socket.socket) -> None:
        self.connection = connection
        connection.settimeout(2.0)

    def __enter__(self) -> _socket.socket:
        return self.connection

    def __exit__(self, *_: object) -> None:
        self.connection.close()


def ask_gateway(request: str) -> str:
    """Send the gateway a request; the beginning of its answer."""
    with Closing(_socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)) as connection:
        connection.connect(GATEWAY)
        connection.sendall(request.encode())
        return connection.recv(4096).decode("latin-1")


def connected(family: int, address: "tuple[str, int] | str | bytes") -> str:
    """Connect, and say so."""
    with Closing(_socket.socket(family, _socket.SOCK_STREAM)) as connection:
        connection.connect(address)
    return f"connected to {address!r}"


def read(path: str) -> bytes:
    """The content of a file."""
    place = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
    try:
        parts = []
        while part := posix.read(place, 4096):
            parts.append(part)
        return b"".join(parts)
    finally:
        posix.close(place)


def status() -> "dict[str, str]":
    """The kernel's status of this process."""
    lines = read("/proc/self/status").decode().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def first(probe: "Callable[[str], str]", *paths: str) -> str:
    """What a probe reaches at the first path where it gets anywhere; empty if nowhere."""
    for path in paths:
        try:
            reached = probe(path)
        except OSError:
            continue
        if reached:
            return reached
    return ""


def content(path: str) -> str:
    """Read a file, and say so."""
    read(path)
    return f"read {path}"


def create(path: str) -> None:
    """Make an empty file; an OSError where one exists."""
    posix.close(posix.open(path, posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_CLOEXEC, 0o600))


def opened_for_writing(path: str) -> str:
    """Open a file for writing, and say so."""
    posix.close(posix.open(path, posix.O_WRONLY | posix.O_CLOEXEC | posix.O_NONBLOCK))
    return f"opened {path} for writing"


def planted(folder: str) -> str:
    """Leave a file in a folder for a moment, and say so."""
    name = f"{folder}/.probe"
    create(name)
    posix.unlink(name)
    return f"wrote to {folder}"


def moved(path: str) -> str:
    """Move something away and back, and say so."""
    posix.rename(path, f"{path}.probe")
    posix.rename(f"{path}.probe", path)
    return f"moved {path} away"


def changed(path: str) -> str:
    """Set a mode and times, and say so."""
    found = posix.lstat(path)
    posix.chmod(path, found.st_mode & 0o7777)
    posix.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    return f"changed {path}"
