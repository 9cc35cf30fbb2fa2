"""`parley show` and `parley tree`: all about one job, and who works for whom in it."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from parley.base.wording import count, duration
from parley.cli import OK
from parley.cli.common import one_line, place_of, print_json, safe, time_text
from parley.cli.job_filters import FINISHED
from parley.cli.looking.json_documents import actions, deliver, everyone, job_document
from parley.cli.open_bus import find_job, open_bus
from parley.cli.results.delivered import cost_words, lines
from parley.cli.running.bootstrap import print_question
from parley.cli.running.job_runners import default_model
from parley.cli.shared_home import job_files
from parley.engine.values.hold_causes import Wait
from parley.engine.values.human_inputs import HostLostInput
from parley.engine.values.people import DOES, May
from parley.features.budgets.arithmetic import BudgetLine
from parley.ports.turns import CLAUDE, SCRIPTED
from parley.views.history.interventions import Intervention
from parley.views.job_view import Present, past

ASKED = ("question", "gate", "failure")
UNFINISHED = 12  # pieces of unfinished work that are shown, the newest
SITUATIONS = 12  # that are shown with their next actions
MARKS = {"running": "*", "stalled": "!", "asking": "?", "waiting": ".", "idle": ".", "ended": "-"}


def run(words: argparse.Namespace) -> int:
    """Show a job."""
    place = place_of(words.repo)
    files = job_files(place.home)
    with open_bus(place) as store:
        present = Present(store, find_job(store.jobs(), words.job).job)
        if words.command == "tree":
            threads = everyone(present, past(store, present.job), files)
            if words.json:
                nodes = [{**thread.document(), "depth": depth} for depth, thread in threads]
                print_json({"id": present.job, "state": present.row.state, "phase": present.phase, "threads": nodes})
            else:
                _print_tree([{**thread.document(), "depth": depth} for depth, thread in threads])
            return OK
        found = deliver(store, present, files, place.root)
        document = job_document(store, present, files, found)
        if words.json:
            print_json(document)
            return OK
        _print_job(document)
        others = actions(present, files, found)
        for asked in present.questions():
            print()
            print_question(asked, place)
    if found is not None:
        print()
        for line in lines(found, place):
            print(line)
    _print_next_actions(document, others)
    return OK


def _print_next_actions(document: dict[str, Any], others: Sequence[str]) -> None:
    """The next actions, and the other commands for the whole job. Questions stand above, with their answers."""
    print("\nwhat you can do now")
    found = [situation for situation in document["situations"] if situation["kind"] not in ASKED]
    for situation in found[:SITUATIONS]:
        print(f"  {safe(situation['words'])}")
        for way in situation["exits"]:
            print(f"    {way['words']:<38}{way['command']}")
    if len(found) > SITUATIONS:
        print(f"  … and {len(found) - SITUATIONS} more: parley show {document['id']} --json")
    if found:
        print("  the whole job")
    for command in others:
        print(f"    {command}" if found else f"  {command}")


def _print_job(document: dict[str, Any]) -> None:
    print(f"{document['id']}  {document['state']}  {document['status']}")
    print(f"  request    {one_line(document['request'], 200)}")
    if document["continues"]:
        print(f"  continues  {document['continues']}: {document['former']}")
    print(f"  phase      {document['phase']}, visit {document['visit']}, backtracks {document['backtracks']}")
    lasted = duration(document["seconds"])
    took = f"took {lasted}" if document["state"] in FINISHED else f"{lasted} so far"
    print(f"  started    {time_text(document['created'])} by {document['decider']}, {took}")
    if len(document["people"]) > 1:
        print(f"  people     {', '.join(f'{name} {DOES[May(may)]}' for name, may in document['people'].items())}")
    cost = cost_words(document["cost"])
    lost = f", {document['turns_lost']} lost" if document["turns_lost"] else ""
    print(f"  agent      {agent_words(document)}")
    print(f"  cost       {cost}{lost}; {count(document['messages'], 'message')}, {count(document['steps'], 'step')}")
    if document["hosts"]:
        turns = ", ".join(f"{name} {turns}" for name, turns in document["hosts"].items())
        print(f"  hosts      {one_line(turns, 200)}")
    for number, line in enumerate(document["budget"]):
        said = BudgetLine(**line)
        spent = "  spent" if said.spent else ""
        print(f"  {'' if number else 'budget':<11}{said.words()}{spent}")
    if document["refused"]:
        print(f"  refused    {count(document['refused'], 'time')}; see what with: parley log {document['id']}")
    for wait in document["waits"]:
        told = Wait(wait["until"], wait["agent"], "", wait["reason"]).words(time.time())
        print(f"  waits      {wait['agent']} {safe(told)}")
    policies = ", ".join(f"{state} {policy}" for state, policy in document["policies"].items())
    print(f"  asks you   {policies}")
    if answers := [f"{count} by the {who}" for who, count in document["answers"].items() if count]:
        print(f"  answers    {', '.join(answers)}")
    if document["state"] not in FINISHED or Path(document["result"]).is_dir():  # else `parley gc` has deleted it
        print(f"  result     {document['result']}")
    if document["history"]:
        print("\nhistory")
    for entry in document["history"]:
        reason = f": {one_line(entry['reason'], 120)}" if entry["reason"] else ""
        action = f"{entry['action']} by {entry['actor']}{reason}"
        print(f"  {time_text(entry['timestamp'])}  {entry['state']:<8} {action}")
    alive = [thread for thread in document["threads"] if thread["state"] != "ended"]
    _print_steering(document)
    if alive:
        print("\nat work")
    for thread in alive:
        doing = f"{safe(thread['doing'])}{_on(thread)}"
        print(f"  {MARKS[thread['state']]} {thread['agent']:<13} {thread['id']:<23} {doing}")


def _on(thread: dict[str, Any]) -> str:
    """Where a thread's turn runs that is under way on another host."""
    return f", on {safe(thread['host'])}" if thread["host"] and thread["since"] and thread["state"] != "ended" else ""


def _print_steering(document: dict[str, Any]) -> None:
    """Unfinished work, people's interventions, and the turns that these interrupted."""
    if document["unfinished"]:
        print("\nleft out")
    for one in document["unfinished"][-UNFINISHED:]:
        print(f"  {time_text(one['time'])}  {safe(one['text'])}")
    if document["lost_hosts"]:
        print("\nlost hosts")
    for one in document["lost_hosts"]:
        told = HostLostInput(
            turn=one["turn"], agent=one["agent"], thread=one["thread"], host=one["host"], why=one["why"]
        )
        print(f"  {time_text(one['time'])}  {safe(told.words)}")
    if document["abandoned"]:
        print("\nabandoned")
    for cut in document["abandoned"]:
        print(
            f"  {time_text(cut['time'])}  {cut['agent']} on {cut['thread']}, turn {cut['turn']}: {safe(cut['message'])}"
        )
        for ref in cut["refs"]:
            print(f"    its files: git -C {document['folder']}/snapshots.git show --stat {ref}")
    if document["interventions"]:
        print("\ninterventions")
    for said in document["interventions"]:
        known: dict[str, Any] = {name: value for name, value in said.items() if value is not None}
        one = Intervention(**known)
        print(f"  {time_text(one.time)}  {one.by}: {one_line(one.text, 120)}")
        print(f"    {safe(one.words(time_text))}")


def agent_words(document: dict[str, Any]) -> str:
    """The agents and their models: as reported, else as requested."""
    agent, model = document["agent"], document["model"]
    if agent == SCRIPTED:
        return str(agent)
    name = "Claude Code" if agent == CLAUDE else agent
    if model is None:
        return f"{name}, model: {default_model(agent)}, known after its first turn"
    others = [f"{who}: {which}" for who, which in document["models"].items() if which != model]
    beside = f" ({', '.join(others)})" if others else ""
    return one_line(f"{name}, model: {model}{beside}", 300)


def _print_tree(threads: list[dict[str, Any]]) -> None:
    now = time.time()
    for thread in threads:
        since = ""
        if thread["since"]:
            since = (
                f" ({duration(now - thread['since'])})"
                if thread["state"] != "ended"
                else f" at {time_text(thread['since'])}"
            )
        mail = f", {thread['mail']} waiting" if thread["mail"] else ""
        name = f"{'  ' * thread['depth']}{MARKS[thread['state']]} {thread['agent']} {thread['id']}"
        host = _on(thread) or (f", last on {safe(thread['host'])}" if thread["host"] else "")
        print(f"{name:<52} {one_line(thread['doing'], 160 if thread['waits'] else 80)}{since}{mail}{host}")
    print("\n* at work  ! stalled  ? asks  . waits  - ended")
