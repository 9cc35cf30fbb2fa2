"""`parley show` and `parley tree`."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from parley.adapters.files import JobFiles
from parley.engine.budgets import Line
from parley.engine.holds import Wait
from parley.engine.interventions import Intervention
from parley.engine.projections import Present, past
from parley.faces.cli import OK
from parley.faces.cli.bus import bus, find_job
from parley.faces.cli.delivered import cost_words, lines
from parley.faces.cli.desk import clock, lasting, one_line, place_of, print_json, safe
from parley.faces.cli.documents import everyone, job_document
from parley.faces.cli.listing import FINISHED
from parley.faces.cli.runners import CLAUDE, SCRIPTED, default_model
from parley.faces.cli.workshop import print_question
from parley.wording import count

ASKED = ("question", "gate", "failure")
ANSWER = "parley answer "
UNFINISHED = 12  # pieces of unfinished work that are shown, the newest
SITUATIONS = 12  # that are shown with their exits
MARKS = {"running": "*", "stalled": "!", "asking": "?", "waiting": ".", "idle": ".", "ended": "-"}


def run(words: argparse.Namespace) -> int:
    """Tell about a job."""
    place = place_of(words.repo)
    files = JobFiles(place.home)
    with bus(place) as store:
        present = Present(store, find_job(store.jobs(), words.job).job)
        if words.command == "tree":
            threads = everyone(present, past(store, present.job), files)
            if words.json:
                nodes = [{**thread.document(), "depth": depth} for depth, thread in threads]
                print_json({"id": present.job, "state": present.row.state, "phase": present.phase, "threads": nodes})
            else:
                _print_tree([{**thread.document(), "depth": depth} for depth, thread in threads])
            return OK
        document = job_document(store, present, files, place.root)
        if words.json:
            print_json(document)
            return OK
        _print_job(document)
        for asked in present.questions():
            print()
            print_question(asked, place)
    if document["delivery"]:
        print()
        for line in lines(document["delivery"], place):
            print(line)
    _print_exits(document)
    return OK


def _print_exits(document: dict[str, Any]) -> None:
    """What leads out of where the job is. Questions stand above, with their answers."""
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
    for command in document["exits"]:
        if command.startswith(ANSWER):
            continue  # it stands with its question
        print(f"    {command}" if found else f"  {command}")


def _print_job(document: dict[str, Any]) -> None:
    print(f"{document['id']}  {document['state']}  {document['status']}")
    print(f"  request    {one_line(document['request'], 200)}")
    print(f"  phase      {document['phase']}, visit {document['visit']}, backtracks {document['backtracks']}")
    lasted = lasting(document["seconds"])
    took = f"took {lasted}" if document["state"] in FINISHED else f"{lasted} so far"
    print(f"  started    {clock(document['created'])} by {document['decider']}, {took}")
    cost = cost_words(document["cost"])
    lost = f", {document['turns_lost']} lost" if document["turns_lost"] else ""
    print(f"  agent      {agent_words(document)}")
    print(f"  cost       {cost}{lost}; {count(document['messages'], 'message')}, {count(document['steps'], 'step')}")
    for number, line in enumerate(document["budget"]):
        said = Line(**line)
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
    if document["state"] not in FINISHED or Path(document["result"]).is_dir():  # else `parley gc` has freed it
        print(f"  result     {document['result']}")
    if document["history"]:
        print("\nhistory")
    for entry in document["history"]:
        reason = f": {one_line(entry['reason'], 120)}" if entry["reason"] else ""
        action = f"{entry['action']} by {entry['actor']}{reason}"
        print(f"  {clock(entry['timestamp'])}  {entry['state']:<8} {action}")
    alive = [thread for thread in document["threads"] if thread["state"] != "ended"]
    _print_steering(document)
    if alive:
        print("\nat work")
    for thread in alive:
        print(f"  {MARKS[thread['state']]} {thread['agent']:<13} {thread['id']:<23} {safe(thread['doing'])}")


def _print_steering(document: dict[str, Any]) -> None:
    """What was ended before it was through, what people have said to the job, and the turns that this cut short."""
    if document["unfinished"]:
        print("\nleft out")
    for one in document["unfinished"][-UNFINISHED:]:
        print(f"  {clock(one['time'])}  {safe(one['text'])}")
    if document["abandoned"]:
        print("\nabandoned")
    for cut in document["abandoned"]:
        print(f"  {clock(cut['time'])}  {cut['agent']} on {cut['thread']}, turn {cut['turn']}: {safe(cut['message'])}")
        for ref in cut["refs"]:
            print(f"    its files: git -C {document['folder']}/snapshots.git show --stat {ref}")
    if document["interventions"]:
        print("\ninterventions")
    for said in document["interventions"]:
        known: dict[str, Any] = {name: value for name, value in said.items() if value is not None}
        one = Intervention(**known)
        print(f"  {clock(one.time)}  {one.by}: {one_line(one.text, 120)}")
        print(f"    {safe(one.words(clock))}")


def agent_words(document: dict[str, Any]) -> str:
    """Who does the work, with which models: as they answered, else as they are asked for."""
    agent, model = document["agent"], document["model"]
    if agent == SCRIPTED:
        return str(agent)
    name = "Claude Code" if agent == CLAUDE else agent
    if model is None:
        return f"{name}, model: {default_model(agent)}, which is known after a turn"
    others = [f"{who}: {which}" for who, which in document["models"].items() if which != model]
    beside = f" ({', '.join(others)})" if others else ""
    return one_line(f"{name}, model: {model}{beside}", 300)


def _print_tree(threads: list[dict[str, Any]]) -> None:
    now = time.time()
    for thread in threads:
        since = ""
        if thread["since"]:
            since = (
                f" ({lasting(now - thread['since'])})"
                if thread["state"] != "ended"
                else f" at {clock(thread['since'])}"
            )
        mail = f", {thread['mail']} waiting" if thread["mail"] else ""
        name = f"{'  ' * thread['depth']}{MARKS[thread['state']]} {thread['agent']} {thread['id']}"
        print(f"{name:<52} {one_line(thread['doing'], 160 if thread['waits'] else 80)}{since}{mail}")
    print("\n* at work  ! stalled  ? asks  . waits  - ended")
