"""`parley completion`: prints a shell's completion script; and what that script calls to complete a word.

What can be completed is read from the one definition of the commands, so that it can't differ from it. Few imports:
it runs whenever the user presses Tab.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from parley.base.wording import advice
from parley.bus.sqlite import safe_open
from parley.cli import HELP, MODULES, OK, CommandError
from parley.cli.commands import parser
from parley.cli.common import Workplace, one_line, place_of, secrets_here
from parley.cli.job_filters import FINISHED, STATES
from parley.cli.looking.ls import look
from parley.cli.machine.completion_scripts import SCRIPTS, script
from parley.machine.programs import SHELLS

WORDS, FILES, FOLDERS = "words", "files", "folders"
NAME = "parley"
LONGEST = 60  # characters of a description
MENU_TYPES = ("37", "42")  # bash's COMP_TYPE where it inserts each candidate as it is: then without descriptions
BREAKS = "=:@"  # where bash breaks words apart, besides at blanks
SAFE = re.compile(r"[A-Za-z0-9._:=,/@+-]+")  # what may be put into a command line unquoted; names may be anyone's
AGES = ("1d", "7d", "30d")
LIVE_ONLY = ("pause", "resume", "withdraw", "intervene")
FINISHED_ONLY = ("continue", "gc")
DONE_ONLY = ("merge", "pr")


class Candidate(NamedTuple):
    """A word, and what it means."""

    word: str
    about: str = ""


class Completion(NamedTuple):
    """What completes a word: a kind, the part of it that stays, and candidates for the whole of it."""

    kind: str = WORDS
    fixed: str = ""
    found: tuple[Candidate, ...] = ()


def run(words: argparse.Namespace) -> int:
    """Print the script."""
    shell = words.shell or Path(os.environ.get("SHELL", "")).name
    if shell not in SCRIPTS:
        raise CommandError(f"there is no completion for {one_line(shell, 40)!r}; {advice(shell, SCRIPTS)}")
    sys.stdout.write(script(shell, program()))
    return OK


def program() -> str:
    """This Parley as a shell runs it from any folder: by its name where the shell finds this very one."""
    own = Path(sys.executable).with_name(NAME)
    if not own.exists():
        return f"{shlex.quote(sys.executable)} -m {NAME}"
    found = shutil.which(NAME, path=SHELLS)
    return NAME if found is not None and Path(found).resolve() == own.resolve() else shlex.quote(str(own))


# ---- what the scripts call -----------------------------------------------------------------------


def complete(words: Sequence[str]) -> int:
    """Print what completes the last word. Whatever is wrong, nothing disturbs the line that the user types."""
    try:
        shell, *typed = words
        lines = in_bash(shell.split(",")[1:], typed) if shell.startswith("bash") else as_lines(answer(typed))
        sys.stdout.write("".join(f"{line}\n" for line in lines))
    except Exception:  # noqa: BLE001 - as above
        return OK
    return OK


def as_lines(found: Completion) -> list[str]:
    """The answer as the scripts read it."""
    return [f"{found.kind}\t{found.fixed}", *(f"{word}\t{about}" for word, about in found.found)]


def in_bash(how: Sequence[str], typed: Sequence[str]) -> list[str]:
    """The answer for bash, which breaks words apart, completes the last part, and knows no descriptions.

    They stand behind the candidates while there are several: bash shows them, and inserts only what all begin with.
    """
    kind, width = (*how, "9", "80")[:2]
    joined = rejoined(typed)
    found = answer(joined)
    cut = max((joined[-1].rfind(sign) for sign in BREAKS), default=-1) + 1
    words = [one._replace(word=one.word[cut:]) for one in found.found]
    if len(words) == 1 or kind in MENU_TYPES:
        return [found.kind, *(one.word for one in words)]
    longest = max((len(one.word) for one in words), default=0)
    room = max(20, (int(width) if width.isdecimal() else 80) - longest - 5)
    return [
        found.kind,
        *(f"{one.word:<{longest}}  ({one_line(one.about, room)})" if one.about else one.word for one in words),
    ]


def rejoined(typed: Sequence[str]) -> list[str]:
    """The words as the user typed them, where bash has broken them apart at signs."""
    found: list[str] = []
    joins = False
    for word in typed:
        sign = bool(word) and not word.strip(BREAKS)
        if found and (joins or (sign and word != "@")):
            found[-1] += word
        else:
            found.append(word)
        joins = sign
    return found


def answer(typed: Sequence[str]) -> Completion:
    """What completes the last of these words; they follow `parley`."""
    *before, current = typed or ("",)
    if not before or before[0] == HELP:
        return _fitting(current, _commands(current if not before else ""))
    if before[0] not in MODULES:
        return Completion()
    line = _Line(before[0], before[1:])
    pending = line.pending
    if pending is not None and (pending.nargs != "?" or not current.startswith("-")):
        return line.values(pending, current)
    if current.startswith("-") and not line.literal:
        name, sign, value = current.partition("=")
        action = line.option(name) if sign else None
        if action is None:
            return _fitting(current, line.options(current))
        inner = line.values(action, value)
        whole = tuple(one._replace(word=f"{name}={one.word}") for one in inner.found)
        return Completion(inner.kind, f"{name}={inner.fixed}", whole)
    positional = line.positional()
    return line.values(positional, current) if positional is not None else Completion()


def _fitting(current: str, found: Iterable[Candidate]) -> Completion:
    return Completion(found=tuple(one for one in found if one.word.startswith(current) and SAFE.fullmatch(one.word)))


def _commands(current: str) -> Iterator[Candidate]:
    top = parser()
    for actions in top.groups.values():
        for action in actions:
            yield Candidate(action.dest, action.help or "")
    yield Candidate(HELP, "show a command's options")
    if current.startswith("-"):
        yield Candidate("--help", "show all commands")
        yield Candidate("--version", "print the version and stop")


class _Line:
    """A command with the words that follow it, up to the cursor."""

    def __init__(self, command: str, words: Sequence[str]) -> None:
        self.command = command
        self._parser = parser(command).commands[command]
        self._used: list[argparse.Action] = []
        self._given: dict[str, str] = {}  # by the name of the argument
        self._count = 0  # of arguments that are no options
        self.pending: argparse.Action | None = None  # the option that the word at the cursor is the value of
        self.literal = False  # whether `--` was there
        for word in words:
            self._take(word)

    def _take(self, word: str) -> None:
        is_option = word.startswith("-") and word != "-" and not self.literal
        if self.pending is not None and not (is_option and self.pending.nargs == "?"):
            self._given[self.pending.dest] = word
            self.pending = None
            return
        self.pending = None
        if word == "--":
            self.literal = True
        elif is_option:
            name, sign, value = word.partition("=")
            action = self.option(name)
            if action is not None:
                self._used.append(action)
                self._given[action.dest] = value
                self.pending = action if action.nargs != 0 and not sign else None
        else:
            action = self.positional()
            if action is not None:
                self._given[action.dest] = word
            self._count += 1

    def option(self, name: str) -> argparse.Action | None:
        """The option of a name, or the only one that begins like it."""
        exact = [action for action in self._shown() if name in action.option_strings]
        like = [a for a in self._shown() if any(one.startswith(name) for one in a.option_strings)] if name[2:] else []
        found = exact or like
        return found[0] if len(found) == 1 else None

    def _shown(self) -> list[argparse.Action]:
        actions = self._parser._actions  # noqa: SLF001 - a parser tells its arguments nowhere else
        return [action for action in actions if action.help is not argparse.SUPPRESS]

    def options(self, current: str) -> Iterator[Candidate]:
        """The options that can still be given."""
        exclusive = [group._group_actions for group in self._parser._mutually_exclusive_groups]  # noqa: SLF001 - as above
        ruled_out = [one for group in exclusive if any(used in group for used in self._used) for one in group]
        for action in self._shown():
            again = isinstance(action, argparse._AppendAction)  # noqa: SLF001 - as above
            if (action in self._used and not again) or action in ruled_out:
                continue
            for one in action.option_strings:
                if one.startswith("--") or (len(current) > 1 and current == one):
                    yield Candidate(one, action.help or "")

    def positional(self) -> argparse.Action | None:
        """The argument at the cursor."""
        found = [action for action in self._shown() if not action.option_strings]
        if self._count < len(found):
            return found[self._count]
        return found[-1] if found and found[-1].nargs in ("*", "+") else None

    def values(self, action: argparse.Action, current: str) -> Completion:
        """What completes the value of an option or an argument."""
        metavar = str(action.metavar or "")
        if action.dest == "request" and current.startswith("@"):
            return Completion(FILES, "@")
        if action.choices is not None:
            return _fitting(current, map(Candidate, map(str, action.choices)))
        known = VALUES.get(f"{self.command} {action.dest}") or VALUES.get(action.dest)
        if known is not None:
            return _fitting(current, known(self, action, current))
        if metavar.startswith("JOB"):
            found = _fitting(current, self.jobs())
            return found if found.found or "FILE" not in metavar else Completion(FILES)
        return Completion({"FILE": FILES, "PATH": FILES, "DIR": FOLDERS}.get(metavar, WORDS))

    # ---- what depends on the place ---------------------------------------------------------------

    def place(self) -> Workplace:
        """The folder that the command works in."""
        return place_of(self._given.get("repo"))

    def jobs(self) -> Iterator[Candidate]:
        """The jobs that the command can do something with, the newest first."""
        place = self.place()
        if not safe_open.exists(place.home):
            return
        secrets = secrets_here(self._given.get("repo"))
        for seen in reversed(look(place)):
            ended = seen.state in FINISHED
            if (self.command in LIVE_ONLY and ended) or (self.command in FINISHED_ONLY and not ended):
                continue
            if self.command not in DONE_ONLY or seen.state == "DONE":
                yield Candidate(seen.job, _about(FINISHED.get(seen.state, seen.state), secrets.redact(seen.request)))

    def questions(self) -> Iterator[Candidate]:
        """The questions that wait for an answer."""
        with import_module("parley.cli.open_bus").open_bus(self.place()) as store:
            present = import_module("parley.views.job_view").Present
            for row in store.jobs():
                for asked in present(store, row.job).questions() if row.needs_human else ():
                    yield Candidate(asked.id, _about(asked.asker, asked.text))

    def threads(self) -> Iterator[Candidate]:
        """The open threads of the job that the command names."""
        opening = import_module("parley.cli.open_bus")
        with opening.open_bus(self.place()) as store:
            job = opening.find_job(store.jobs(), self._given.get("job") or self._given.get("what", "")).job
            for thread in import_module("parley.views.job_view").Present(store, job).threads():
                yield Candidate(thread.id, _about(thread.agent, thread.doing))

    def agents(self) -> Iterator[Candidate]:
        """The agents that a job can have here."""
        turns = import_module("parley.ports.turns")
        for name, about in turns.BUILT_IN.items():
            if name != turns.PROOF:
                yield Candidate(name, about)
        yield Candidate("codex", "Codex")
        tables = import_module("parley.settings.load").read(self.place().root).agents
        for name in import_module("parley.base.documents.node").plain(tables):
            if name != "codex":
                yield Candidate(str(name), "of parley.toml")

    def working(self) -> Iterator[Candidate]:
        """The agents that have worked in the job that the command names."""
        opening = import_module("parley.cli.open_bus")
        with opening.open_bus(self.place()) as store:
            job = opening.find_job(store.jobs(), self._given.get("job", "")).job
            ended = import_module("parley.views.job_view").past(store, job).ended
            threads = (*import_module("parley.views.job_view").Present(store, job).threads(), *ended)
            yield from map(Candidate, dict.fromkeys(thread.agent for thread in threads))

    def remotes(self) -> Iterator[Candidate]:
        """The remotes of the user's repository."""
        source = import_module("parley.workspaces.checkout.source_repository").find_source(self.place().root)
        settings = import_module("parley.workspaces.checkout.users_git_settings").UsersGitSettings
        yield from map(Candidate, settings(source).remotes() if source is not None else ())

    def roles(self) -> Iterator[Candidate]:
        """The roles of a new job here."""
        root = self.place().root
        settings = import_module("parley.settings.load").read(root)
        for name, role in import_module("parley.roles").gather(root, settings, ()).items():
            yield Candidate(name, one_line(str(role.get("description", "")), LONGEST))


def _about(first: str, then: str) -> str:
    return one_line(f"{first}: {then}", LONGEST)


# ---- values that are known -----------------------------------------------------------------------


def _policies(line: _Line, action: argparse.Action, current: str) -> Iterator[Candidate]:
    """`always`, or by state: `plan=never,execute=always`."""
    schema = import_module("parley.settings.schema")
    known = [str(policy) for policy in import_module("parley.protocol.molecules").Policy]
    head, comma, last = current.rpartition(",")
    state, sign, _ = last.partition("=")
    for policy in known:
        if sign or not comma:
            yield Candidate(f"{head}{comma}{state if sign else ''}{sign}{policy}")
    for name in schema.STATES if not sign else ():
        yield Candidate(f"{head}{comma}{name}=", f"when you are asked in {name.upper()}")


def _budgets(line: _Line, action: argparse.Action, current: str) -> Iterator[Candidate]:
    head, comma, _ = current.rpartition(",")
    for scope in ("", "day."):
        for what in ("turns", "money", "tokens", "minutes", "parallel")[: 5 if not scope else 3]:
            yield Candidate(f"{head}{comma}{scope}{what}=", f"of all jobs of a day: {what}" if scope else "of the job")


def _states(line: _Line, action: argparse.Action, current: str) -> Iterator[Candidate]:
    """Where a job stands, also several: `done,failed`."""
    head, comma, _ = current.rpartition(",")
    for state in (*STATES, "finished", "unfinished", "all"):
        yield Candidate(f"{head}{comma}{state.replace(' ', '-')}")


def _actions(line: _Line, action: argparse.Action, current: str) -> Iterator[Candidate]:
    """The words that the help of an ACTION lists, each with what follows it there."""
    for part in (action.help or "").partition(":")[0].split(", "):
        word, _, rest = part.partition(" ")
        yield Candidate(word, rest)


def _listed(*known: str) -> Callable[[_Line, argparse.Action, str], Iterable[Candidate]]:
    return lambda line, action, current: map(Candidate, known)


# By the name of an argument, or by its command and its name.
VALUES: Mapping[str, Callable[[_Line, argparse.Action, str], Iterable[Candidate]]] = {
    "action": _actions,
    "policy": _policies,
    "budget": _budgets,
    "agent": lambda line, action, current: line.agents(),
    "thread": lambda line, action, current: line.threads(),
    "backtrack": _listed("intent", "plan"),
    "shell": _listed(*SCRIPTS),
    "state": _states,
    "by": lambda line, action, current: map(Candidate, import_module("parley.cli.looking.cost").KEYS),
    "log agent": lambda line, action, current: line.working(),
    "log since": _listed("1h", "1d", "7d"),
    "pr remote": lambda line, action, current: line.remotes(),
    "older_than": _listed(*AGES),
    "newer_than": _listed(*AGES),
    "inbox id": lambda line, action, current: line.questions(),
    "answer id": lambda line, action, current: line.questions(),
    "roles name": lambda line, action, current: line.roles(),
    "people may": _listed("see", "answer", "decide"),
    "people days": _listed("1", "7", "30"),
    "memory state": _listed("intent", "plan", "execute"),
    "memory verdict": _listed("approve", "revise"),
    "tool thread": _listed("dispatcher"),
}
