"""The command line: `parley COMMAND …`. This module only reads the words and passes them on.

It starts fast because it imports no more than that takes: what a command needs, its own module imports.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from io import TextIOWrapper
from typing import Any, NoReturn

from parley import __version__, output
from parley.faces import interrupt
from parley.wording import advice, near

OK, FAILED, BAD_USE, WITHDRAWN, WAITING = 0, 1, 2, 3, 4

# Each command's module in this package. Its `run` takes the words and gives the exit code.
MODULES = {
    "run": "start",
    "demo": "demo",
    "ls": "listing",
    "show": "show",
    "tree": "show",
    "log": "log",
    "watch": "watch",
    "inbox": "inbox",
    "answer": "answer",
    "notify": "notices",
    "intervene": "steer",
    "pause": "steer",
    "resume": "resume",
    "withdraw": "urgent",
    "memory": "memory",
    "audit": "audit",
    "export": "audit",
    "bus": "adopt",
    "diff": "diff",
    "merge": "merge",
    "gc": "gc",
    "roles": "roles",
    "workflow": "workflow",
    "doctor": "doctor",
    "setup": "setup",
    "trust": "trust",
    "tool": "tool",
}


class Trouble(Exception):
    """What the user has to be told, in one line, and the exit code that goes with it."""

    def __init__(self, text: str, code: int = BAD_USE) -> None:
        super().__init__(text)
        self.code = code


class _Parser(argparse.ArgumentParser):
    commands: Mapping[str, argparse.ArgumentParser] = {}

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, formatter_class=_Formatter)
        self.color = False  # since Python 3.14 help is coloured

    def help_of(self, command: str) -> str:
        """The help of one of its commands."""
        return self.commands[command].format_help()

    def error(self, message: str) -> NoReturn:
        """Say it like every other error."""
        raise Trouble(f"{message}; see `{self.prog} --help`")


class _Formatter(argparse.HelpFormatter):
    """Help that reads the same on every Python: what argparse does differently in some is done here."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26, width=80)

    def _format_usage(
        self,
        usage: str | None,
        actions: Iterable[argparse.Action],
        groups: Iterable[argparse._MutuallyExclusiveGroup],
        prefix: str | None,
    ) -> str:
        """The command, its options, and its arguments, which begin a new line where not all fit into one."""
        start = f"{'usage: ' if prefix is None else prefix}{self._prog}"
        shown = [action for action in actions if action.help is not argparse.SUPPRESS]
        options = list(self._options([action for action in shown if action.option_strings], groups))
        arguments = [self._format_args(action, action.dest) for action in shown if not action.option_strings]
        if len(line := " ".join([start, *options, *arguments])) <= self._width:
            return f"{line}\n\n"
        lines = [start]
        for parts in (options, arguments):
            for number, part in enumerate(parts):
                if (number == 0 and parts is arguments) or len(f"{lines[-1]} {part}") > self._width:
                    lines.append(" " * len(start))
                lines[-1] += f" {part}"
        return "\n".join(lines) + "\n\n"

    def _options(
        self, actions: Iterable[argparse.Action], groups: Iterable[argparse._MutuallyExclusiveGroup]
    ) -> Iterator[str]:
        exclusive = [group._group_actions for group in groups]  # noqa: SLF001 - a group tells its options nowhere else
        for action in actions:
            group = next((group for group in exclusive if action in group), [action])
            text = action.option_strings[0]
            if action.nargs != 0:
                text += f" {self._format_args(action, action.dest.upper())}"
            text = f"[{text}" if action is group[0] else text
            yield f"{text}]" if action is group[-1] else f"{text} |"

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """The option's forms, and after them, once, what it takes."""
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        return f"{', '.join(action.option_strings)} {self._format_args(action, action.dest.upper())}"


class _Commands:
    """The commands' parsers. Where one is asked for, the others are left out: each takes time to make."""

    def __init__(self, top: _Parser, only: str | None) -> None:
        self._commands = top.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
        self._only = only
        self._made = top.commands = dict[str, argparse.ArgumentParser]()

    def add(
        self, name: str, text: str, fill: Callable[[argparse.ArgumentParser], object], *, json: bool = True
    ) -> None:
        """One more command; those that list have `--json`."""
        if self._only not in (None, name):
            return
        made = self._commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        self._made[name] = made
        fill(made)
        made.add_argument("--repo", metavar="DIR", help="the folder to work in (default: the current one)")
        if json:
            made.add_argument("--json", action="store_true", help="one JSON document instead of text")


def parser(only: str | None = None) -> _Parser:
    """All commands with their options, or only one."""
    top = _Parser(
        prog="parley",
        description="Turns one request into finished, reviewed work, and keeps a record that proves it.",
        epilog="Ids may be shortened as long as they are unique. "
        "Exit codes: 0 done, 1 failed, 2 bad use, 3 withdrawn, 4 waiting for you.",
    )
    top.add_argument("-V", "--version", action="store_true", help="print the version and stop")
    add = _Commands(top, only).add
    add("run", "start a job and see it through", _add_run)
    add("demo", "play a whole job with scripted agents, in a folder of its own", _add_demo, json=False)
    add("ls", "list the jobs: those that need you, those at work, those that are finished", _add_nothing)
    add("show", "tell all about a job, and what can be done with it now", _add_job)
    add("tree", "show who works for whom in a job, also those that have ended", _add_job)
    add("log", "show a job's messages and transitions", _add_log)
    add("watch", "watch all jobs on one screen, and answer, steer and stop them by keys", _add_nothing, json=False)
    add("inbox", "list what waits for you, in all jobs; or show one thing of it in full", _add_inbox)
    add("answer", "answer a question", _add_answer)
    add("notify", "tell where notices to you go, or try it", _add_notify)
    add("intervene", "tell a job something while it works", _add_intervene)
    add("pause", "let turns under way end, and start no others", _add_job)
    add("resume", "go on with what was paused or interrupted (default: all that was interrupted)", _add_resume)
    add("withdraw", "give a job up, or one thread of it with all that works for it", _add_withdraw)
    add("memory", "see, search, correct and forget what is remembered of your decisions", _add_memory)
    add("audit", "prove a job's record, or an exported file, from nothing", _add_audit)
    add("export", "write a job's whole record into one file", _add_export, json=False)
    add("bus", "take in a bus of yours that was moved, copied or restored", _add_bus)
    add("diff", "show what a job changed", _add_diff)
    add("merge", "bring a job's result into what you have checked out", _add_merge)
    add("gc", "free the disk of what finished jobs have left", _add_gc)
    add("roles", "list the roles of a new job, or show what one is told", _add_roles)
    add("workflow", "begin, check and show the files of a workflow of several agents", _add_workflow)
    add("setup", "find your login, and settle once when you are asked and what a job may use", _add_setup, json=False)
    add("doctor", "check whether a job can start here: this machine, this home, its agent", _add_doctor)
    add("trust", "show what this repository's parley.toml asks for, and allow it", _add_trust)
    add("tool", "call a tool of the protocol's, from inside an agent's turn", _add_tool, json=False)
    return top


def _add_nothing(made: argparse.ArgumentParser) -> None:
    """Leave the command as it is."""


def _add_job(made: argparse.ArgumentParser) -> None:
    made.add_argument("job", metavar="JOB")


def _add_demo(demo: argparse.ArgumentParser) -> None:
    demo.add_argument("--fast", action="store_true", help="without the pauses that let people follow")
    demo.add_argument("--play", action="store_true", help="you answer the questions, in the terminal")
    demo.add_argument("--workflow", action="store_true", help="the one with a workflow: a service built by agents")


def _add_memory(memory: argparse.ArgumentParser) -> None:
    memory.add_argument(
        "action",
        metavar="ACTION",
        help="list, show ID, why QUESTION|JOB, search TEXT, correct ID, forget ID, export [FILE]",
    )
    memory.add_argument("what", metavar="WHAT", nargs="?", default="", help="the ID, QUESTION, JOB, TEXT or FILE")
    memory.add_argument("--state", metavar="S", help="with list: intent, plan or execute only")
    memory.add_argument("--limit", metavar="N", type=int, help="with list and search: so many at most (default: 20)")
    memory.add_argument("--verdict", metavar="V", help="with correct: approve, revise, backtrack intent, …")
    memory.add_argument("--text", metavar="T", help="with correct: in your words")
    memory.add_argument("--job", metavar="JOB", help="with forget: all of this job")
    memory.add_argument("--all", action="store_true", help="with forget: everything")


def _add_audit(audit: argparse.ArgumentParser) -> None:
    audit.add_argument("job", metavar="JOB|FILE")


def _add_export(export: argparse.ArgumentParser) -> None:
    _add_job(export)
    export.add_argument("-o", "--output", metavar="FILE", help="where to (default: standard output)")


def _add_bus(bus: argparse.ArgumentParser) -> None:
    bus.add_argument("action", metavar="ACTION", help="adopt: check it, show it, and make it yours here")
    bus.add_argument("--yes", action="store_true", help="it is yours: adopt it without being asked")


def _add_merge(merge: argparse.ArgumentParser) -> None:
    _add_whole(merge)
    merge.add_argument("--dry-run", action="store_true", help="say what would be done, and change nothing")


def _add_whole(merge: argparse.ArgumentParser) -> None:
    _add_job(merge)
    merge.add_argument("--all", action="store_true", help="with INTENT.md, PLAN.md, WORK_SUMMARY.md and orchestration/")


def _add_diff(diff: argparse.ArgumentParser) -> None:
    _add_whole(diff)
    diff.add_argument("--stat", action="store_true", help="only which files, and how much")


def _add_gc(gc: argparse.ArgumentParser) -> None:
    gc.add_argument(
        "job", metavar="JOB", nargs="?", help="only what this one has left (default: all that are finished)"
    )
    gc.add_argument("--dry-run", action="store_true", help="list what would go, and its size")
    gc.add_argument("--older", metavar="AGE", default="30d", help="only jobs that ended so long ago (default: 30d)")
    gc.add_argument("--unmerged", action="store_true", help="also the only copy of work that was never merged")


def _add_roles(roles: argparse.ArgumentParser) -> None:
    roles.add_argument("name", metavar="NAME", nargs="?", help="one role, with its prompt (default: all)")


def _add_workflow(workflow: argparse.ArgumentParser) -> None:
    workflow.add_argument(
        "action",
        metavar="ACTION",
        help="init SUMMARY.md, check [PLACE], status [PLACE], run [PLACE] [REQUEST], restore PLACE AGENT SESSION",
    )
    workflow.add_argument(
        "what",
        metavar="WHAT",
        nargs="*",
        help="PLACE: a job, or a folder that holds orchestration/ (default: the current one)",
    )
    workflow.add_argument("--dir", metavar="DIR", help="with init: where to (default: the current folder)")
    workflow.add_argument("--replace", action="store_true", help="with restore: also over a current session")
    _add_starting(workflow.add_argument_group("with run, as `parley run` has them"))


def _add_run(run: argparse.ArgumentParser) -> None:
    run.add_argument("request", metavar="REQUEST", nargs="?", help="what is to be done, in your words")
    run.add_argument(
        "--workflow",
        metavar="FILE",
        nargs="?",
        const="",
        help="have it designed as a workflow, from FILE: a conversation summary, a plan, or a folder with"
        " orchestration/ (default: what lies in this repository's orchestration/, if anything does)",
    )
    _add_starting(run)


def _add_starting(run: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """How a job is started."""
    run.add_argument(
        "--agent",
        metavar="NAME",
        help="who the agents are: claude, scripted, codex, or one of parley.toml"
        " (default: scripted with a playbook, else claude)",
    )
    run.add_argument("--playbook", metavar="FILE", help="what the scripted agents do")
    run.add_argument(
        "--model", metavar="M", help="for roles that name none (default: as in parley.toml, else the agent's own)"
    )
    run.add_argument(
        "--policy",
        metavar="P",
        action="append",
        default=[],
        help="when you are asked: never, when_unsure, always; also by state: plan=never,… (default: always)",
    )
    run.add_argument(
        "--budget",
        metavar="B",
        action="append",
        default=[],
        help="how much before you are asked: turns=40,money=5; also tokens, minutes, parallel, day.turns, …"
        " (default: 200 turns, and 20 dollars where the agent tells what a turn costs; none: no limit)",
    )
    run.add_argument("--yes", action="store_true", help="approve whatever would wait for you")
    run.add_argument("--detach", action="store_true", help="go on in the background, and print the job's id")


def _add_log(log: argparse.ArgumentParser) -> None:
    log.add_argument("job", metavar="JOB")
    log.add_argument("--follow", action="store_true", help="go on until the job ends")
    log.add_argument("--thread", metavar="T", help="only what concerns this thread")


def _add_inbox(inbox: argparse.ArgumentParser) -> None:
    inbox.add_argument("id", metavar="ID", nargs="?", default="", help="one thing, or a job, in full (default: all)")
    inbox.add_argument("--everywhere", action="store_true", help="in all repositories that you have used")


def _add_notify(notify: argparse.ArgumentParser) -> None:
    notify.add_argument("--test", action="store_true", help="send one to each service, and tell what became of it")


def _add_answer(answer: argparse.ArgumentParser) -> None:
    answer.add_argument("id", metavar="ID", help="the question's id, as `parley inbox` shows it")
    answer.add_argument("text", metavar="TEXT", nargs="?", default="", help="your words")
    verdict = answer.add_mutually_exclusive_group()
    for name, text in (
        ("approve", "yes, go on"),
        ("revise", "not yet; TEXT says why"),
        ("withdraw", "give the whole job up, whoever asked"),
        ("retry", "where the question lists it: try again; TEXT goes along as advice"),
        ("abandon", "where the question lists it: go on without the agent and all that depends on it"),
        ("stop", "where the question lists it: stop the workflow"),
        ("fail", "where the question lists it: let the job fail"),
    ):
        verdict.add_argument(f"--{name}", action="store_const", dest="verdict", const=name, help=text)
    verdict.add_argument(
        "--backtrack", metavar="STATE", type=_earlier, help="go back to an earlier state: intent or plan"
    )


def _earlier(word: str) -> str:
    states = ("intent", "plan")
    if word not in states:
        raise argparse.ArgumentTypeError(f"{word!r} is no earlier state; {advice(word, states)}")
    return word


def _add_intervene(intervene: argparse.ArgumentParser) -> None:
    _add_job(intervene)
    intervene.add_argument("text", metavar="TEXT", help="your words")
    intervene.add_argument("--thread", metavar="T", help="to this thread only (default: to whoever leads)")
    intervene.add_argument("--now", action="store_true", help="at once, and not when the turn under way ends")
    intervene.add_argument(
        "--authoritative", action="store_true", help="it has to be heeded; only from who started the job"
    )


def _add_resume(resume: argparse.ArgumentParser) -> None:
    resume.add_argument("job", metavar="JOB", nargs="?")
    resume.add_argument(
        "--budget",
        metavar="B",
        action="append",
        default=[],
        help="raise a budget: turns=+40 by that much, turns=80 to that much, turns=none: no limit;"
        " day.turns=… for today",
    )
    resume.add_argument("--background", action="store_true", help=argparse.SUPPRESS)  # what --detach leaves running


def _add_withdraw(withdraw: argparse.ArgumentParser) -> None:
    _add_job(withdraw)
    withdraw.add_argument("text", metavar="TEXT", nargs="?", default="", help="the reason")
    withdraw.add_argument("--thread", metavar="T", help="this thread only (default: the whole job)")


def _add_setup(setup: argparse.ArgumentParser) -> None:
    setup.add_argument(
        "--subscription",
        action=argparse.BooleanOptionalAction,
        help="let Parley use your Claude subscription, or no longer",
    )
    setup.add_argument("--policy", metavar="P", help="when you are asked: never, when_unsure, always, or by state")
    setup.add_argument("--budget", metavar="B", help="how much a job may use before you are asked: turns=200,money=20")
    setup.add_argument("--yes", action="store_true", help="ask nothing: write what it would propose")


def _add_doctor(doctor: argparse.ArgumentParser) -> None:
    doctor.add_argument("--agent", metavar="NAME", help="whether a job of this agent can start (default: as for run)")


def _add_trust(trust: argparse.ArgumentParser) -> None:
    either = trust.add_mutually_exclusive_group()
    either.add_argument("--yes", action="store_true", help="allow it without being asked")
    either.add_argument("--revoke", action="store_true", help="take back all that you have allowed here")


def _add_tool(tool: argparse.ArgumentParser) -> None:
    tool.add_argument(
        "tool", metavar="TOOL", help="Send, CloseConversation, AskQuestion; the proxy's: Predict, AskHuman, Answer"
    )
    tool.add_argument(
        "text", metavar="TEXT", nargs="?", default="", help="your words, - for standard input; or the thread to close"
    )
    tool.add_argument("--to", metavar="ROLE", help="open a conversation with this role")
    tool.add_argument("--thread", metavar="T", help="go on with this conversation; `dispatcher` answers who sent you")
    tool.add_argument(
        "--file", metavar="PATH", dest="files", action="append", help="with --to: copy this file along; may be repeated"
    )
    tool.add_argument("--kind", metavar="K", help="question (default), or assert: asks for a verdict on an artifact")
    tool.add_argument("--artifact", metavar="FILE", help="with --kind assert: what is put forward")
    tool.add_argument("--verdict", metavar="V", help="with Answer and Predict: approve, revise, …")
    tool.add_argument("--choice", metavar="C", help="with Answer: a choice that the question lists, as retry")
    tool.add_argument("--found", metavar="TEXT", help="with AskHuman: what you found")
    tool.add_argument("--would", metavar="V", help="with AskHuman: what you would say")
    tool.add_argument("--reason", metavar="TEXT", help="with Answer and AskHuman: why")
    tool.add_argument("--confidence", metavar="C", type=float, help="of the proxy's: how sure you are, 0 to 1")
    tool.add_argument("--brief", action="store_true", help="print only the thread's id")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code. Whatever happens, the user reads a line and no traceback."""
    searched = os.environ.get("PATH")  # a command may leave a checkout out of it
    with output.cleaned():
        try:
            interrupt.command_begins()
            return _main(sys.argv[1:] if argv is None else argv)
        except KeyboardInterrupt as stop:
            # It names a job at most. The net is passed by: Ctrl-C may have left modules half imported that it needs.
            print(f"parley: {interrupt.told()}", file=output.beneath(sys.stderr))
            return int(getattr(stop, "code", interrupt.CODE))
        finally:
            interrupt.command_ended()
            if searched is not None:
                os.environ["PATH"] = searched


def _main(argv: Sequence[str]) -> int:
    for stream in map(output.beneath, (sys.stdout, sys.stderr)):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that knows fewer characters shows a question mark
    try:
        code = _run(argv)
        sys.stdout.flush()
        return code
    except SystemExit as stop:  # argparse has printed its help
        return stop.code if isinstance(stop.code, int) else OK
    except BrokenPipeError:
        # Whoever read our output has gone: no error of ours, but Python would complain at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return OK
    except Exception as error:
        if interrupt.pressed():  # Python and libraries make other errors of a Ctrl-C, as where a class is defined
            raise KeyboardInterrupt from error
        if isinstance(error, Trouble):
            _say(str(error))
            return error.code
        explain = import_module("parley.faces.cli.troubles").explain
        text, code = explain(error)
        _say(text)
        return int(code)


def _run(argv: Sequence[str]) -> int:
    words = _read(argv)
    if words.version:
        print(f"parley {__version__}, {form()}")
        return OK
    if words.command is None:
        parser().print_help()
        return BAD_USE
    output.NET.look(lambda: import_module("parley.faces.cli.desk").known_here(getattr(words, "repo", None)))
    module = import_module(f"parley.faces.cli.{MODULES[words.command]}")
    return int(module.run(words))


def form() -> str:
    """Whether the hot path is compiled: told by the file of one of its modules, which is not loaded for it."""
    from importlib.util import find_spec  # for start-up: two commands need it

    found = find_spec("parley.engine.engine")
    return "interpreted" if found is None or str(found.origin).endswith(".py") else "compiled"


_FREE: Mapping[str, str | None] = {"text": "", "request": None}  # what may stand after an option, while it is not given


def _read(argv: Sequence[str]) -> argparse.Namespace:
    """The words by their names. argparse itself takes no TEXT that stands after an option."""
    first = argv[0] if argv else ""
    if first and first not in MODULES and first not in ("-h", "--help", "-V", "--version"):
        raise Trouble(_no_command(first))
    known = parser(first if first in MODULES else None)
    words, rest = known.parse_known_args(argv)
    free = next((name for name, empty in _FREE.items() if getattr(words, name, rest) == empty), "")
    if len(rest) == 1 and free and (rest[0][:1] != "-" or " " in rest[0] or rest == ["-"]):
        setattr(words, free, rest[0])
    elif isinstance(getattr(words, "what", None), list) and not any(word.startswith("-") for word in rest):
        words.what += rest
    elif rest:
        command = f" {words.command}" if words.command else ""
        flag = next((word.partition("=")[0] for word in rest if word.startswith("--")), "")
        meant = near(flag, re.findall(r"--[a-z-]+", known.help_of(words.command))) if flag else ""
        hint = f"did you mean {meant}? " if meant else ""
        raise Trouble(f"unrecognized arguments: {' '.join(rest)}; {hint}see `parley{command} --help`")
    return words


def _no_command(word: str) -> str:
    if word.startswith("-"):
        return f"{word!r} stands before the command; write `parley COMMAND {word}`, and see `parley --help`"
    meant = near(word, MODULES)
    return f"there is no command {word!r}; {f'did you mean `parley {meant}`? ' if meant else ''}see `parley --help`"


def _say(text: str) -> None:
    line = " ".join(text.split())
    try:
        print(f"parley: {line}", file=sys.stderr, flush=True)
    except OSError:
        return  # nobody listens
