"""`make vendor`: fetches the vendored files of others anew with `npm pack`, and writes their hashes into vendor.json.

Each folder's vendor.json says which file comes from which version of which package. To take a newer version, change the
version there and run this. Nothing of a package is run, and nothing but the files that are named is kept.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
FOLDERS = (ROOT / "src/parley/web/static/vendor", ROOT / "tests/web/vendor")
LIST = "vendor.json"


class VendorError(Exception):
    """A package that can't be fetched, or that does not contain what is wanted of it."""


def fetch(package: str, version: str, into: Path) -> Path:
    """Fetch one package by npm; return its archive."""
    command = ["npm", "pack", "--silent", "--ignore-scripts", f"{package}@{version}"]
    try:
        done = subprocess.run(command, cwd=into, capture_output=True, text=True, check=True)
    except FileNotFoundError:
        raise VendorError("npm is missing: install it") from None
    except subprocess.CalledProcessError as error:
        raise VendorError(f"npm can't fetch {package} {version}: {error.stderr.strip()[-300:]}") from None
    return into / done.stdout.strip().splitlines()[-1]


def read_member(archive: Path, path: str) -> bytes:
    """Read one file out of a package; all files of a package are in one folder of the archive."""
    with tarfile.open(archive) as package:
        for member in package:
            if member.isfile() and member.name.partition("/")[2] == path:
                stream = package.extractfile(member)
                if stream is not None:
                    return stream.read()
    raise VendorError(f"{archive.name} has no {path}")


def refresh(folder: Path, archives: dict[tuple[str, str], Path], into: Path) -> None:
    """Write a folder's files anew, and its list with their hashes; name each file that has changed."""
    files: list[dict[str, Any]] = json.loads((folder / LIST).read_text(encoding="utf-8"))
    for each in files:
        wanted = (each["package"], each["version"])
        if wanted not in archives:
            archives[wanted] = fetch(*wanted, into)
        content = read_member(archives[wanted], each["path"])
        digest = hashlib.sha256(content).hexdigest()
        if digest != each.get("sha256"):
            print(f"{(folder / each['file']).relative_to(ROOT)} has changed: {each['package']} {each['version']}")
        (folder / each["file"]).write_bytes(content)
        each["sha256"] = digest
    (folder / LIST).write_text(json.dumps(files, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> int:
    """Fetch all vendored files anew."""
    archives: dict[tuple[str, str], Path] = {}
    with tempfile.TemporaryDirectory(prefix="parley-vendor-") as into:
        try:
            for folder in FOLDERS:
                refresh(folder, archives, Path(into))
        except VendorError as error:
            print(error, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
