"""Completion in the shells, asked for as they ask; and how commands are found from within."""

import os
import shlex
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from parley.cli import MODULES
from parley.cli.commands import parser
from parley.cli.machine.completion import answer, as_lines, rejoined
from tests.cli.home import PARLEY, Home
from tests.cli.terminal import terminal

SHELLS = ("bash", "zsh", "fish")


def environment(home: Home) -> dict[str, str]:
    return {**home.env(), "PATH": f"{PARLEY.parent}:{os.environ['PATH']}"}


def bash(home: Home, *lines: list[str]) -> list[list[str]]:
    """What bash is given for each line, broken apart as bash does it; the last word is at the cursor."""
    asked = "".join(
        f"COMP_WORDS=(parley {shlex.join(words)}); COMP_CWORD={len(words)}; _parley; printf '%s\\n' "
        '"${COMPREPLY[@]}" "--end--"\n'
        for words in lines
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", f"source <(parley completion bash)\n{asked}"],
        cwd=home.folder, env=environment(home), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    return [part.strip("\n").splitlines() for part in done.stdout.split("--end--\n")[:-1]]


def is_missing(shell: str) -> bool:
    """Whether a shell's tests are left out: never where CI is set."""
    return shutil.which(shell) is None and os.environ.get("CI") != "true"


def test_bash_completes_commands_options_values_files_and_jobs(waiting: Home) -> None:
    job = waiting.jobs()[0]["id"]
    waiting.write("task.md", "x")
    question = waiting.question()

    commands, option, policy, state, agents, file, at, shown, merged, asked, repo, nothing = bash(
        waiting,
        [""],
        ["run", "--pol"],
        ["run", "--policy", "=", "al"],
        ["run", "--policy", "plan", "=", "n"],
        ["run", "x", "--agent", ""],
        ["run", "--file", "ta"],
        ["run", "@", "ta"],
        ["show", ""],
        ["merge", ""],
        ["answer", ""],
        ["ls", "--repo", "/us"],
        ["nonsense", ""],
    )

    assert [line.split()[0] for line in commands] == [*dict.fromkeys(line.split()[0] for line in commands)]
    assert {line.split()[0] for line in commands} == {*MODULES, "help"}
    assert next(line for line in commands if line.startswith("run ")).endswith("(start a job and see it through)")
    assert (option, policy, state) == (["--policy"], ["always"], ["never"])
    assert [line.split()[0] for line in agents] == ["scripted", "claude", "codex"]
    assert file == at == ["task.md"]
    assert (shown, merged, asked) == ([job], [], [question])
    assert repo == ["/usr"]
    assert nothing == []


def test_jobs_are_told_apart_by_their_requests(waiting: Home) -> None:
    job = waiting.jobs()[0]["id"]

    assert as_lines(answer(["show", "--repo", str(waiting.folder), ""])) == ["words\t", f"{job}\tINTENT: a request"]


def test_bash_completes_in_a_terminal(waiting: Home) -> None:
    job = waiting.jobs()[0]["id"]
    with terminal(["bash", "--norc", "--noprofile", "-i"], waiting.folder, environment(waiting)) as screen:
        screen.type("PS1='$ '; source <(parley completion bash); echo re''ady\n")
        screen.wait_for("ready")
        screen.type("parley comp\t")
        screen.wait_for("parley completion")
        screen.type("f\t")
        screen.wait_for("parley completion fish")
        screen.type(f"\x15parley withd\t{job[:3]}\t")
        screen.wait_for(f"parley withdraw {job}")
        screen.type("\x15parley a\t\t")  # several: they are listed, with what they do
        screen.wait_for("(answer a question)")


@pytest.mark.parametrize("shell", SHELLS)
def test_the_shell_accepts_its_script(waiting: Home, tmp_path: Path, shell: str) -> None:
    said = waiting.here("completion", shell).out
    path = tmp_path / f"script.{shell}"
    path.write_text(said)

    assert "__complete" in said
    assert "./parley" not in said
    if is_missing(shell):
        pytest.skip(f"{shell} is not installed: its script was only printed")
    assert subprocess.run([shell, "-n", str(path)], capture_output=True, text=True, check=True).stderr == ""


@pytest.mark.skipif(is_missing("zsh"), reason="zsh is not installed")
def test_zsh_completes_in_a_terminal(waiting: Home) -> None:
    with terminal(["zsh", "-f", "-i"], waiting.folder, environment(waiting)) as screen:
        screen.type("autoload -Uz compinit && compinit -u -D; source <(parley completion zsh); echo re''ady\n")
        screen.wait_for("ready")
        screen.type("parley comp\t")
        screen.wait_for("parley completion")


@pytest.mark.skipif(is_missing("fish"), reason="fish is not installed")
def test_fish_completes_with_descriptions(waiting: Home) -> None:
    job = waiting.jobs()[0]["id"]
    asked = "parley completion fish | source; complete -C 'parley show '"
    done = subprocess.run(
        ["fish", "--no-config", "-c", asked],
        cwd=waiting.folder, env=environment(waiting), capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert done.stdout == f"{job}\tINTENT: a request\n"


def test_every_option_and_command_is_completed(waiting: Home) -> None:
    for command in MODULES:
        made = parser(command).commands[command]
        shown = {word for word, _ in answer([command, "--"]).found}
        known = {
            one
            for action in made._actions
            for one in action.option_strings
            if one.startswith("--") and action.help != "==SUPPRESS=="
        }
        assert shown == known


def test_what_was_given_already_is_not_offered_again() -> None:
    def options(*words: str) -> set[str]:
        return {word for word, _ in answer([*words, "--"]).found}

    assert "--policy" in options("run", "--policy", "never")  # it may be repeated
    assert "--agent" not in options("run", "--agent", "claude")
    assert not {"--approve", "--revise", "--backtrack"} & options("answer", "x", "--approve")
    assert "--json" in options("answer", "x", "--approve")
    assert answer(["run", "--", "--"]).found == ()
    assert [word for word, _ in answer(["run", "--policy=plan=never,ex"]).found] == ["--policy=plan=never,execute="]
    assert [word for word, _ in answer(["workflow", "re"]).found] == ["restore"]
    assert [word for word, _ in answer(["ls", "--state", "done,f"]).found] == ["done,failed", "done,finished"]
    assert [word for word, _ in answer(["help", "dem"]).found] == ["demo"]
    assert rejoined(["run", "--policy", "=", "plan", "=", "n"]) == ["run", "--policy=plan=n"]


def test_completion_is_silent_and_quick_whatever_is_there(home: Home) -> None:
    home.write(".parley/bus.db", "no bus")
    home.write(".claude/agents/odd.md", "---\nname: $(touch owned)\n---\nx\n")

    for words in (
        ["show", ""],
        ["roles", ""],
        ["answer", ""],
        ["log", "x", "--thread", ""],
        ["run", "--repo", "\0", ""],
        [],
    ):
        done = home.here("__complete", "zsh", *words)
        assert (done.code, done.err) == (0, "")
        assert "$(" not in done.out
    before = time.monotonic()
    assert home.run("__complete", "fish", "sh").out.startswith("words\t\nshow\t")
    assert time.monotonic() - before < 20  # a hang, not a budget: other work may share the machine


def test_help_has_every_command_once_with_one_line(waiting: Home) -> None:
    lines = waiting.here("--help").out.splitlines()
    listed = [line.split()[0] for line in lines if line.startswith("  ") and not line.startswith(("   ", "  -"))]

    assert sorted(listed) == sorted(MODULES)
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines if line.startswith("    ")]  # no text goes on in a second line
    assert waiting.here("help").out == waiting.here("--help").out
    assert waiting.here("help", "run").out == waiting.here("run", "--help").out
    assert "did you mean `parley help`?" in waiting.refuses("hepl")
    assert "did you mean `parley merge`?" in waiting.refuses("help", "mrege")
    assert "use one of: bash, zsh, fish" in waiting.refuses("completion", "tcsh")
