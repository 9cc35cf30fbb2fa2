"""Parley is installed as people do it, by pip, pipx and uv, from a checkout and from a wheel, without a network."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from parley import __version__
from tests.repo.test_hygiene import tree

ROOT = Path(__file__).resolve().parents[2]
WHEELS = Path(sys.prefix) / "wheels"
PROGRAMS = Path(sys.prefix) / "bin"  # uv and pipx are there


@dataclass(frozen=True)
class Machine:
    """A user's home with nothing of Parley in it, and the wheels as its only source of packages."""

    folder: Path
    cache: Path  # of what uv has unpacked

    @property
    def bin(self) -> Path:
        """Where all three programs put the command."""
        return self.folder / "venv/bin"

    @property
    def env(self) -> dict[str, str]:
        """The environment of the user's shell."""
        here, wheels = str(self.folder), str(WHEELS)
        return {
            "PATH": f"{self.bin}:{PROGRAMS}:{os.environ['PATH']}",
            "HOME": here,
            "LANG": "C.UTF-8",
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_FIND_LINKS": wheels,
            "PIP_NO_COMPILE": "1",
            "PIP_NO_INDEX": "1",
            "PIPX_BIN_DIR": str(self.bin),
            "PIPX_DEFAULT_BACKEND": "pip",  # as those that distributions have
            "PIPX_DEFAULT_PYTHON": sys.executable,
            "PIPX_HOME": f"{here}/pipx",
            "UV_CACHE_DIR": str(self.cache),
            "UV_FIND_LINKS": wheels,
            "UV_LINK_MODE": "copy",
            "UV_NO_CONFIG": "1",
            "UV_NO_INDEX": "1",
            "UV_OFFLINE": "1",
            "UV_PYTHON_DOWNLOADS": "never",
            "UV_TOOL_BIN_DIR": str(self.bin),
            "UV_TOOL_DIR": f"{here}/tools",
            "UV_PYTHON": sys.executable,
        }

    def shell(self, line: str, code: int = 0) -> str:
        """Run a line as the user types it, and tell what it printed."""
        done = self.run(line)
        assert done.returncode == code, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def run(self, line: str) -> subprocess.CompletedProcess[str]:
        """Run a line, whatever comes of it."""
        return subprocess.run(
            ["sh", "-c", line], cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            check=False,
        )  # fmt: skip

    def checked(self) -> dict[str, str]:
        """What `parley doctor` says of Parley itself; of other things it may complain."""
        done = self.run("parley doctor --json")
        told = json.loads(done.stdout)
        assert done.returncode == (0 if told["ok"] else 1), done.stderr
        (found,) = [check for check in told["checks"] if check["name"] == "parley"]
        return dict(found)

    def left(self) -> list[Path]:
        """Files of Parley's that are installed."""
        places = [self.bin, *self.folder.rglob("site-packages")]
        return [path for place in places for path in place.glob("*") if path.name.startswith("parley")]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (WHEELS / "fetched").exists() or not shutil.which("uv", path=PROGRAMS):
        assert os.environ.get("CI") != "true", "`make setup` fetches the wheels"
        pytest.skip("`make setup` fetches the wheels")
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def machine(tmp_path: Path, cache: Path) -> Machine:
    return Machine(tmp_path, cache)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """What can be installed, by its kind: the checkout, and the wheel and the sdist that were built of it."""
    folder = tmp_path_factory.mktemp("built")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)],
        cwd=ROOT, capture_output=True, check=True,
    )  # fmt: skip
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return {"checkout": ROOT, "wheel": wheel, "sdist": sdist}


INSTALL = {
    "pip": f"{shlex.quote(sys.executable)} -m venv venv && venv/bin/pip install",
    "pipx": "pipx install",
    "uv tool": "uv tool install",
}
UNINSTALL = {
    "pip": "pip uninstall --yes parley-cfa",
    "pipx": "pipx uninstall parley-cfa",
    "uv tool": "uv tool uninstall parley-cfa",
}


# Each program and each source here; the other pairs in the long run, for each takes a quarter of a minute.
OFTEN = {("pip", "wheel"), ("pipx", "checkout"), ("uv tool", "checkout")}
PAIRS = [
    pytest.param(program, source, marks=[] if (program, source) in OFTEN else pytest.mark.soak)
    for program in INSTALL
    for source in ("checkout", "wheel")
]


@pytest.mark.parametrize("program, source", PAIRS)
def test_it_installs_works_takes_an_extra_and_leaves_nothing(
    machine: Machine, built: dict[str, Path], program: str, source: str
) -> None:
    path = built[source]
    machine.shell(f"{INSTALL[program]} {shlex.quote(str(path))}")

    assert machine.shell("parley --version") == f"parley {__version__}\n"
    assert machine.checked()["found"] == f"{__version__}, installed by {program} (from {path})"

    # The command in the message is the one that helps, and keeps to the program and the source.
    (machine.folder / ".config/parley").mkdir(parents=True)
    (machine.folder / ".config/parley/parley.toml").write_text('[notify]\nto = ["json://127.0.0.1:9"]\n')
    said = machine.shell("parley notify --test", code=1)
    command = said.partition("apprise is not installed; install it: ")[2].splitlines()[0]
    assert f"'{path}[notify]'" in command
    machine.shell(command)
    assert "apprise is not installed" not in machine.shell("parley notify --test", code=1)  # nothing listens there

    machine.shell(UNINSTALL[program])
    assert machine.left() == []


def test_an_editable_install_is_told_as_one(machine: Machine) -> None:
    machine.shell("uv venv --quiet venv && uv pip install --quiet --python venv --editable " + shlex.quote(str(ROOT)))

    assert machine.checked()["found"] == f"{__version__}, installed by uv pip (editable, from {ROOT})"


def test_an_installed_wheel_plays_the_demo(machine: Machine, built: dict[str, Path]) -> None:
    machine.shell(f"uv tool install --quiet {shlex.quote(str(built['wheel']))}")

    assert "DONE" in machine.shell("parley demo --fast")


def foreign(folder: Path) -> Path:
    """Another project's package of our name: what it has of ours by name, it overwrites."""
    made = folder / "parley-0.3-py3-none-any.whl"
    info = "parley-0.3.dist-info"
    with zipfile.ZipFile(made, "w") as wheel:
        wheel.writestr("parley/__init__.py", "class StopActor(Exception):\n    pass\n")
        wheel.writestr("parley/actor.py", "")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: parley\nVersion: 0.3\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(
            f"{info}/RECORD", f"parley/__init__.py,,\nparley/actor.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n"
        )
    return made


@pytest.mark.parametrize("pip", ["pip", "uv pip"])
def test_another_projects_package_over_ours_is_told_with_the_commands_that_repair_it(
    machine: Machine, built: dict[str, Path], pip: str
) -> None:
    more = "pip" if pip == "pip" else ""
    machine.shell(f"uv venv --quiet venv && uv pip install --quiet --python venv {more} {built['wheel']}")
    machine.shell(f"uv pip install --quiet --python venv {foreign(machine.folder)}")

    said = machine.shell("parley ls", code=1)
    assert said.startswith("parley: the package parley 0.3, which is another project's, is installed in the same env")
    assert said.count("\n") == 1
    machine.shell(said.strip().partition("install Parley again: ")[2])
    assert machine.shell("parley --version").startswith("parley ")
    assert not list(machine.folder.rglob("parley/actor.py"))


def test_another_projects_package_under_ours_is_noticed_by_doctor(machine: Machine, built: dict[str, Path]) -> None:
    machine.shell(f"uv venv --quiet venv && uv pip install --quiet --python venv {foreign(machine.folder)}")
    machine.shell(f"uv pip install --quiet --python venv {built['wheel']}")

    found = machine.checked()
    assert not found["ok"]
    assert "; the package parley 0.3, which is another project's, is installed" in found["found"]
    machine.shell(found["remedy"].partition("install Parley again: ")[2])
    assert machine.checked()["ok"]


def test_the_wheel_has_every_file_of_the_package(built: dict[str, Path]) -> None:
    """Roles, skills, playbooks and queries among them."""
    sources = {str(path.relative_to(ROOT / "src")) for path in tree() if path.is_relative_to(ROOT / "src")}
    with zipfile.ZipFile(built["wheel"]) as wheel:
        names = set(wheel.namelist())

    assert {name for name in names if ".dist-info/" not in name} == sources
    assert {"parley/roles/coder.md", "parley/demo/playbook.yaml", "parley/bus/sqlite/queries.sql"} <= sources


def test_the_sdist_builds_the_same_wheel(machine: Machine, built: dict[str, Path]) -> None:
    with tarfile.open(built["sdist"]) as sdist:
        sdist.extractall(machine.folder, filter="data")
    (unpacked,) = machine.folder.glob("parley_cfa-*")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(machine.folder)],
        cwd=unpacked, capture_output=True, check=True,
    )  # fmt: skip
    (again,) = machine.folder.glob("*.whl")

    assert again.name == built["wheel"].name
    assert again.read_bytes() == built["wheel"].read_bytes()
