"""A bus on a network filesystem is refused."""

from pathlib import Path

import pytest

from parley.bus.rows import BusError
from parley.bus.sqlite.mounts import MOUNTINFO, filesystem, network_filesystem
from parley.bus.sqlite.sqlite_store import SqliteStore

KINDS = [
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "fuse.sshfs",
    "fuse.glusterfs", "fuse.rclone", "fuse.s3fs",
]  # fmt: skip


def table(folder: Path, *mounts: tuple[Path | str, str]) -> Path:
    """Write a table of mounts as the kernel does."""
    lines = []
    for number, (point, kind) in enumerate((("/", "ext4"), *mounts), 20):
        shown = str(point).replace("\\", "\\134").replace(" ", "\\040")
        optional = " shared:1 master:2" if number % 2 else ""
        lines.append(f"{number} 1 8:1 / {shown} rw,relatime{optional} - {kind} server:/dir rw\n")
    path = folder / "mountinfo"
    path.write_text("".join(lines))
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_a_network_filesystem_is_refused_in_one_line(tmp_path: Path, kind: str) -> None:
    home = tmp_path / "a home"
    home.mkdir()

    with pytest.raises(BusError, match=rf"can't lie on a network filesystem \({kind}\)") as refused:
        SqliteStore(home, mountinfo=table(tmp_path, (tmp_path, kind)))

    assert "\n" not in str(refused.value)
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "apfs", "fuse.fuse-overlayfs"])
def test_a_local_filesystem_is_used(tmp_path: Path, kind: str) -> None:
    SqliteStore(tmp_path, mountinfo=table(tmp_path, (tmp_path, kind))).close()
    assert SqliteStore.exists(tmp_path)


def test_the_nearest_mount_counts_and_of_two_on_one_point_the_later(tmp_path: Path) -> None:
    inner = tmp_path / "with a blank" / "inner"
    inner.mkdir(parents=True)
    mounts = table(
        tmp_path,
        (tmp_path, "nfs"),
        (inner, "nfs4"),
        (inner, "xfs"),
        (f"{inner}side", "cifs"),
        (inner.parent, "btrfs"),
    )

    assert filesystem(inner, mounts) == "xfs"
    assert filesystem(inner.parent, mounts) == "btrfs"
    assert network_filesystem(tmp_path, mounts) == "nfs"


def test_links_are_followed(tmp_path: Path) -> None:
    far = tmp_path / "far"
    far.mkdir()
    (tmp_path / "near").symlink_to(far)

    assert network_filesystem(tmp_path / "near", table(tmp_path, (far, "nfs"))) == "nfs"


def test_where_the_system_does_not_say_all_is_allowed(tmp_path: Path) -> None:
    assert filesystem(tmp_path, tmp_path / "none") is None
    SqliteStore(tmp_path, mountinfo=tmp_path / "none").close()
    (tmp_path / "odd").write_bytes(b"\xff nonsense\n\n1 2 3 - nfs\n")
    assert filesystem(tmp_path, tmp_path / "odd") is None


@pytest.mark.skipif(not MOUNTINFO.exists(), reason="this system has no such table")
def test_this_system_is_understood() -> None:
    assert filesystem(Path("/proc")) == "proc"
