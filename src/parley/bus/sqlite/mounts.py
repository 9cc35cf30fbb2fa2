"""Which filesystem a folder lies on: the bus needs one whose locks and memory are this machine's own."""

from __future__ import annotations

import os
import re
from pathlib import Path

MOUNTINFO = Path("/proc/self/mountinfo")

_NETWORK = frozenset(
    {
        "9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "gfs2", "glusterfs", "gpfs", "lustre",
        "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "pvfs2", "smb2", "smb3", "smbfs", "sshfs", "vboxsf",
    }
)  # fmt: skip
# Behind FUSE the name is the program's; these carry files over a network.
_NETWORK_PROGRAMS = frozenset(
    {
        "blobfuse", "blobfuse2", "ceph", "ceph-fuse", "davfs", "davfs2", "gcsfuse", "glusterfs", "goofys",
        "gvfsd-fuse", "juicefs", "moosefs", "mfs", "nfs", "rclone", "s3fs", "seaweedfs", "smbnetfs", "sshfs",
        "vmhgfs-fuse",
    }
)  # fmt: skip
_ESCAPE = re.compile(r"\\([0-7]{3})")


def network_filesystem(folder: Path, mountinfo: Path = MOUNTINFO) -> str | None:
    """The type of the network filesystem that holds the folder, or None: it is local, or can't be told."""
    kind = filesystem(folder, mountinfo)
    if kind is None:
        return None
    program = kind.partition(".")[2] if kind.startswith(("fuse.", "fuseblk.")) else ""
    return kind if kind in _NETWORK or program in _NETWORK_PROGRAMS else None


def filesystem(folder: Path, mountinfo: Path = MOUNTINFO) -> str | None:
    """The type of the filesystem that holds the folder, links followed; None where that can't be told."""
    try:
        lines = mountinfo.read_bytes().decode("utf-8", "surrogateescape").split("\n")
    except OSError:
        return None
    real = os.path.realpath(folder)
    best, kind = "", None
    for line in lines:
        mount = _parse(line)
        # Of two mounts on one point the later covers the earlier.
        if mount is not None and _holds(mount[0], real) and len(mount[0]) >= len(best):
            best, kind = mount
    return kind


def _parse(line: str) -> tuple[str, str] | None:
    """Read one line: where it is mounted, and its type. The fields before the dash vary in number."""
    before, dash, after = line.partition(" - ")
    fields, kinds = before.split(" "), after.split(" ")
    if not dash or len(fields) < 6:  # noqa: PLR2004 - the format's own number of fixed fields
        return None
    return _unescape(fields[4]), kinds[0]


def _unescape(text: str) -> str:
    """Put back what the kernel writes in octal: blanks, tabs, line ends, backslashes."""
    return _ESCAPE.sub(lambda found: chr(int(found[1], 8)), text)


def _holds(point: str, path: str) -> bool:
    return point in ("/", path) or path.startswith(f"{point}/")
