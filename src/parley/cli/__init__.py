"""The command line: parses `parley COMMAND …` and calls the command's module.

It starts fast because it imports only the parser: each command's module imports what the command needs.
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

from parley import __version__
from parley.base import output
from parley.base.wording import advice, near
from parley.cli import ctrl_c

OK, FAILED, BAD_USE, WITHDRAWN, WAITING = 0, 1, 2, 3, 4
HELP, COMPLETE = "help", "__complete"  # `parley help COMMAND`; and what the shells' completion calls

# Each command's module in this package. Its `run` takes the parsed arguments and returns the exit code.
MODULES = {
    "run": "starting.run",
    "continue": "starting.continue_command",
    "demo": "starting.demo",
    "ls": "looking.ls",
    "show": "looking.show",
    "tree": "looking.show",
    "log": "looking.log",
    "cost": "looking.cost",
    "watch": "looking.watch_command",
    "inbox": "looking.inbox",
    "answer": "running.answer",
    "notify": "machine.notify",
    "intervene": "running.steer",
    "pause": "running.steer",
    "resume": "running.resume",
    "withdraw": "running.urgent_withdraw",
    "memory": "looking.memory",
    "audit": "looking.audit_command",
    "export": "looking.audit_command",
    "bus": "machine.bus_adopt",
    "diff": "results.diff",
    "merge": "results.merge_command",
    "pr": "results.pr",
    "gc": "machine.gc",
    "roles": "machine.roles_command",
    "workflow": "workflow.workflow_command",
    "doctor": "machine.doctor",
    "setup": "machine.setup",
    "trust": "machine.trust",
    "completion": "machine.completion",
    "tool": "tool",
}


class CommandError(Exception):
    """An error in one line for the user, with its exit code."""

    def __init__(self, text: str, code: int = BAD_USE) -> None:
        super().__init__(text)
        self.code = code


class _Parser(argparse.ArgumentParser):
    commands: Mapping[str, argparse.ArgumentParser] = {}
    groups: Mapping[str, Sequence[argparse.Action]] = {}  # the commands as help lists them, by their headings

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, formatter_class=_Formatter)
        self.color = False  # since Python 3.14 help is coloured

    def format_help(self) -> str:
        """The help; of all commands, in groups."""
        if not self.groups:
            return super().format_help()
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        for heading, listed in (*self.groups.items(), ("options", self._optionals._group_actions)):  # noqa: SLF001 - as above
            formatter.start_section(heading)
            formatter.add_arguments(listed)
            formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()

    def help_of(self, command: str) -> str:
        """The help of one of its commands."""
        return self.commands[command].format_help()

    def error(self, message: str) -> NoReturn:
        """Say it like every other error."""
        raise CommandError(f"{message}; see `{self.prog} --help`")


class _Formatter(argparse.HelpFormatter):
    """Help that reads the same on every Python version."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26, width=80)

    def _format_usage(
        self,
        usage: str | None,
        actions: Iterable[argparse.Action],
        groups: Iterable[argparse._MutuallyExclusiveGroup],
        prefix: str | None,
    ) -> str:
        """The command, its options, and its arguments, which start a new line where one is too short."""
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

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """A paragraph is filled; lines that stand under one another, like examples, stay as they are."""
        return text if "\n" in text else super()._fill_text(text, width, indent)

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
        """The option's forms, then its value once."""
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        return f"{', '.join(action.option_strings)} {self._format_args(action, action.dest.upper())}"


class _Commands:
    """The commands' parsers. Where one command is named, only its parser is made, to save time."""

    def __init__(self, top: _Parser, only: str | None) -> None:
        self._commands = top.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
        self._only = only
        self._made = top.commands = dict[str, argparse.ArgumentParser]()
        self._groups = top.groups = dict[str, list[argparse.Action]]()

    def group(self, heading: str) -> None:
        """The commands that are added from here on belong together."""
        self._groups[heading] = []

    def add(
        self,
        name: str,
        text: str,
        fill: Callable[[argparse.ArgumentParser], object],
        *,
        json: bool = True,
        examples: Sequence[str] = (),
    ) -> None:
        """Add a command; `json` gives it `--json`."""
        if self._only not in (None, name):
            return
        shown = "\n".join(("examples:", *(f"  {one}" for one in examples))) if examples else None
        about = f"{text[0].upper()}{text[1:]}."
        made = self._commands.add_parser(name, help=text, description=about, epilog=shown)
        self._made[name] = made
        self._groups[next(reversed(self._groups))].append(self._commands._choices_actions[-1])  # noqa: SLF001 - its line
        fill(made)
        made.add_argument("--repo", metavar="DIR", help="the folder to work in (default: the current one)")
        if json:
            made.add_argument("--json", action="store_true", help="one JSON document instead of text")


def parser(only: str | None = None) -> _Parser:
    """All commands with their options, or only one."""
    top = _Parser(
        prog="parley",
        description="Turns one request into finished, reviewed work, and keeps a record that proves it.",
        epilog="`parley help COMMAND` shows a command's options. Ids may be shortened as long as they are unique. "
        "Exit codes: 0 done, 1 failed, 2 bad use, 3 withdrawn, 4 waiting for you.",
    )
    top.add_argument("-V", "--version", action="store_true", help="print the version and stop")
    commands = _Commands(top, only)
    group, add = commands.group, commands.add
    group("start work")
    add("run", "start a job and see it through", _add_run, examples=_RUN_EXAMPLES)
    add("continue", "start a job from the result of a finished one", _add_continue, examples=_CONTINUE_EXAMPLES)
    add("workflow", "begin, check and show the files of a workflow of several agents", _add_workflow)
    add("demo", "play a whole job with scripted agents, in a folder of its own", _add_demo, json=False)
    group("follow it")
    add("ls", "list the jobs: those that need you, at work, finished", _add_ls, examples=_LS_EXAMPLES)
    add("watch", "watch all jobs on one screen, and run them by keys", _add_watch, json=False)
    add("show", "show all about a job, and what can be done with it now", _add_job)
    add("tree", "show who works for whom in a job, ended threads too", _add_job)
    add("log", "show a job's messages and transitions, or its agents' work", _add_log, examples=_LOG_EXAMPLES)
    add("cost", "show what jobs cost: by job, day, agent, model or repository", _add_cost, examples=_COST_EXAMPLES)
    group("answer and steer")
    add("inbox", "list what waits for you in all jobs; or show one in full", _add_inbox)
    add("answer", "answer a question", _add_answer)
    add("intervene", "tell a job something while it works", _add_intervene)
    add("pause", "let turns under way end, and start no others", _add_job)
    add("resume", "go on with what was paused or interrupted", _add_resume)
    add(
        "withdraw", "give jobs up, or one thread of a job with all below it", _add_withdraw, examples=_WITHDRAW_EXAMPLES
    )
    group("take the result")
    add("diff", "show what a job changed", _add_diff)
    add("merge", "merge a job's result into what you have checked out", _add_merge)
    add("pr", "push a job's branch and open a pull request by git and gh", _add_pr)
    add("gc", "delete files of finished jobs, and their merged branches", _add_gc)
    group("look back")
    add("audit", "verify a job's record, or an exported file, by replaying it", _add_audit)
    add("export", "write a job's whole record into one file", _add_export, json=False)
    add("memory", "see, search, correct and forget your remembered decisions", _add_memory)
    group("set up")
    add("setup", "find your login; set when jobs ask you and what they may use", _add_setup, json=False)
    add("doctor", "check whether a job can start here: machine, home, agent", _add_doctor)
    add("trust", "show what this repository's parley.toml asks for, and allow it", _add_trust)
    add("roles", "list the roles of a new job, or show what one is told", _add_roles)
    add("notify", "show where notices to you go, or send a test", _add_notify)
    add("completion", "print the script that completes parley's words in your shell", _add_completion, json=False)
    add("bus", "adopt a bus of yours that was moved, copied or restored", _add_bus)
    group("for agents")
    add("tool", "call a tool of the protocol's, from inside an agent's turn", _add_tool, json=False)
    return top


def _add_job(made: argparse.ArgumentParser) -> None:
    made.add_argument("job", metavar="JOB")


_LS_EXAMPLES = (
    "parley ls --state done --newer-than 1d",
    "parley ls --grep till             # those whose request speaks of it",
)


def _add_ls(ls: argparse.ArgumentParser) -> None:
    _add_filters(ls)
    ls.add_argument("--all", action="store_true", help="all of them (default: the newest of each group)")


def _add_filters(made: argparse.ArgumentParser, *, ids: bool = True) -> None:
    import_module("parley.cli.job_filters").add_filters(made, ids=ids)


_COST_EXAMPLES = (
    "parley cost --by day --newer-than 7d",
    "parley cost --by model --everywhere",
    "parley cost --by repository --everywhere",
)


def _add_cost(cost: argparse.ArgumentParser) -> None:
    _add_filters(cost)
    cost.add_argument("--by", metavar="WHAT", default="job", help="job, day, agent, model or repository (default: job)")
    cost.add_argument("--everywhere", "--all", action="store_true", help="in all repositories that you have used")


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
    bus.add_argument("--yes", action="store_true", help="adopt it without being asked")


def _add_merge(merge: argparse.ArgumentParser) -> None:
    _add_whole(merge)
    merge.add_argument("--dry-run", action="store_true", help="say what would be done, and change nothing")


def _add_pr(pr: argparse.ArgumentParser) -> None:
    _add_job(pr)
    pr.add_argument("--remote", metavar="R", help="where to push (default: as `git push` would)")
    pr.add_argument("--base", metavar="B", help="the branch to merge into (default: the one that the job started from)")
    pr.add_argument("--title", metavar="T", help="the title (default: the commit's); the body is WORK_SUMMARY.md")
    pr.add_argument("--draft", action="store_true", help="as a draft")
    pr.add_argument("--dry-run", action="store_true", help="say what would be done, and change nothing")
    pr.epilog = (
        "Without gh, or without a login, the branch is pushed all the same, and the next step is printed."
        " Example: parley pr cxsicbt6 --draft --base main"
    )


def _add_whole(merge: argparse.ArgumentParser) -> None:
    _add_job(merge)
    merge.add_argument("--all", action="store_true", help="with INTENT.md, PLAN.md, WORK_SUMMARY.md and orchestration/")


def _add_diff(diff: argparse.ArgumentParser) -> None:
    _add_whole(diff)
    diff.add_argument("--stat", action="store_true", help="only which files, and how much")


def _add_gc(gc: argparse.ArgumentParser) -> None:
    _add_filters(gc)
    gc.add_argument("--dry-run", action="store_true", help="list what would be deleted, and its size")
    gc.add_argument("--unmerged", action="store_true", help="also the only copy of work that was never merged")
    gc.epilog = (
        "Files of finished jobs are deleted 30 days after their end, or as --older-than says; those of jobs that you"
        " name, and merged branches, at once. Example: parley gc --state done --older-than 7d --dry-run"
    )


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
    workflow.add_argument("--replace", action="store_true", help="with restore: replace the current session")
    _add_starting(workflow.add_argument_group("with run, as `parley run` has them"))


_RUN_EXAMPLES = (
    'parley run "let the parser accept comments"',
    "parley run @task.md --detach      # the request is in a file",
    "gh issue view 12 | parley run -   # the request comes from a program",
    "parley run --edit                 # write it in your editor",
)
_CONTINUE_EXAMPLES = (
    'parley continue k3v "now test it with empty files, too"',
    "parley continue k3v               # write the request in your editor",
)


def _add_run(run: argparse.ArgumentParser) -> None:
    _add_request(run)
    run.add_argument(
        "--workflow",
        metavar="FILE",
        nargs="?",
        const="",
        help="have it designed as a workflow, from FILE: a conversation summary, a plan, or a folder with"
        " orchestration/ (default: what lies in this repository's orchestration/, if anything does)",
    )
    _add_starting(run)


def _add_continue(proceed: argparse.ArgumentParser) -> None:
    proceed.add_argument("job", metavar="JOB", help="the finished job; withdrawn and failed ones too")
    _add_request(proceed)
    _add_starting(proceed)


def _add_request(run: argparse.ArgumentParser) -> None:
    run.add_argument(
        "request",
        metavar="REQUEST",
        nargs="?",
        help="what is to be done, in your words; -: from standard input; @FILE: from a file"
        " (default, on a terminal: you write it in your editor)",
    )
    run.add_argument("--file", metavar="FILE", help="read the request from a file")
    run.add_argument("--edit", action="store_true", help="write the request, or change it, in $VISUAL or $EDITOR")


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
    run.add_argument("--yes", action="store_true", help="approve everything that would wait for you")
    run.add_argument("--detach", action="store_true", help="go on in the background, and print the job's id")


_LOG_EXAMPLES = (
    "parley log k3v --since 2h",
    "parley log k3v --work --follow    # what the agents do, as they do it",
    "parley log k3v --work --agent tester --all",
)


def _add_log(log: argparse.ArgumentParser) -> None:
    log.add_argument("job", metavar="JOB")
    log.add_argument("--work", action="store_true", help="what the agents did: their tool calls, with the results")
    log.add_argument("--follow", action="store_true", help="go on until the job ends")
    log.add_argument("--thread", metavar="T", help="only what concerns this thread")
    log.add_argument("--agent", metavar="A", help="with --work: only what this agent did")
    much = log.add_mutually_exclusive_group()
    much.add_argument("--tail", metavar="N", type=int, help="the last N events (default: 500; with --json all)")
    much.add_argument("--all", action="store_true", help="all events")
    log.add_argument("--since", metavar="WHEN", help="only since then: 2h, 14:30, 2026-01-31 or '2026-01-31 14:30'")


def _add_watch(watch: argparse.ArgumentParser) -> None:
    watch.add_argument("--everywhere", action="store_true", help="in all repositories that you have used; key: A")


def _add_inbox(inbox: argparse.ArgumentParser) -> None:
    inbox.add_argument("id", metavar="ID", nargs="?", default="", help="one thing, or a job, in full (default: all)")
    inbox.add_argument("--everywhere", action="store_true", help="in all repositories that you have used")


def _add_notify(notify: argparse.ArgumentParser) -> None:
    notify.add_argument("--test", action="store_true", help="send one to each service, and show the result")


def _add_answer(answer: argparse.ArgumentParser) -> None:
    answer.add_argument("id", metavar="ID", help="the question's id, as `parley inbox` shows it")
    answer.add_argument("text", metavar="TEXT", nargs="?", default="", help="your words")
    verdict = answer.add_mutually_exclusive_group()
    for name, text in (
        ("approve", "yes, go on"),
        ("revise", "not yet; TEXT says why"),
        ("withdraw", "give the whole job up, whichever agent asked"),
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
    intervene.add_argument("--thread", metavar="T", help="to this thread only (default: to the lead)")
    intervene.add_argument("--now", action="store_true", help="at once, not when the running turn ends")
    intervene.add_argument(
        "--authoritative", action="store_true", help="it must be obeyed; only for the user who started the job"
    )


def _add_resume(resume: argparse.ArgumentParser) -> None:
    resume.add_argument("job", metavar="JOB", nargs="?", help="(default: all that was interrupted)")
    resume.add_argument(
        "--budget",
        metavar="B",
        action="append",
        default=[],
        help="raise a budget: turns=+40 by that much, turns=80 to that much, turns=none: no limit;"
        " day.turns=… for today",
    )
    resume.add_argument("--background", action="store_true", help=argparse.SUPPRESS)  # what --detach leaves running


_WITHDRAW_EXAMPLES = (
    'parley withdraw k3v "not needed any more"',
    "parley withdraw k3v 7qe m2x       # several: it asks once",
    'parley withdraw --state needs-you --older-than 7d --reason "too old"',
)


def _add_withdraw(withdraw: argparse.ArgumentParser) -> None:
    withdraw.add_argument(
        "what", metavar="JOB", nargs="*", help="a job, or several; then the reason, if you like to give one"
    )
    withdraw.add_argument("--reason", metavar="TEXT", help="the same by name: then all arguments are jobs")
    withdraw.add_argument("--thread", metavar="T", help="this thread only (default: the whole job)")
    _add_filters(withdraw, ids=False)
    withdraw.add_argument("--yes", action="store_true", help="withdraw several jobs without being asked")


def _add_setup(setup: argparse.ArgumentParser) -> None:
    setup.add_argument(
        "--subscription",
        action=argparse.BooleanOptionalAction,
        help="let Parley use your Claude subscription, or no longer",
    )
    setup.add_argument("--policy", metavar="P", help="when you are asked: never, when_unsure, always, or by state")
    setup.add_argument("--budget", metavar="B", help="how much a job may use before you are asked: turns=200,money=20")
    setup.add_argument("--yes", action="store_true", help="ask nothing: write what it proposes")


def _add_doctor(doctor: argparse.ArgumentParser) -> None:
    doctor.add_argument("--agent", metavar="NAME", help="whether a job of this agent can start (default: as for run)")


def _add_trust(trust: argparse.ArgumentParser) -> None:
    either = trust.add_mutually_exclusive_group()
    either.add_argument("--yes", action="store_true", help="allow it without being asked")
    either.add_argument("--revoke", action="store_true", help="take back all that you have allowed here")


def _add_completion(completion: argparse.ArgumentParser) -> None:
    completion.add_argument(
        "shell", metavar="SHELL", nargs="?", help="bash, zsh or fish (default: the one that $SHELL names)"
    )


def _add_tool(tool: argparse.ArgumentParser) -> None:
    tool.add_argument(
        "tool", metavar="TOOL", help="Send, CloseConversation, AskQuestion; the proxy's: Predict, AskHuman, Answer"
    )
    tool.add_argument(
        "text", metavar="TEXT", nargs="?", default="", help="your words, - for standard input; or the thread to close"
    )
    tool.add_argument("--to", metavar="ROLE", help="open a conversation with this role")
    tool.add_argument("--thread", metavar="T", help="go on with this conversation; `dispatcher`: the one who sent you")
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
    """Run one command; returns the exit code. Every error is one line and no traceback."""
    searched = os.environ.get("PATH")  # a command may remove a checkout from it
    _open_closed_streams()
    with output.redacted_output():
        try:
            ctrl_c.command_begins()
            return _main(sys.argv[1:] if argv is None else argv)
        except KeyboardInterrupt as stop:
            # It names a job at most. It is not redacted: Ctrl-C may have left the modules for that half imported.
            print(f"parley: {ctrl_c.interrupted_line()}", file=output.raw_stream(sys.stderr))
            return int(getattr(stop, "code", ctrl_c.CODE))
        finally:
            ctrl_c.command_ended()
            if searched is not None:
                os.environ["PATH"] = searched


def _open_closed_streams() -> None:
    """Put the null device in the place of standard streams that were closed, as by `<&-`.

    Else Python has none of that name, and the next file that is opened gets the stream's number.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)  # the lowest free number, so the stream's own
            setattr(sys, name, os.fdopen(opened, mode, encoding="utf-8"))


def _main(argv: Sequence[str]) -> int:
    """Run one command, and print the error that ends it as one line."""
    for stream in map(output.raw_stream, (sys.stdout, sys.stderr)):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character shows a question mark
    try:
        code = _run(argv)
        sys.stdout.flush()
        return code
    except SystemExit as stop:  # argparse has printed its help
        return stop.code if isinstance(stop.code, int) else OK
    except BrokenPipeError:
        # The reader of our output has gone: no error of ours, but Python would complain at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return OK
    except Exception as error:
        if ctrl_c.pressed():  # Python and libraries may turn a Ctrl-C into other errors, in a class definition, say
            raise KeyboardInterrupt from error
        if isinstance(error, CommandError):
            _say(str(error))
            return error.code
        explain = import_module("parley.cli.error_lines").explain
        text, code = explain(error)
        _say(text)
        return int(code)


def _run(argv: Sequence[str]) -> int:
    """Parse the arguments, and call the `run` of the command's module."""
    if argv and argv[0] == COMPLETE:
        output.OUTPUT_SECRETS.look(lambda: import_module("parley.cli.common").secrets_here(None))
        return int(import_module("parley.cli.machine.completion").complete(argv[1:]))
    words = _read(_asking_for_help(argv) if argv and argv[0] == HELP else argv)
    if words.version:
        print(f"parley {__version__}")
        return OK
    if words.command is None:
        parser().print_help()
        return BAD_USE
    output.OUTPUT_SECRETS.look(lambda: import_module("parley.cli.common").secrets_here(getattr(words, "repo", None)))
    module = import_module(f"parley.cli.{MODULES[words.command]}")
    return int(module.run(words))


def _asking_for_help(argv: Sequence[str]) -> list[str]:
    """`parley help COMMAND` as `parley COMMAND --help`."""
    named = [word for word in argv[1:] if not word.startswith("-")]
    if named and named[0] not in MODULES:
        raise CommandError(_no_command(named[0]))
    return [*named[:1], "--help"]


_FREE: Mapping[str, str | None] = {"text": "", "request": None}  # arguments that may follow an option


def _read(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments. argparse itself accepts no TEXT after an option."""
    first = argv[0] if argv else ""
    if first and first not in MODULES and first not in ("-h", "--help", "-V", "--version"):
        raise CommandError(_no_command(first))
    known = parser(first if first in MODULES else None)
    words, rest = known.parse_known_args(argv)
    free = next((name for name, empty in _FREE.items() if getattr(words, name, rest) == empty), "")
    if len(rest) == 1 and free and (rest[0][:1] != "-" or " " in rest[0] or rest == ["-"]):
        setattr(words, free, rest[0])
    elif isinstance(getattr(words, "what", None), list) and not any(map(_is_option, rest)):
        words.what += rest
    elif rest and any(name in words for name in _FREE) and not any(map(_is_option, rest)):
        said = next(f"{getattr(words, name)} " for name in _FREE if name in words) + " ".join(rest)
        raise CommandError(f'put your words in quotes: "{said}"; see `parley {words.command} --help`')
    elif rest:
        command = f" {words.command}" if words.command else ""
        flag = next((word.partition("=")[0] for word in rest if word.startswith("--")), "")
        meant = near(flag, re.findall(r"--[a-z-]+", known.help_of(words.command))) if flag else ""
        hint = f"did you mean {meant}? " if meant else ""
        raise CommandError(f"unrecognized arguments: {' '.join(rest)}; {hint}see `parley{command} --help`")
    return words


def _is_option(word: str) -> bool:
    return word.startswith("-") and " " not in word


def _no_command(word: str) -> str:
    if word.startswith("-"):
        return f"{word!r} stands before the command; write `parley COMMAND {word}`, and see `parley --help`"
    meant = near(word, (*MODULES, HELP))
    return f"there is no command {word!r}; {f'did you mean `parley {meant}`? ' if meant else ''}see `parley --help`"


def _say(text: str) -> None:
    line = " ".join(text.split())
    try:
        print(f"parley: {line}", file=sys.stderr, flush=True)
    except OSError:
        return  # standard error is closed
