"""Attempts to reach files outside the cage, or to change what is read-only."""

import posix

from parley.sandbox.inside.scene import Scene, changed, content, create, first, moved, opened_for_writing, planted
from parley.sandbox.inside.syscalls import call

# null, zero, full, random, urandom, tty, ptmx
_PLAIN_DEVICES = frozenset(((1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 2)))
_KIND, _BLOCK, _CHARACTER = 0o170000, 0o060000, 0o020000


def read_outside(scene: Scene) -> str:
    """Read a file outside by its path."""
    return content(scene.file)


def climb(scene: Scene) -> str:
    """Read the same file by climbing out of the workspace with `..`."""
    return content(scene.workspace + "/.." * 40 + scene.file)


def follow_link(scene: Scene) -> str:
    """Read it through a symbolic link made in the agent's home."""
    link = f"{scene.home}/.probe-{scene.token}"
    posix.symlink(scene.file, link)
    try:
        return content(link)
    finally:
        posix.unlink(link)


def through_process(scene: Scene) -> str:
    """Read it by the root and the working folder of the first process."""
    return first(content, f"/proc/1/root{scene.file}", "/proc/1/cwd" + "/.." * 40 + scene.file)


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
    return first(changed, scene.file, scene.folder)


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
    for home in scene.real_home:
        allowed = scene.visible.get(home, [])
        extra = [name for name in posix.listdir(home) if name not in allowed]
        if extra:
            return f"{home} shows {extra[0]}"
    return ""


def write_beside(scene: Scene) -> str:
    """Leave a file beside the workspace; outside it is looked for."""
    name = f"{scene.workspace.rsplit('/', 1)[0]}/.probe-{scene.token}"
    create(name)
    scene.left.append(name)
    return ""


def write_system(scene: Scene) -> str:
    """Write to the root, to /usr, /etc and /home; see that they are mounted read-only."""
    for folder in ("", "/usr", "/usr/bin", "/usr/lib", "/etc", "/home", "/proc", "/sys"):
        name = f"{folder}/.probe-{scene.token}"
        try:
            create(name)
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
    """Open for writing, replace or move what is read-only in the workspace."""
    for path in scene.sealed:
        reached = first(opened_for_writing, path) or first(moved, path) or first(changed, path)
        if reached or not posix.statvfs(path).f_flag & posix.ST_RDONLY:
            return reached or f"{path} is not mounted read-only"
    return ""


def shared_repository(scene: Scene) -> str:
    """Plant a hook, or open the config and the refs, in the repository that workspaces share."""
    for place in (*scene.repositories, f"{scene.folder}/.git"):
        reached = first(opened_for_writing, f"{place}/config", f"{place}/HEAD") or first(
            planted, f"{place}/hooks", f"{place}/refs/heads", place
        )
        if reached:
            return reached
    return ""


def devices(scene: Scene) -> str:
    """Look for disks, memory and other devices that no agent needs; make one."""
    for name in posix.listdir("/dev"):
        found = posix.lstat(f"/dev/{name}")
        kind = found.st_mode & _KIND
        numbers = (posix.major(found.st_rdev), posix.minor(found.st_rdev))
        if kind == _BLOCK or (kind == _CHARACTER and numbers not in _PLAIN_DEVICES and name != "console"):
            return f"/dev/{name} is there"
    name = f"{scene.home}/.probe-{scene.token}"
    posix.mknod(name, _BLOCK | 0o600, posix.makedev(259, 0))
    posix.unlink(name)
    return "made a block device"


def system_settings(scene: Scene) -> str:
    """Open the kernel's settings for writing: what runs on a crash, the domain's name."""
    return first(opened_for_writing, "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/domainname",
                  "/proc/sys/kernel/hostname", "/proc/sys/vm/drop_caches")  # fmt: skip


def system_request(scene: Scene) -> str:
    """Open the kernel's emergency commands and its firmware's settings for writing."""
    return first(opened_for_writing, "/proc/sysrq-trigger", "/proc/kcore", "/sys/power/state", "/proc/bus/pci")


def second_wall(scene: Scene) -> str:
    """Write to /run, which the mounts allow and only Landlock forbids."""
    name = f"/run/.probe-{scene.token}"
    create(name)
    posix.unlink(name)
    return "wrote to /run: Landlock is not in force"


def file_handle(scene: Scene) -> str:
    """Open a file by its handle instead of its path."""
    place = posix.open(scene.home, posix.O_RDONLY | posix.O_CLOEXEC)
    try:
        handle = (8).to_bytes(4, "little") + (1).to_bytes(4, "little") + bytes(8)
        call("open_by_handle_at", place, handle, 0)
    except OSError as error:
        return "" if error.errno == 1 else f"the kernel looked for it ({error.strerror})"
    finally:
        posix.close(place)
    return "opened a handle"
