"""`make security`: makes all attempts of this repository, as root and as an ordinary user, and prints what held.

An attempt is one that the launcher makes in a cage, or one case of a test in the modules below, each of which plays a
hostile agent, program, repository, clone or input. Where this runs as root, all of it is done again as an ordinary
user: in a mount namespace of its own, in which a copy of the checkout that is that user's lies over the checkout.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from parley.sandbox.inside.attempts import ATTEMPTS

CHECKOUT = Path(__file__).resolve().parents[1]
USER = 64500  # an ordinary user that no machine has
LAUNCHER = "the launcher's, in a cage"
# What is tried, and the modules below tests/ that try it.
CLASSES = {
    "cages that were spoiled": ("sandbox/test_spoiled_cages.py",),
    "escapes from a cage": ("sandbox/test_escapes.py", "sandbox/test_writes.py", "sandbox/test_proofs.py"),
    "processes, links, seals, system calls": (
        "sandbox/test_processes.py", "sandbox/test_shared_links.py", "sandbox/test_bind_places.py",
        "sandbox/test_seccomp.py",
    ),
    "the way out": ("sandbox/test_gateway.py", "sandbox/test_smuggling.py"),
    "repositories anywhere": ("sandbox/test_any_folder.py", "cli/test_any_folder.py"),
    "bounds, and withdrawals": ("sandbox/test_resource_limits.py", "cli/test_full_disk.py", "steering/test_deaths.py"),
    "workspaces and git": ("workspaces/test_hostile.py", "workspaces/test_unreadable.py", "workspaces/test_sparse.py"),
    "names that are others elsewhere": ("workspaces/test_odd_names.py",),
    "merges, and what tools would run of them": (
        "workspaces/test_merge_to_checkout.py", "base/test_obeyed.py", "inbox/test_obeyed.py",
    ),
    "trust and clones": (
        "trust/test_allowing.py", "trust/test_finding.py", "trust/test_widening.py",
    ),
    "the bus and who may write to it": ("bus/test_gate.py", "bus/test_adopt.py"),
    "hostile agents, whole jobs": (
        "claude/test_hostile.py", "claude/test_guard.py", "command/test_hostile.py", "jobs/test_hostile.py",
    ),
    "odd input, by a fuzzer": (
        "fuzz/test_jobs.py", "fuzz/test_streams.py", "fuzz/test_text.py", "fuzz/test_compartments.py",
        "fuzz/test_removal.py",
    ),
    "what people and agents read": (
        "cli/test_refusals.py", "cli/test_clean.py", "secrets/test_quoting.py",
        "secrets/test_exports.py", "secrets/test_faces.py",
    ),
}  # fmt: skip
_AS_USER = """
set -e
for folder in $BARRED; do mount -t tmpfs -o mode=0755 none "$folder"; done
mkdir -p "$PREFIX" "$CHECKOUT"
mount --bind "$STASH/prefix" "$PREFIX"
mount --bind "$STASH/checkout" "$CHECKOUT"
mount --bind "$STASH/venv" "$VENV"
cd "$CHECKOUT"
exec setpriv --reuid "$WHO" --regid "$WHO" --clear-groups env -i HOME="$STASH/home" LANG=C.UTF-8 \
  PATH=/usr/local/bin:/usr/bin:/bin PYTHONDONTWRITEBYTECODE=1 "$@"
"""


class Found(NamedTuple):
    """What came of the attempts of one class."""

    made: int = 0
    contained: int = 0
    skipped: int = 0

    def words(self) -> str:
        """For the table."""
        return f"{self.contained} of {self.made}" if self.made else "-"


class Column(NamedTuple):
    """All classes, as one kind of user."""

    name: str
    found: dict[str, Found]
    escaped: list[str]


def main() -> int:
    """Make all attempts; 1 where one was not contained."""
    workers = sys.argv[1] if len(sys.argv) > 1 else "2"
    columns = []
    with tempfile.TemporaryDirectory(prefix="parley-security-") as folder:
        stash = Path(folder)
        stash.chmod(0o755)
        if os.geteuid() == 0:
            columns.append(_column("root", stash / "root", workers, ()))
            if why := _prepare(stash):
                print(f"as an ordinary user nothing was tried: {why}")
            else:
                columns.append(_column("user", stash / "tmp", workers, _as_user(stash)))
        else:
            print("this is an ordinary user: nothing is tried as root")
            columns.append(_column("user", stash / "user", workers, ()))
    print("\n".join(table(columns)))
    for column in columns:
        for name in column.escaped:
            print(f"not contained as {column.name}: {name}")
    return 1 if any(column.escaped for column in columns) or not columns else 0


def modules() -> dict[str, str]:
    """Each module, as pytest names it, and its class."""
    return {f"tests/{module}": name for name, listed in CLASSES.items() for module in listed}


def table(columns: Iterable[Column]) -> Iterator[str]:
    """The figures, as Markdown."""
    listed = list(columns)
    yield f"| attempts | {' | '.join(f'contained, as {column.name}' for column in listed)} |"
    yield f"| --- |{' --- |' * len(listed)}"
    for name in (LAUNCHER, *CLASSES):
        cells = [column.found.get(name, Found()) for column in listed]
        if any(cell.made for cell in cells):
            yield f"| {name} | {' | '.join(cell.words() for cell in cells)} |"
    sums = [Found._make(map(sum, zip(*column.found.values(), strict=True))) for column in listed]
    yield f"| all | {' | '.join(cell.words() for cell in sums)} |"


def _column(name: str, folder: Path, workers: str, prefix: tuple[str, ...]) -> Column:
    """Make all attempts as one kind of user."""
    folder.mkdir(exist_ok=True)
    known = modules()
    report = folder / "report.xml"
    pytest = [sys.executable, "-m", "pytest", "-q", "-n", workers, f"--junit-xml={report}", "-p", "no:cacheprovider"]
    print(f"as {name}: {len(known)} modules", flush=True)
    subprocess.run([*prefix, *pytest, *known], cwd=CHECKOUT, check=False)
    found, escaped = _read(report, known)
    made, held, out = _launcher(prefix, folder)
    found[LAUNCHER] = Found(made, held)
    return Column(name, found, [*out, *escaped])


def _launcher(prefix: tuple[str, ...], folder: Path) -> tuple[int, int, list[str]]:
    """What the launcher tries in a cage: how many attempts, how many held, and those that did not."""
    words = [*prefix, str(Path(sys.executable).with_name("parley")), "doctor", "--json", "--repo", str(folder)]
    said = subprocess.run(words, cwd=CHECKOUT, check=False, capture_output=True, text=True).stdout
    try:
        known = {attempt.__name__ for attempt in ATTEMPTS}
        steps = [step for step in json.loads(said)["boundary"]["attempts"] if step["name"] in known]
    except (ValueError, LookupError, TypeError):
        return 1, 0, ["the launcher: `parley doctor --json` told of no attempts"]
    out = [f"the launcher: {step['name']}" for step in steps if step["result"] != "held"]
    return len(steps), len(steps) - len(out), out


def _read(report: Path, known: dict[str, str]) -> tuple[dict[str, Found], list[str]]:
    """Count a run's cases by class; those that failed, by name."""
    made, contained, skipped = Counter[str](), Counter[str](), Counter[str]()
    escaped = []
    if not report.exists():
        return {}, ["pytest wrote no report"]
    for case in ET.parse(report).iter("testcase"):  # noqa: S314 - our own
        path = case.get("classname", "").replace(".", "/")
        name = next((which for module, which in known.items() if path.startswith(module.removesuffix(".py"))), "")
        kinds = {child.tag for child in case}
        if "skipped" in kinds:
            skipped[name] += 1
            continue
        made[name] += 1
        if kinds & {"failure", "error"}:
            escaped.append(f"{path}::{case.get('name')}")
        else:
            contained[name] += 1
    return {name: Found(made[name], contained[name], skipped[name]) for name in CLASSES}, escaped


def _prepare(stash: Path) -> str:
    """Lay out what an ordinary user needs; why that can't be had, or nothing."""
    for program in ("unshare", "setpriv", "mount"):
        if shutil.which(program) is None:
            return f"{program} is missing; install util-linux"
    if subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode:
        return "root may not make a mount namespace here; run `make security` as an ordinary user"
    copy = stash / "checkout"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=CHECKOUT, check=True, capture_output=True,
    ).stdout  # fmt: skip
    for name in filter(None, os.fsdecode(listed).split("\0")):
        source, target = CHECKOUT / name, copy / name
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    venv = Path(sys.prefix)
    (copy / venv.relative_to(CHECKOUT)).mkdir(parents=True)
    for name in ("prefix", "venv", "home", "tmp"):
        (stash / name).mkdir()
    for path in (copy, stash / "home", stash / "tmp"):
        subprocess.run(["chown", "-R", f"{USER}:{USER}", str(path)], check=True)
    return ""


def _as_user(stash: Path) -> tuple[str, ...]:
    """What runs a command as an ordinary user, with the copy in the checkout's place."""
    barred = dict.fromkeys(filter(None, map(_barred, (Path(sys.base_prefix), CHECKOUT))))
    named = {"STASH": stash, "PREFIX": Path(sys.base_prefix).resolve(), "CHECKOUT": CHECKOUT, "VENV": sys.prefix,
             "WHO": USER, "BARRED": " ".join(map(str, barred))}  # fmt: skip
    binds = f'mount --bind "$PREFIX" "{stash}/prefix"; mount --bind "$VENV" "{stash}/venv"'
    words = [f"{name}={value}" for name, value in named.items()]
    return ("unshare", "--mount", "--propagation", "private", "env", *words, "sh", "-c", f"{binds}\n{_AS_USER}", "sh")


def _barred(path: Path) -> Path | None:
    """The outermost folder above a path that other users can't enter."""
    return next((one for one in reversed(path.resolve().parents) if not one.stat().st_mode & 0o001), None)


if __name__ == "__main__":
    sys.exit(main())
