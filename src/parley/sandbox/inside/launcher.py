"""The first program in a cage: sets up Landlock, tries to escape, reports, waits for the word, and becomes the agent.

Parley sends it in compiled, with the modules that it uses, over the socket on which it reports.
"""

import _signal  # type: ignore[import-not-found]  # built in; `signal` would cost the launcher a megabyte
import _socket
import posix

from parley.sandbox.inside import attempts, landlock
from parley.sandbox.inside import scene as scene_of
from parley.sandbox.inside.syscalls import call

TYPE_CHECKING = False  # typing itself would cost the launcher a megabyte
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

GO = b"GO"
_LIMITS = {"processes": 6, "open_files": 7, "core": 4, "file_size": 1}
_REGULAR = 0o100000


def main(control: int, words: "dict[str, Any]") -> int:
    """Verify the cage, then become the agent."""
    outside = _socket.socket(fileno=control)
    scene = scene_of.Scene(words)
    scene.descriptors = {0, 1, 2, control}
    listener = _listen(outside) if scene.route else None
    if listener is not None:
        scene.descriptors.add(listener.fileno())
    lines = [_wall(words)]
    lines += [_attempt(attempt, scene) for attempt in attempts.ATTEMPTS]
    lines += [f"{name}\tcontrol\t{_control(control_of, scene, words)}" for name, control_of in CONTROLS.items()]
    status = scene_of.status()
    lines.append(f"resident\tmeasure\t{status['VmHWM'].split()[0]}")
    outside.sendall("\n".join(lines).encode("utf-8", "replace") + b"\n\n")
    if outside.recv(len(GO)) != GO:
        return 1
    for name in scene.left:
        posix.unlink(name)
    return _become(words)


def _listen(outside: _socket.socket) -> _socket.socket:
    """Open the gateway's port in here, and hand the listening socket out."""
    listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    # with the host's network, closed connections of an earlier cage would make this fail before the attempts can tell
    listener.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
    listener.bind(scene_of.GATEWAY)
    listener.listen(64)
    handed = listener.fileno().to_bytes(4, "little")
    outside.sendmsg([b"L"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, handed)])
    return listener


def _wall(words: "dict[str, Any]") -> str:
    if not words["wall"]:
        return "landlock\tcontrol\tleft out"
    try:
        version = landlock.restrict(words["readable"], words["writable"], words["listable"])
    except OSError as error:
        return f"landlock\tcontrol\tthe kernel has no Landlock ({error.strerror})"
    return f"landlock\tcontrol\tok version {version}"


def _attempt(attempt: "Callable[[scene_of.Scene], str]", scene: scene_of.Scene) -> str:
    name: str = attempt.__name__
    try:
        reached = attempt(scene)
    except OSError:
        reached = ""
    except Exception as error:  # noqa: BLE001 - after any error the attempt proves nothing about the cage
        return f"{name}\tbroken\t{type(error).__name__}: {' '.join(str(error).split())}"
    return f"{name}\tescaped\t{reached}" if reached else f"{name}\theld\t"


def _control(
    control: "Callable[[scene_of.Scene, dict[str, Any]], str]", scene: scene_of.Scene, words: "dict[str, Any]"
) -> str:
    try:
        return control(scene, words)
    except OSError as error:
        return f"{error.strerror}: {error.filename or ''}"


def write_workspace(scene: scene_of.Scene, words: "dict[str, Any]") -> str:
    """Write to the workspace."""
    return _write(scene.workspace, scene) if words["workspace_writable"] else "ok it is read-only"


def write_home(scene: scene_of.Scene, words: "dict[str, Any]") -> str:
    """Write to the agent's home."""
    return _write(scene.home, scene)


def execute(scene: scene_of.Scene, words: "dict[str, Any]") -> str:
    """Run a program."""
    child = posix.posix_spawn("/bin/sh", ["sh", "-c", "exit 7"], {})
    code = posix.waitstatus_to_exitcode(posix.waitpid(child, 0)[1])
    return "ok" if code == 7 else f"/bin/sh ended with {code}"  # noqa: PLR2004 - as asked for above


def find_command(scene: scene_of.Scene, words: "dict[str, Any]") -> str:
    """Find the agent's own program."""
    return "ok" if _program(words) else f"{words['command'][0]} is not there"


def reach_gateway(scene: scene_of.Scene, words: "dict[str, Any]") -> str:
    """Reach the gateway, where there is a route."""
    if not scene.route:
        return "ok no route"
    answer = scene_of.ask_gateway("GET /.parley HTTP/1.1\r\nHost: gateway\r\n\r\n")
    return "ok" if answer.startswith("HTTP/1.1 403 ") else f"it answered {answer[:40]!r}"


CONTROLS = {
    "write_workspace": write_workspace,
    "write_home": write_home,
    "execute": execute,
    "find_command": find_command,
    "reach_gateway": reach_gateway,
}


def _write(folder: str, scene: scene_of.Scene) -> str:
    name = f"{folder}/.probe-{scene.token}"
    scene_of.create(name)
    posix.unlink(name)
    return "ok"


def _program(words: "dict[str, Any]") -> str:
    name: str = words["command"][0]
    paths = words["environment"].get("PATH", "/usr/bin:/bin")
    places = [name] if "/" in name else [f"{folder}/{name}" for folder in paths.split(":")]
    for place in places:
        if posix.access(place, posix.X_OK) and posix.stat(place).st_mode & 0o170000 == _REGULAR:
            return place
    return ""


def _become(words: "dict[str, Any]") -> int:
    limits: dict[str, int] = words["limits"]
    for name, limit in limits.items():
        call("prlimit64", 0, _LIMITS[name], limit.to_bytes(8, "little") * 2, 0)
    posix.closerange(3, 1 << 16)
    program = _program(words)
    _signal.signal(_signal.SIGPIPE, _signal.SIG_DFL)  # Python ignores it, and programs would inherit that
    try:
        posix.execve(program, words["command"], words["environment"])
    except OSError as error:
        posix.write(2, f"{program}: {error.strerror}\n".encode())
    return 127
