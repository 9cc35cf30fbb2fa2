"""What the docs show is what the program does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from parley.base.documents.node import DocumentError
from parley.cli.commands import parser
from parley.runners.scripted.playbook import parse

ROOT = Path(__file__).parents[2]
PARLEY = str(Path(sys.executable).with_name("parley"))
PAGES = [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMAND_LINE = re.compile(r"^(?:\$ )?parley ([^\n#|]+)|`parley ([^`\n|]+)", re.MULTILINE)


def blocks(page: Path, language: str) -> list[str]:
    """The code blocks of a language on a page."""
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


PLAYBOOKS = [(page.name, text) for page in PAGES for text in blocks(page, "yaml") if "agents:" in text]


@pytest.mark.parametrize("page,text", PLAYBOOKS, ids=[page for page, _ in PLAYBOOKS])
def test_every_playbook_in_the_docs_can_be_read(page: str, text: str) -> None:
    """An example that is refused is worse than none."""
    assert parse(text, page).agents


def test_the_whole_playbook_of_the_guide_ends_in_done(tmp_path: Path) -> None:
    """The guide's first example does what it says, with the real program."""
    (whole,) = [text for page, text in PLAYBOOKS if "# hello.yaml" in text]
    (tmp_path / "hello.yaml").write_text(whole, encoding="utf-8")
    done = subprocess.run(
        [PARLEY, "run", "Say hello", "--playbook", "hello.yaml"],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (work,) = (tmp_path / ".parley" / "jobs").glob("*/work")
    assert (work / "hello.sh").read_text(encoding="utf-8") == "echo hello\n"


def test_the_guides_error_is_the_programs_error() -> None:
    """The line of the guide is the line that is printed."""
    text = "human:\n  - match: INTENT\n    verdict: aprove\n"
    with pytest.raises(DocumentError, match=r"hello.yaml:3:14: .*did you mean 'approve'\?"):
        parse(text, "hello.yaml")


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_every_link_in_the_docs_leads_somewhere(page: Path) -> None:
    """A page that was renamed takes its links along."""
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_readme_shows_the_commands_that_there_are() -> None:
    """Every `parley WORD` in the README is a command."""
    known = subprocess.run([PARLEY, "--help"], capture_output=True, text=True, check=True).stdout
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    words = set(re.findall(r"^parley (\w+)", text, re.MULTILINE))
    assert {"run", "answer", "audit"} <= words
    assert [word for word in words if not re.search(rf"\b{word}\b", known)] == []


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_every_command_line_in_the_docs_is_one_that_parley_takes(page: Path) -> None:
    """The command exists, and its help has every option."""
    commands, unknown = parser(), []
    for shown, inline in COMMAND_LINE.findall(page.read_text(encoding="utf-8")):
        line = re.sub(r"\"[^\"]*\"|'[^']*'", "", shown or inline)
        word = line.split()[0]
        if not re.fullmatch(r"[a-z]+", word) or word == "help":  # `parley --version`, `parley COMMAND`
            continue
        known = commands.help_of(word) if word in commands.commands else ""
        unknown += [line] if not known else []
        unknown += [line for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", line) if not _has(known, option)]
    assert unknown == []


def _has(known: str, option: str) -> bool:
    return re.search(rf"{option}(?![\w-])", known) is not None
