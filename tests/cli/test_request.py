"""The request of a job: in words, from standard input, from a file, from the user's editor."""

import argparse
import subprocess
from pathlib import Path

import pytest

from parley.cli.common import TEXT_LIMIT
from parley.cli.starting.request_text import BELOW, editor, read_request
from tests.cli.home import LEADS, PARLEY, PATIENCE_SECONDS, Home
from tests.cli.terminal import terminal
from tests.workspaces.user_repository import git


def asked(request: str | None = None, file: str | None = None) -> str:
    return read_request(argparse.Namespace(request=request, file=file, edit=False)).text


def test_a_request_comes_from_a_file_with_the_line_ends_of_any_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("task.md").write_bytes(b"\xef\xbb\xbf# Count\r\n\twords, \xc3\xa4ll\r\n")
    Path("draft.md").write_text(f"do it\n{BELOW}\n# a note\n")

    assert asked("@task.md") == asked(file="task.md") == "# Count\n\twords, äll"
    assert asked(file="draft.md") == "do it\n"
    assert asked("@ada asks for a count") == "@ada asks for a count"  # words, as there is no such file
    assert asked(f"@{'x' * 5000} y").startswith("@xxx")


@pytest.mark.parametrize(
    "data, said",
    [
        (b"a\nb\xff", "f.md is not UTF-8 (line 2); write the request in UTF-8"),
        (b"a\nclear\x1b[2J", "f.md has the control character 0x1b in line 2; write the request as plain text"),
        (b"a\rb", "f.md has the control character 0x0d in line 1"),
        (b"a\x00", "f.md has the control character 0x00 in line 1"),
        ("ä".encode() * (TEXT_LIMIT + 1), f"f.md has {TEXT_LIMIT + 1} characters, {TEXT_LIMIT} at most"),
        (b"a" * 4 * TEXT_LIMIT + b"a", f"f.md has more than {TEXT_LIMIT} characters; make the request shorter"),
        (b" \n\r\n", "the request is empty, so nothing was started; say in a few words what is to be done"),
    ],
)
def test_a_file_that_can_be_no_request_is_refused_in_one_line(home: Home, data: bytes, said: str) -> None:
    (home.folder / "f.md").write_bytes(data)

    assert said in home.refuses("run", "--file", "f.md")
    assert said in home.refuses("run", "@f.md")


@pytest.mark.parametrize(
    "words, said",
    [
        (["run"], "the request is missing, and there is no terminal to write it on; say it in words, or use `-`"),
        (["run", "--edit"], "--edit needs a terminal, and there is none"),
        (["run", "x", "--file", "f.md"], "there are two requests, 'x' and --file; name one of them"),
        (["run", "--file", "none.md"], "none.md: No such file or directory; name a file that holds the request"),
        (["run", "--file", "."], ".: Is a directory; name a file that holds the request"),
        (["run", "--file", "a\0b"], "this can't be a file's name"),
        (["run", "@none.md"], "'none.md': there is no such file; name another after @, or say the request in words"),
        (["run", " "], "the request is empty, so nothing was started"),
    ],
)
def test_a_request_that_is_not_there_is_told_in_one_line(home: Home, words: list[str], said: str) -> None:
    assert said in home.refuses(*words)
    assert not (home.folder / ".parley").exists()


def test_a_request_comes_from_standard_input(home: Home) -> None:
    words = [str(PARLEY), "run", "-", "--playbook", home.write("p.yaml", LEADS), "--json"]
    done = subprocess.run(
        words, cwd=home.folder, env=home.env(), input=b"count\r\nwords", capture_output=True, check=False,
        timeout=PATIENCE_SECONDS * 2,
    )  # fmt: skip

    assert done.returncode == 4, done
    assert home.jobs()[0]["request"] == "count\nwords"
    assert "the request is empty" in home.fails("run", "-")
    closed = ["sh", "-c", 'exec "$0" run - <&- >&-', str(PARLEY)]
    done = subprocess.run(closed, cwd=home.folder, env=home.env(), stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr[:32]) == (2, b"parley: the request is empty, so")


def script(home: Home, body: str) -> str:
    path = Path(home.write("../editor.sh", f"#!/bin/sh\n{body}\n"))
    path.chmod(0o755)
    return str(path)


def test_an_edited_request_is_kept_until_a_job_has_it(home: Home, tmp_path: Path) -> None:
    state, playbook = tmp_path / "state", home.write("p.yaml", LEADS)
    writes = script(home, 'cp "$2" "$0.seen"; { echo "# Count"; echo "$1"; cat "$2"; } > "$0.new"; cp "$0.new" "$2"')
    # the editor's words are the shell's, as with git
    home.environment |= {"XDG_STATE_HOME": str(state), "VISUAL": f'{writes} "all words"', "EDITOR": "false"}
    start = [str(PARLEY), "run", "--playbook", playbook]

    with terminal([*start, "--policy", "nevr"], home.folder, home.env()) as screen:
        assert screen.end() == 2
    (draft,) = (state / "parley" / "requests").iterdir()
    assert draft.read_text() == "# Count\nall words"
    assert f"--file {draft}" in screen.everything.replace("\r\n", "")
    assert Path(f"{writes}.seen").read_text().startswith(f"\n\n{BELOW}\n# Write above what is to be done")
    assert not (home.folder / ".parley").exists()

    with terminal([*start, "--file", str(draft), "--edit", "--json"], home.folder, home.env()) as screen:
        assert screen.end() == 4
    (job,) = home.run("ls", "--json").document["jobs"]
    assert job["request"] == "# Count\nall words\n# Count\nall words"  # the editor put it there once more
    assert [path.name for path in draft.parent.iterdir()] == [draft.name]  # the file that was named stays


@pytest.mark.parametrize(
    "body, said",
    [
        (":", "the request is empty, so nothing was started"),
        ('rm "$1"', "the request is empty, so nothing was started"),
        ('printf "a\\033[2J" > "$1"', "it has the control character 0x1b in line 1"),
        ("exit 3", "ended with 3; nothing was started\n"),
        ('echo x > "$1"; exit 3', "ended with 3; nothing was started, and your text is kept in "),
        ("exit 127", "can't be started; name yours with $EDITOR; nothing was started\n"),
    ],
)
def test_an_editor_that_brings_no_request_starts_nothing(home: Home, body: str, said: str) -> None:
    home.environment |= {"XDG_STATE_HOME": f"{home.folder}/../state", "VISUAL": "", "EDITOR": script(home, body)}
    words = [str(PARLEY), "run", "--playbook", home.write("p.yaml", LEADS)]

    with terminal(words, home.folder, home.env()) as screen:
        assert screen.end() in (1, 2)

    lines = screen.everything.replace("\r", "").splitlines()
    assert [line for line in lines if line.startswith("parley: ")] == lines
    assert said in f"{lines[-1]}\n"
    assert len(list(Path(f"{home.folder}/../state/parley/requests").iterdir())) == ("kept in" in lines[-1])


def test_the_editor_is_the_users_own_and_never_the_repositorys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(tmp_path, "init", "-q", "repo")
    git(tmp_path / "repo", "config", "core.editor", "evil")
    (tmp_path / ".gitconfig").write_text("[core]\n\teditor = mine -w\n")
    monkeypatch.chdir(tmp_path / "repo")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "repo" / ".git"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TERM", "xterm")
    for name in ("VISUAL", "EDITOR", "GIT_EDITOR", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL"):
        monkeypatch.delenv(name, raising=False)

    assert editor() == "mine -w"
    monkeypatch.setenv("EDITOR", "ed")
    assert editor() == "ed"
    monkeypatch.setenv("VISUAL", "vim")
    assert editor() == "vim"
    monkeypatch.setenv("TERM", "dumb")
    assert editor() == "ed"
