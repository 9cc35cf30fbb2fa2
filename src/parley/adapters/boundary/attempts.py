"""The escapes that are tried in the very cage before an agent gets it.

Each attempt really tries what its sentence says. It returns what it reached, in a few words, or nothing where it was
held; an OSError means that it was held. What can only be judged from outside (a file that a write left, a message
that arrived) is looked for there, by canary.py.
"""

import _socket
import posix

from parley.adapters.boundary.calls import call

TYPE_CHECKING = False  # typing itself would cost the launcher a megabyte
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

GATEWAY = ("127.0.0.1", 3128)

_TRACE_SEIZE = 0x4206
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000
_RING_OF_USER, _GET_RING = -4, 0
_INJECT = 0x5412
_DEATH_SIGNAL, _KILL, _END = 2, 9, 15
_VSOCK, _PACKET, _ALG, _MPTCP, _ICMP = 40, 17, 38, 262, 1
# null, zero, full, random, urandom, tty, ptmx
_PLAIN_DEVICES = frozenset(((1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 2)))
_KIND, _BLOCK, _CHARACTER = 0o170000, 0o060000, 0o020000


class Scene:
    """What the attempts know: where they are, and what there is outside that they must not reach."""

    def __init__(self, words: "dict[str, Any]") -> None:
        self.token: str = words["token"]
        self.workspace: str = words["workspace"]
        self.home: str = words["home"]
        self.real_home: str = words["real_home"]
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


# ---- files ---------------------------------------------------------------------------------------


def read_outside(scene: Scene) -> str:
    """Read a file outside by its path."""
    return _content(scene.file)


def climb(scene: Scene) -> str:
    """Read the same file by climbing out of the workspace with `..`."""
    return _content(scene.workspace + "/.." * 40 + scene.file)


def follow_link(scene: Scene) -> str:
    """Read it through a symbolic link made in the agent's home."""
    link = f"{scene.home}/.probe-{scene.token}"
    posix.symlink(scene.file, link)
    try:
        return _content(link)
    finally:
        posix.unlink(link)


def through_process(scene: Scene) -> str:
    """Read it by the root and the working folder of the first process."""
    return _first(_content, f"/proc/1/root{scene.file}", "/proc/1/cwd" + "/.." * 40 + scene.file)


def hard_link(scene: Scene) -> str:
    """Make a hard link of it in the agent's home."""
    link = f"{scene.home}/.probe-{scene.token}"
    posix.link(scene.file, link)
    posix.unlink(link)
    return f"linked {scene.file}"


def rename_in(scene: Scene) -> str:
    """Move a file from outside into the agent's home."""
    taken = f"{scene.home}/.probe-{scene.token}"
    posix.rename(scene.file, taken)
    posix.unlink(taken)
    return f"took {scene.file}"


def change_outside(scene: Scene) -> str:
    """Change the mode and the times of a file outside."""
    return _first(_changed, scene.file, scene.folder)


def list_around(scene: Scene) -> str:
    """List every folder above what is bound: only what was bound may be in it."""
    for folder, names in scene.visible.items():
        try:
            found = posix.listdir(folder)
        except OSError:
            continue
        extra = [name for name in found if name not in names]
        if extra:
            return f"{folder} shows {extra[0]}" + (f" and {len(extra) - 1} more" if len(extra) > 1 else "")
    return ""


def real_home(scene: Scene) -> str:
    """List the home of the person who runs Parley."""
    allowed = scene.visible.get(scene.real_home, [])
    extra = [name for name in posix.listdir(scene.real_home) if name not in allowed]
    return f"{scene.real_home} shows {extra[0]}" if extra else ""


def write_beside(scene: Scene) -> str:
    """Leave a file beside the workspace; whether it is really there is seen from outside."""
    name = f"{scene.workspace.rsplit('/', 1)[0]}/.probe-{scene.token}"
    _create(name)
    scene.left.append(name)
    return ""


def write_system(scene: Scene) -> str:
    """Write to the root, to /usr, /etc, /home and the interpreter."""
    for folder in ("", "/usr", "/usr/bin", "/usr/lib", "/etc", "/home", "/proc", "/sys"):
        name = f"{folder}/.probe-{scene.token}"
        try:
            _create(name)
        except OSError:
            pass
        else:
            posix.unlink(name)
            return f"wrote {name}"
    for folder in ("/", "/usr", "/etc"):
        if not posix.statvfs(folder).f_flag & posix.ST_RDONLY:
            return f"{folder} is not mounted read-only"
    return ""


def write_sealed(scene: Scene) -> str:
    """Open for writing, replace or move away what lies sealed over the workspace."""
    for path in scene.sealed:
        reached = _first(_opened_for_writing, path) or _first(_moved, path) or _first(_changed, path)
        if reached or not posix.statvfs(path).f_flag & posix.ST_RDONLY:
            return reached or f"{path} is not mounted read-only"
    return ""


def shared_repository(scene: Scene) -> str:
    """Plant a hook, or open the config and the refs, in the repository that workspaces share."""
    for place in (*scene.repositories, f"{scene.folder}/.git"):
        reached = _first(_opened_for_writing, f"{place}/config", f"{place}/HEAD") or _first(
            _planted, f"{place}/hooks", f"{place}/refs/heads", place
        )
        if reached:
            return reached
    return ""


def devices(scene: Scene) -> str:
    """Look for a disk, memory or any other device than the plain ones; make one."""
    for name in posix.listdir("/dev"):
        status = posix.lstat(f"/dev/{name}")
        kind = status.st_mode & _KIND
        numbers = (posix.major(status.st_rdev), posix.minor(status.st_rdev))
        if kind == _BLOCK or (kind == _CHARACTER and numbers not in _PLAIN_DEVICES and name != "console"):
            return f"/dev/{name} is there"
    name = f"{scene.home}/.probe-{scene.token}"
    posix.mknod(name, _BLOCK | 0o600, posix.makedev(259, 0))
    posix.unlink(name)
    return "made a block device"


def system_settings(scene: Scene) -> str:
    """Open the kernel's settings for writing: what runs on a crash, the domain's name."""
    return _first(_opened_for_writing, "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/domainname",
                  "/proc/sys/kernel/hostname", "/proc/sys/vm/drop_caches")  # fmt: skip


def system_request(scene: Scene) -> str:
    """Open the kernel's emergency keyboard and its firmware's settings for writing."""
    return _first(_opened_for_writing, "/proc/sysrq-trigger", "/proc/kcore", "/sys/power/state", "/proc/bus/pci")


def second_wall(scene: Scene) -> str:
    """Write where the mounts would let it and only Landlock does not: /run."""
    name = f"/run/.probe-{scene.token}"
    _create(name)
    posix.unlink(name)
    return "wrote to /run: Landlock is not in force"


def file_handle(scene: Scene) -> str:
    """Open a file by its number, past all paths."""
    place = posix.open(scene.home, posix.O_RDONLY | posix.O_CLOEXEC)
    try:
        handle = (8).to_bytes(4, "little") + (1).to_bytes(4, "little") + bytes(8)
        call("open_by_handle_at", place, handle, 0)
    except OSError as error:
        return "" if error.errno == 1 else f"the kernel looked for it ({error.strerror})"
    finally:
        posix.close(place)
    return "opened a handle"


# ---- processes -----------------------------------------------------------------------------------


def other_processes(scene: Scene) -> str:
    """List the processes: only the cage's own may be there."""
    own = {"1", str(posix.getpid())}
    others = [name for name in posix.listdir("/proc") if name.isdecimal() and name not in own]
    return f"{len(others)} processes of others are there" if others else ""


def environment(scene: Scene) -> str:
    """Look for variables of Parley's own in the environment, here and in the first process."""
    for path in ("/proc/self/environ", "/proc/1/environ"):
        try:
            variables = _read(path).split(b"\0")
        except OSError:
            continue
        names = [variable.split(b"=")[0].decode("utf-8", "replace") for variable in variables if variable]
        extra = [name for name in names if name not in scene.variables]
        if extra:
            return f"{path} holds {extra[0]}"
    return ""


def descriptors(scene: Scene) -> str:
    """Look for open files that were passed on by mistake, here and in the first process."""
    for name in posix.listdir("/proc/self/fd"):
        if int(name) not in scene.descriptors:
            try:
                return f"descriptor {name} is {posix.readlink(f'/proc/self/fd/{name}')}"
            except OSError:
                continue  # it was the listing's own
    return ""


def signal_outside(scene: Scene) -> str:
    """End a process outside; whether it died is seen from outside."""
    if scene.process not in (1, posix.getpid()):
        posix.kill(scene.process, _END)
        return f"signalled process {scene.process}"
    return ""


def trace(scene: Scene) -> str:
    """Trace the first process, and read its memory."""
    try:
        call("ptrace", _TRACE_SEIZE, 1, 0, 0)
    except OSError:
        place = posix.open("/proc/1/mem", posix.O_RDONLY | posix.O_CLOEXEC)
        posix.close(place)
        return "opened the memory of process 1"
    return "traced process 1"


def steal_descriptor(scene: Scene) -> str:
    """Take an open file out of the first process."""
    handle = call("pidfd_open", 1, 0)
    try:
        posix.close(call("pidfd_getfd", handle, 0, 0))
    finally:
        posix.close(handle)
    return "took a descriptor of process 1"


def outlive(scene: Scene) -> str:
    """See that the cage dies with whoever started it."""
    kept = bytes(8)
    call("prctl", _DEATH_SIGNAL, kept, 0, 0, 0)
    return "" if kept[0] == _KILL else "it would outlive Parley"


# ---- network -------------------------------------------------------------------------------------


def abstract_socket(scene: Scene) -> str:
    """Connect to an abstract socket of the host."""
    return _connected(_socket.AF_UNIX, b"\0parley-canary-" + scene.folder.encode())


def path_socket(scene: Scene) -> str:
    """Connect to a socket of the host by its path."""
    return _connected(_socket.AF_UNIX, f"{scene.folder}/socket")


def tcp(scene: Scene) -> str:
    """Connect to a port of the host."""
    return _connected(_socket.AF_INET, ("127.0.0.1", scene.tcp))


def udp(scene: Scene) -> str:
    """Send a datagram to the host; whether it arrived is seen from outside."""
    with _Closing(_socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)) as sender:
        sender.sendto(scene.token.encode(), ("127.0.0.1", scene.udp))
    return ""


def interfaces(scene: Scene) -> str:
    """Look for a network interface other than the loopback."""
    lines = _read("/proc/net/dev").decode().splitlines()[2:]
    others = [line.split(":")[0].strip() for line in lines if line.split(":")[0].strip() != "lo"]
    return f"{others[0]} is there" if others else ""


def socket_families(scene: Scene) -> str:
    """Open sockets of other kinds: vsock, packets, raw, the kernel's ciphers, multipath TCP."""
    for family, kind, protocol in (
        (_VSOCK, _socket.SOCK_STREAM, 0),
        (_PACKET, _socket.SOCK_DGRAM, 0),
        (_ALG, _socket.SOCK_SEQPACKET, 0),
        (_socket.AF_INET, _socket.SOCK_RAW, _ICMP),
        (_socket.AF_INET, _socket.SOCK_STREAM, _MPTCP),
    ):
        try:
            _socket.socket(family, kind, protocol).close()
        except OSError:
            continue
        return f"a socket of family {family}, protocol {protocol}"
    return ""


def unlisted_host(scene: Scene) -> str:
    """Ask the gateway for a host that is not on its list."""
    if not scene.route:
        return _connected(_socket.AF_INET, GATEWAY)
    answer = ask_gateway(f"CONNECT 127.0.0.1:{scene.tcp} HTTP/1.1\r\n\r\n")
    return "" if answer.startswith("HTTP/1.1 403 ") else f"it answered {answer[:40]!r}"


# ---- the kernel ----------------------------------------------------------------------------------


def user_namespace(scene: Scene) -> str:
    """Become root in a namespace of one's own."""
    call("unshare", _NEW_USER)
    return "made one"


def other_namespaces(scene: Scene) -> str:
    """Compare each namespace with the host's."""
    for kind, outside in scene.namespaces.items():
        if posix.readlink(f"/proc/self/ns/{kind}") == outside:
            return f"the {kind} namespace is the host's"
    return ""


def enter_namespace(scene: Scene) -> str:
    """Enter the first process's mount namespace."""
    place = posix.open("/proc/1/ns/mnt", posix.O_RDONLY | posix.O_CLOEXEC)
    try:
        call("setns", place, 0)
    finally:
        posix.close(place)
    return "entered it"


def mount(scene: Scene) -> str:
    """Mount something, make the root writable, unmount what seals."""
    for name, words in (
        ("mount", (b"none\0", b"/tmp\0", b"tmpfs\0", 0, 0)),
        ("mount", (b"none\0", b"/\0", 0, 0x1020, 0)),
        ("umount2", (b"/proc\0", 2)),
        ("fsopen", (b"tmpfs\0", 0)),
    ):
        try:
            call(name, *words)
        except OSError:
            continue
        return f"{name} worked"
    return ""


def chroot(scene: Scene) -> str:
    """Change the root."""
    posix.chroot("/tmp")  # noqa: S108 - the cage's own
    return "changed it"


def capabilities(scene: Scene) -> str:
    """Look for any privilege, or for a way to gain one."""
    fields = _status()
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        if int(fields[name], 16):
            return f"{name} is {fields[name]}"
    if fields["NoNewPrivs"] != "1":
        return "a program may gain privileges"
    return ""


def become_root(scene: Scene) -> str:
    """Be root, or become it."""
    if 0 in {posix.getuid(), posix.geteuid()}:
        return "it is root"
    posix.setuid(0)
    return "became root"


def filtered(scene: Scene) -> str:
    """See that a filter of system calls is in force."""
    return "" if _status()["Seccomp"] == "2" else "no filter is in force"


def keyring(scene: Scene) -> str:
    """Reach the user's keyring."""
    call("keyctl", _GET_RING, _RING_OF_USER, 1)
    return "reached it"


def io_uring(scene: Scene) -> str:
    """Make a ring of system calls, which filters don't see."""
    posix.close(call("io_uring_setup", 1, bytes(120)))
    return "made one"


def kernel_programs(scene: Scene) -> str:
    """Load a program into the kernel, watch events, handle page faults."""
    for name, words in (
        ("bpf", (0, bytes(128), 128)),
        ("perf_event_open", (bytes(128), 0, -1, -1, 0)),
        ("userfaultfd", (1,)),
    ):
        try:
            call(name, *words)
        except OSError as error:
            if error.errno == 1:
                continue
            return f"{name} got as far as: {error.strerror}"
        return f"{name} worked"
    return ""


def kernel(scene: Scene) -> str:
    """Load a module, read the kernel's log, set the clock, swap."""
    for name, words in (
        ("finit_module", (-1, b"\0", 0)),
        ("syslog", (10, 0, 0)),
        ("clock_settime", (99, bytes(16))),
        ("swapoff", (b"/nowhere\0",)),
        ("acct", (b"/nowhere\0",)),
    ):
        try:
            call(name, *words)
        except OSError as error:
            if error.errno == 1:
                continue
            return f"{name} got as far as: {error.strerror}"
        return f"{name} worked"
    return ""


def hostname(scene: Scene) -> str:
    """Rename the machine."""
    call("sethostname", b"escaped", 7)
    return "renamed it"


def personality(scene: Scene) -> str:
    """Take on an execution domain that weakens memory protection."""
    call("personality", 0x0400000)
    return "took it on"


def shared_memory(scene: Scene) -> str:
    """Look for memory that other programs share."""
    if posix.listdir("/dev/shm"):  # noqa: S108 - the cage's own
        return "it is not empty"
    return "segments of others are there" if len(_read("/proc/sysvipc/shm").splitlines()) > 1 else ""


def terminal(scene: Scene) -> str:
    """Type for whoever sits at the terminal, or share their session."""
    if posix.getsid(0) == 0:
        return "the session is one of outside"
    for place in (0, 1, 2):
        try:
            call("ioctl", place, _INJECT, b"\n\0")
        except OSError as error:
            if error.errno == 1:
                continue
            return f"the kernel was asked ({error.strerror})"
        return "typed a line"
    return ""


ATTEMPTS = (
    read_outside, climb, follow_link, through_process, hard_link, rename_in, change_outside, list_around, real_home,
    write_beside, write_system, write_sealed, shared_repository, devices, system_settings, system_request, second_wall,
    file_handle, other_processes, environment, descriptors, signal_outside, trace, steal_descriptor, outlive,
    abstract_socket, path_socket, tcp, udp, interfaces, socket_families, unlisted_host, user_namespace,
    other_namespaces, enter_namespace, mount, chroot, capabilities, become_root, filtered, keyring, io_uring,
    kernel_programs, kernel, hostname, personality, shared_memory, terminal,
)  # fmt: skip


# ---- what they share -----------------------------------------------------------------------------


class _Closing:
    def __init__(self, connection: _socket.socket) -> None:
        self.connection = connection
        connection.settimeout(2.0)

    def __enter__(self) -> _socket.socket:
        return self.connection

    def __exit__(self, *_: object) -> None:
        self.connection.close()


def ask_gateway(request: str) -> str:
    """Send the gateway a request; the beginning of its answer."""
    with _Closing(_socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)) as connection:
        connection.connect(GATEWAY)
        connection.sendall(request.encode())
        return connection.recv(4096).decode("latin-1")


def _connected(family: int, address: "tuple[str, int] | str | bytes") -> str:
    with _Closing(_socket.socket(family, _socket.SOCK_STREAM)) as connection:
        connection.connect(address)
    return f"connected to {address!r}"


def _read(path: str) -> bytes:
    place = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
    try:
        parts = []
        while part := posix.read(place, 65536):
            parts.append(part)
        return b"".join(parts)
    finally:
        posix.close(place)


def _status() -> "dict[str, str]":
    lines = _read("/proc/self/status").decode().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _first(probe: "Callable[[str], str]", *paths: str) -> str:
    for path in paths:
        try:
            reached = probe(path)
        except OSError:
            continue
        if reached:
            return reached
    return ""


def _content(path: str) -> str:
    _read(path)
    return f"read {path}"


def _create(path: str) -> None:
    posix.close(posix.open(path, posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_CLOEXEC, 0o600))


def _opened_for_writing(path: str) -> str:
    posix.close(posix.open(path, posix.O_WRONLY | posix.O_CLOEXEC | posix.O_NONBLOCK))
    return f"opened {path} for writing"


def _planted(folder: str) -> str:
    name = f"{folder}/.probe"
    _create(name)
    posix.unlink(name)
    return f"wrote to {folder}"


def _moved(path: str) -> str:
    posix.rename(path, f"{path}.probe")
    posix.rename(f"{path}.probe", path)
    return f"moved {path} away"


def _changed(path: str) -> str:
    status = posix.lstat(path)
    posix.chmod(path, status.st_mode & 0o7777)
    posix.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    return f"changed {path}"
