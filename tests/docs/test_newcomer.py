"""A newcomer who follows the README and the first pages to the letter gets where they say."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.apis.messages import MessagesAPI
from tests.cli.home import PATIENCE_SECONDS, Done, Home
from tests.docs import readme_session
from tests.docs.test_docs import ROOT, blocks
from tests.install.test_installing import INSTALL
from tests.workspaces.user_repository import git, write

README, FIRST = ROOT / "README.md", ROOT / "docs" / "getting-started.md"
KEY = "sk-ant-api03-planted-newcomer-0123456789"
WAITING = 4  # the exit code of a job that needs the human
INSTALLS = re.compile(r"(pipx install|uv tool install|pip install) \"?\.\[([\w,]+)\]\"?")
# What a run has of its own: times, ids, what it used, and this machine's names.
OWN = (
    (r"\d\d:\d\d:\d\d", "TIME"),
    (r"(?<=dispatch:)\w+", "ID"),
    (r"\b[\d,]+ in, [\d,]+ out", "TOKENS"),
    (r"\d+\.\d\d USD", "USD"),
    (r"\b\d+ turns\b", "TURNS"),
    (r"\s+", " "),
)


class Newcomer(Home):
    """Somebody in a checkout, with `parley` installed, who types what a page shows, line by line."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        shutil.copytree(ROOT / "examples", folder / "examples")
        bin_folder = str(Path(sys.executable).parent)
        self.environment = {
            "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(folder),
            "XDG_CONFIG_HOME": str(folder / ".config"),
            "ANTHROPIC_API_KEY": KEY,
        }

    def types(self, line: str) -> Done:
        """One line, in the folder where the one before it has led."""
        after = Path(f"{self.folder.parent}/after.{os.getpid()}")
        ran = subprocess.run(
            ["bash", "-c", f'{self.named(line)}\ncode=$?; pwd > "$AFTER"; exit $code'],
            cwd=self.folder,
            env={**self.env(), "AFTER": str(after)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=2 * PATIENCE_SECONDS,
            check=False,
        )
        assert "Traceback" not in ran.stdout + ran.stderr, ran.stderr
        self.folder = Path(after.read_text(encoding="utf-8").strip())
        return Done(ran.returncode, ran.stdout, ran.stderr)

    def named(self, line: str) -> str:
        """A line with the newest job in the place of JOB, and its question in the place of ID."""
        if re.search(r"\bJOB\b", line):
            newest = max(self.jobs(), key=lambda job: float(job["created"]))
            line = re.sub(r"\bJOB\b", str(newest["id"]), line)
        return re.sub(r"\bID\b", self.question(), line) if re.search(r"\bID\b", line) else line


def lines(page: Path, section: str) -> list[str]:
    """The lines of a section's `sh` blocks, without their comments."""
    text = page.read_text(encoding="utf-8")
    (found,) = re.findall(rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    typed = "\n".join(re.findall(r"```sh\n(.*?)```", found, re.DOTALL)).splitlines()
    return [kept for line in typed if (kept := re.sub(r"\s+#.*", "", line).strip())]


@pytest.fixture
def newcomer(tmp_path: Path) -> Newcomer:
    folder = tmp_path / "checkout"
    folder.mkdir()
    return Newcomer(folder)


@pytest.mark.parametrize("page", [README, FIRST], ids=lambda page: page.name)
def test_every_block_is_of_a_kind_that_a_test_plays(page: Path) -> None:
    """A block without a kind, or of one that no test reads, could say anything."""
    kinds = re.findall(r"^```(\w*)\n", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert [kind for kind in kinds if kind] == [kind for kind in kinds if kind in ("sh", "yaml", "console", "toml")]


@pytest.mark.parametrize("page,section", [(README, "See it"), (FIRST, "1. See it")])
def test_the_pages_begin_with_the_demo(page: Path, section: str) -> None:
    """It is played as shown in tests/cli/test_demo.py, with nothing but Python, git and make on the PATH."""
    assert lines(page, section) == ["make demo"]


@pytest.mark.parametrize("page", [README, FIRST], ids=lambda page: page.name)
def test_what_is_to_be_installed_is_there_to_be_installed(page: Path) -> None:
    """The programs are those that the tests of installing try, and the extras are ours."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = INSTALLS.findall(page.read_text(encoding="utf-8"))
    assert found
    for program, extras in found:
        assert program.removesuffix(" install") in INSTALL
        assert set(extras.split(",")) <= set(project["optional-dependencies"])


def test_the_first_page_leads_to_a_merged_and_audited_job(newcomer: Newcomer) -> None:
    sections = ("2. Install it", "3. A job without a model", "4. Log in")
    typed = [line for section in sections for line in lines(FIRST, section)]
    ends = {line: newcomer.types(line) for line in typed}
    assert [(line, done) for line, done in ends.items() if done.code and line != "parley setup"] == []
    assert "done" in ends["parley ls"].out
    assert (newcomer.folder / "hello.sh").read_text(encoding="utf-8") == "echo hello\n"
    assert "the record is sound" in ends["parley audit JOB"].out
    # there is no terminal, so it can only say what it found
    assert ends["parley setup"].code in (0, WAITING)
    assert "ANTHROPIC_API_KEY" in ends["parley setup"].out + ends["parley setup"].err


def test_the_commands_of_the_readme_do_what_they_say(newcomer: Newcomer) -> None:
    """Each is typed at a job that waits at its first gate; those for a result at one that is done."""
    during, afterwards = lines(README, "Use it"), lines(README, "Without a model")
    book = (ROOT / "examples/hello.yaml").read_text(encoding="utf-8")
    alone = re.sub(r"(?ms)^human:.*?(?=^agents:)", "", book)
    assert alone != book
    newcomer.start(alone)
    results = [line for line in during if line.split()[1] in ("diff", "merge", "audit")]
    assert results
    for line in during:
        if line not in results:
            done = newcomer.types(line)
            assert done.code == 0 or (line == "parley resume" and done.code == WAITING), (line, done)
    for line in (*afterwards, *results):
        done = newcomer.types(line)
        assert done.code == 0, (line, done)


def test_the_readme_shows_how_the_example_begins() -> None:
    (shown,) = blocks(README, "yaml")
    assert lines(README, "Install it")[1:] == ["parley doctor", "parley setup"]  # as the first page has them
    assert shown.rstrip() in (ROOT / "examples/hello.yaml").read_text(encoding="utf-8")


def plain(line: str, ids: dict[str, str]) -> str:
    """A line without what a run has of its own."""
    for one, name in ids.items():
        line = line.replace(one, name)
    for pattern, name in OWN:
        line = re.sub(pattern, name, line)
    return line.strip()


def test_the_session_of_the_readme_is_how_it_goes(newcomer: Newcomer) -> None:
    """The real Claude Code does the README's job; what is shown is what was printed, in that order."""
    (shown,) = blocks(README, "console")
    repo = newcomer.folder / "hello"
    repo.mkdir()
    git(repo, "init", "-q")
    write(repo, {**readme_session.FILES})
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "Say hello")
    newcomer.folder = repo
    ids: dict[str, str] = {}
    printed: list[str] = []
    with MessagesAPI(readme_session.script(), key=KEY) as api:
        newcomer.environment["ANTHROPIC_BASE_URL"] = api.url
        for command in re.findall(r"^\$ (.*)$", shown, re.MULTILINE):
            done = newcomer.types(re.sub(r"^parley (answer|merge) \w+", _real(newcomer), command))
            assert done.code in (0, WAITING), (command, done)
            ids |= {str(job["id"]): "JOB" for job in newcomer.jobs()}
            ids |= dict.fromkeys(re.findall(r"parley answer (\w+)", done.out), "ID")
            printed += [f"$ {command}", *done.err.splitlines(), *done.out.splitlines()]
        assert api.refused == []
    shown_ids = dict.fromkeys(re.findall(r"^(\w+) (?:waits|DONE)", shown, re.MULTILINE), "JOB")
    shown_ids |= dict.fromkeys(re.findall(r"parley answer (\w+)", shown), "ID")
    left = iter(plain(line, {**ids, **shown_ids}) for line in printed)
    for line in filter(None, (plain(line, shown_ids) for line in shown.splitlines())):
        if line != "…":
            begins = line.removesuffix("…").rstrip()
            assert any(real.startswith(begins) for real in left), f"not printed, or not there: {line}"


def _real(newcomer: Newcomer) -> Callable[[re.Match[str]], str]:
    """How a command begins here that names an id of the session on the page."""

    def named(found: re.Match[str]) -> str:
        name = newcomer.question() if found[1] == "answer" else newcomer.jobs()[0]["id"]
        return f"parley {found[1]} {shlex.quote(str(name))}"

    return named
