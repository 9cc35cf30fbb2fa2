"""Every command with its options and its help."""

from __future__ import annotations

import argparse
from importlib import import_module

from parley.base.wording import advice
from parley.cli.help_parser import CommandParsers, HelpParser


def parser(only: str | None = None) -> HelpParser:
    """All commands with their options, or only one."""
    top = HelpParser(
        prog="parley",
        description="Turns one request into finished, reviewed work, and keeps a record that proves it.",
        epilog="`parley help COMMAND` shows a command's options. Ids may be shortened as long as they are unique. "
        "Exit codes: 0 done, 1 failed, 2 bad use, 3 withdrawn, 4 waiting for you.",
    )
    top.add_argument("-V", "--version", action="store_true", help="print the version and stop")
    commands = CommandParsers(top, only)
    group, add = commands.group, commands.add
    group("start work")
    add("run", "start a job and see it through", _add_run, examples=_RUN_EXAMPLES)
    add("continue", "start a job from the result of a finished one", _add_continue, examples=_CONTINUE_EXAMPLES)
    add("workflow", "begin, check and show the files of a workflow of several agents", _add_workflow)
    add("demo", "play a whole job with scripted agents, in a folder of its own", _add_demo, json=False)
    group("follow it")
    add("ls", "list the jobs: those that need you, at work, finished", _add_ls, examples=_LS_EXAMPLES)
    add("watch", "watch all jobs on one screen, and run them by keys", _add_watch, json=False)
    add("serve", "open the page in the browser, and run all jobs while it is up", _add_serve, json=False)
    add("show", "show all about a job, and what can be done with it now", _add_job)
    add("tree", "show who works for whom in a job, ended threads too", _add_job)
    add("log", "show a job's messages and transitions, or its agents' work", _add_log, examples=_LOG_EXAMPLES)
    add("cost", "show what jobs cost: by job, day, agent, model or repository", _add_cost, examples=_COST_EXAMPLES)
    group("answer and steer")
    add("inbox", "list what waits for you in all jobs; or show one in full", _add_inbox)
    add("answer", "answer a question", _add_answer)
    add("intervene", "tell a job something while it works", _add_intervene)
    add("pause", "let turns under way end, and start no others", _add_pause)
    add("resume", "go on with what was paused or interrupted", _add_resume)
    add(
        "withdraw", "give jobs up, or one thread of a job with all below it", _add_withdraw, examples=_WITHDRAW_EXAMPLES
    )
    add("allow", "say what another person may do in a job of yours", _add_allow, examples=_ALLOW_EXAMPLES)
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
    add(
        "people",
        "let others open the page, say what each may do, or let them out",
        _add_people,
        examples=_PEOPLE_EXAMPLES,
    )
    add("hosts", "list the hosts that run turns of these jobs", lambda hosts: None)
    add(
        "worker",
        "run turns of jobs that another machine coordinates",
        _add_worker,
        json=False,
        examples=_WORKER_EXAMPLES,
    )
    add("completion", "print the script that completes parley's words in your shell", _add_completion, json=False)
    add("bus", "say where the bus is, adopt one, or move it to a server", _add_bus)
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
    demo.add_argument("--play", action="store_true", help="you answer the questions, in the terminal or on the page")
    demo.add_argument("--page", action="store_true", help="show it on the page, and say where to look")
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
    bus.add_argument(
        "action",
        metavar="ACTION",
        nargs="?",
        help="adopt: check it, show it, and make it yours here; copy: move it elsewhere; invite, join: have it on "
        "another host of yours too; without: say where it is",
    )
    bus.add_argument(
        "to",
        metavar="TO",
        nargs="?",
        help="where to copy it: a server of your own settings, or `file`; for invite and join: the file with its key",
    )
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
    run.add_argument(
        "--decider", metavar="NAME", action="append", default=[], help="who else decides in this job; may be repeated"
    )
    run.add_argument(
        "--answerer", metavar="NAME", action="append", default=[], help="who else answers plain questions, and advises"
    )
    _add_by(run)
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


def _add_serve(serve: argparse.ArgumentParser) -> None:
    serve.add_argument("folders", metavar="DIR", nargs="*", help="the repositories (default: this one)")
    serve.add_argument("--everywhere", action="store_true", help="all repositories that you have used")
    serve.add_argument("--port", metavar="N", type=_port, help="the port (default: 7327, or another if that is taken)")
    serve.add_argument(
        "--host",
        metavar="ADDRESS",
        default="127.0.0.1",
        help="listen there (default: this machine alone), with TLS",
    )
    serve.add_argument(
        "--name",
        metavar="NAME",
        action="append",
        default=[],
        help="a name that browsers reach it by; may be repeated",
    )
    serve.add_argument("--cert", metavar="FILE", help="the TLS certificate, for an address that others reach")
    serve.add_argument("--key", metavar="FILE", help="its key")
    serve.add_argument("--no-browser", action="store_true", help="only print the link")
    serve.add_argument("--only-look", action="store_true", help="without the engine: no job is run by it")


def _port(word: str) -> int:
    if not word.isdecimal() or int(word) > 65535:  # noqa: PLR2004 - the last one
        raise argparse.ArgumentTypeError(f"{word!r} is no port; write a number from 0 (any that is free) to 65535")
    return int(word)


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
        "--authoritative", action="store_true", help="it must be obeyed; only for those who decide in the job"
    )
    _add_by(intervene)


def _add_pause(pause: argparse.ArgumentParser) -> None:
    _add_job(pause)
    _add_by(pause)


def _add_by(made: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """In whose name the page runs the command."""
    made.add_argument("--by", metavar="NAME", help=argparse.SUPPRESS)


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
    _add_by(resume)
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
    _add_by(withdraw)


_ALLOW_EXAMPLES = (
    "parley allow k3v bob              # bob answers plain questions, advises, pauses and goes on",
    "parley allow k3v bob --decide     # also verdicts, choices, budgets and withdrawals",
    "parley allow k3v bob --see        # bob may only look, from now on",
)


def _add_allow(allow: argparse.ArgumentParser) -> None:
    _add_job(allow)
    allow.add_argument("person", metavar="PERSON", help="their name, as the record is to have it")
    may = allow.add_mutually_exclusive_group()
    for name, text in (
        ("see", "only look: takes back what they could do before"),
        ("answer", "answer plain questions, advise, pause and go on (default)"),
        ("decide", "all that you may, but for naming others"),
    ):
        may.add_argument(f"--{name}", action="store_const", dest="may", const=name, default="answer", help=text)
    _add_by(allow)


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


_PEOPLE_EXAMPLES = (
    "parley people add bob                     # bob answers plain questions, advises, pauses",
    "parley people add eve --may decide        # eve may do all that you may, in jobs of yours",
    "parley people add guest --may see --for 7 # only looks, for a week",
    "parley people add prometheus --may metrics # a token that reads the server's figures, and nothing else",
    "parley people remove bob",
)


def _add_people(people: argparse.ArgumentParser) -> None:
    people.add_argument(
        "action",
        metavar="ACTION",
        nargs="?",
        default="list",
        help="list, add NAME, remove NAME, links: those that only show one job (default: list)",
    )
    people.add_argument("name", metavar="NAME", nargs="?", default="", help="the person, as records are to name them")
    people.add_argument("--may", metavar="M", help="with add: see, answer, decide, or metrics (default: answer)")
    people.add_argument(
        "--for", metavar="DAYS", dest="days", help="with add: for so many days (default: until removed)"
    )


_WORKER_EXAMPLES = (
    "parley worker                             # takes up to 4 turns at once, until SIGTERM",
    "parley worker --name big --slots 16 --label gpu",
)


def _add_worker(worker: argparse.ArgumentParser) -> None:
    worker.add_argument("--name", metavar="NAME", help="what this host is called (default: the machine's name)")
    worker.add_argument("--slots", metavar="N", default="4", help="how many turns run at once (default: 4)")
    worker.add_argument(
        "--label",
        metavar="L",
        action="append",
        help="takes turns of roles that ask for this label, too; may be repeated",
    )
    worker.add_argument(
        "--drain", metavar="SECONDS", default="60", help="how long turns may go on after SIGTERM (default: 60)"
    )
    worker.add_argument(
        "--health", metavar="ADDRESS:PORT", help="answer /healthz, /readyz and /metrics there, such as 127.0.0.1:7328"
    )
    worker.add_argument("--server", metavar="NAME", help="the PostgreSQL server of your settings that has the board")
    worker.add_argument("--bus", metavar="ID", help="whose turns are run, where that server has several boards")


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
