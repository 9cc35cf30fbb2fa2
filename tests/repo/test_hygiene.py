"""The tree follows its own rules: locked dependencies, a short README, no trace of one machine."""

import re
import subprocess
import tomllib
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Far above any module: a module ends where its concept does, and is not cut to fit a number.
LONGEST_SOURCE_LINES = 1000
LONGEST_README_LINES = 220
LARGEST_FILE_BYTES = 1 << 20

# One letter of each is in brackets, so that this file keeps the rules that it checks.
OPEN_ENDS = re.compile(r"\b([T]ODO|[F]IXME)\b")
HOMES = re.compile(r"(?<![\w.])/([r]oot/|[h]ome/(?!agent\b)\w|[U]sers/\w)")
# Installing by the name alone: `parley` is another project's on the registry, and `parley-cfa` is not there yet.
BARE_NAMES = re.compile(
    r"(?:\b(?:install|inject|upgrade|add)|uvx)\s+(?:-\S+\s+(?:[\w./]+\s+)?)*['\"]?parley(?:-cfa)?(?![\w./[-]|\s+@)"
    r"|\bparley(?:-cfa)?\[[\w,.-]+\](?!\s+@)"
)
REGISTRIES = re.compile(r"(pypi|pythonhosted|npmjs|debian|crates)[.](org|com|io)\b")


def tree() -> list[Path]:
    """List the project's files: what git tracks or would track; outside git, all that is not hidden."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if listed.returncode == 0:
        paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    else:
        hidden = re.compile(r"/(\.(?!ci/)|__pycache__)")
        paths = [path for path in ROOT.rglob("*") if not hidden.search(f"/{path.relative_to(ROOT)}")]
    return sorted({path for path in paths if path.is_file()})


def matches(pattern: re.Pattern[str]) -> list[str]:
    """Tell each place in the tree's text files where the pattern is found."""
    found = []
    for path in tree():
        if "vendor" in path.parts:
            continue  # others' words, pinned by their hashes
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a picture
        for number, line in enumerate(text.splitlines(), 1):
            if pattern.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}")
    return found


def pins(lock: Path) -> dict[str, str]:
    """Read a lock: each requirement's first line, and the rest of it."""
    logical = lock.read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    return {line.split(" ")[0]: line for line in logical if line.strip() and not line.startswith("#")}


LOCKS = [path for path in tree() if re.fullmatch(r"requirements.*\.lock", path.name)]


def test_locks_are_there() -> None:
    assert {"requirements.lock", "requirements-build.lock", "requirements-dev.lock"} <= {path.name for path in LOCKS}


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_a_lock_pins_each_requirement_with_hashes_and_names_no_address(lock: Path) -> None:
    requirements = pins(lock)

    assert requirements
    assert [pin for pin in requirements if not re.fullmatch(r"[a-z0-9-]+(\[[a-z0-9,-]+\])?==[\w.]+", pin)] == []
    assert [pin for pin, line in requirements.items() if not re.search(r"--hash=sha256:[0-9a-f]{64}", line)] == []
    assert "://" not in lock.read_text(encoding="utf-8")


def test_tests_run_with_the_versions_that_users_get() -> None:
    locks = ("requirements.lock", "requirements-build.lock", "requirements-cluster.lock")
    users = {pin for lock in locks for pin in pins(ROOT / lock)}

    assert users <= pins(ROOT / "requirements-dev.lock").keys()


def test_the_package_requires_what_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = (ROOT / "requirements.in").read_text(encoding="utf-8").replace('"', "'").splitlines()
    required = [*project["dependencies"], *project["optional-dependencies"]["bubblewrap"]]

    assert required == [line for line in lines if line and not line.startswith("#")]


def test_tests_run_with_the_extras_that_users_get() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = {line for lines in project["project"]["optional-dependencies"].values() for line in lines}

    assert {extra.partition(" ;")[0] for extra in extras} <= pins(ROOT / "requirements-dev.lock").keys()


def test_readme_is_short_and_begins_with_something_to_run() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    commands = [line for line in lines[:30] if re.match(r"\s*(\$ )?(make|parley|pip|pipx|git) \w", line)]
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)

    assert len(lines) <= LONGEST_README_LINES
    assert commands
    assert {target for line in lines for target in re.findall(r"^\s*make (\w+)", line)} <= set(targets)


def test_what_is_committed_is_text_and_pictures_of_our_own_and_no_link() -> None:
    """An environment, or a program that a test fetches, must not slip in beside them."""
    assert [str(path) for path in tree() if path.is_symlink() or path.stat().st_size > LARGEST_FILE_BYTES] == []
    listed = subprocess.run(["git", "ls-files", "-s"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert [line for line in listed.stdout.splitlines() if line.startswith("120000")] == []


def test_no_file_mentions_a_place_on_one_machine() -> None:
    # The checkout's own place is looked for too, where its name is not so short that it might be in a word.
    here = re.compile(re.escape(f"{ROOT}/")) if len(ROOT.parts) > 2 else HOMES

    assert matches(HOMES) == []
    assert matches(here) == []


def test_no_file_mentions_a_package_registry() -> None:
    assert matches(REGISTRIES) == []


@pytest.mark.parametrize(
    "line, bare",
    [
        ("pip install {}", True),
        ("pipx install --force --python 3.13 '{}[claude]'", True),
        ("uv tool install {}-cfa", True),
        ('needs "{}-cfa[notify]"', True),
        ("uvx {} demo", True),
        ("pip install '{}-cfa[claude] @ https://example.org/p.whl'", False),
        ("pip install ./{}_cfa-0.1.0-py3-none-any.whl", False),
        ("pip install '.[claude]', then {} doctor", False),
        ("pip uninstall {}", False),
    ],
)
def test_an_install_by_the_bare_name_is_recognized(line: str, bare: bool) -> None:
    assert bool(BARE_NAMES.search(line.format("parley"))) is bare


def test_no_file_installs_by_the_bare_name() -> None:
    assert matches(BARE_NAMES) == []


def test_nothing_is_left_open() -> None:
    assert matches(OPEN_ENDS) == []


def test_no_source_file_is_too_long_to_read() -> None:
    lengths = {path: len(path.read_text("utf-8").splitlines()) for path in ROOT.glob("src/**/*.py")}

    assert {path.name: length for path, length in lengths.items() if length > LONGEST_SOURCE_LINES} == {}


def test_no_class_name_stands_for_two_things() -> None:
    names = Counter(
        name
        for path in (ROOT / "src" / "parley").rglob("*.py")
        for name in re.findall(r"^class ([A-Z]\w*)", path.read_text(encoding="utf-8"), re.MULTILINE)
    )

    assert not [name for name, times in names.items() if times > 1]
