"""`parley memory`: what is remembered of your decisions, why an answer was given, and how to put it right."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from parley.adapters.decisions import SqliteDecisions, place
from parley.adapters.sqlite import SqliteStore
from parley.core.terms import Ruling
from parley.decisions import Decided, Guess
from parley.engine.reasons import Reason, reasons
from parley.faces.cli import OK, Trouble
from parley.faces.cli.bus import bus, pick
from parley.faces.cli.desk import check_text, clock, one_line, place_of, print_json, safe
from parley.text import safe_lines
from parley.wording import advice, count

STATES = ("INTENT", "PLAN", "EXECUTE")
HOW = {
    "policy": "you are always asked here",
    "unsure": "the proxy was not sure enough, or the record was not",
    "checked": "it was sure, and you were asked to check it",
    "answered": "the proxy answered by itself",
    "corrected": "you corrected it",
}
LONGEST = 100_000  # decisions in a listing


def run(words: argparse.Namespace) -> int:
    """Do what is asked."""
    if words.action not in ACTIONS:
        raise Trouble(f"there is no `parley memory {words.action}`; {advice(words.action, ACTIONS)}")
    memory = SqliteDecisions(place(os.environ))
    try:
        return ACTIONS[words.action](memory, words)
    finally:
        memory.close()


# ---- reading -------------------------------------------------------------------------------------


def _list(memory: SqliteDecisions, words: argparse.Namespace) -> int:
    _takes(words, "state", "limit")
    state = (words.state or "").upper()
    if state and state not in STATES:
        raise Trouble(f"there is no state {words.state!r}; {advice(words.state, [state.lower() for state in STATES])}")
    return _listing(memory.last(_limit(words), state), memory, words)


def _search(memory: SqliteDecisions, words: argparse.Namespace) -> int:
    _takes(words, "what", "limit")
    if not words.what.strip():
        raise Trouble("say what to look for: `parley memory search TEXT`")
    return _listing(memory.search(words.what, _limit(words)), memory, words)


def _limit(words: argparse.Namespace) -> int:
    limit = 20 if words.limit is None else int(words.limit)
    if not 1 <= limit <= LONGEST:
        raise Trouble(f"--limit {limit}: it must be a whole number from 1 to {LONGEST}")
    return limit


def _listing(found: list[Decided], memory: SqliteDecisions, words: argparse.Namespace) -> int:
    if words.json:
        print_json({"memory": str(memory.path), "decisions": [asdict(one) for one in found]})
        return OK
    if not found:
        print(f"nothing is remembered{' of that' if words.what or words.state else ' yet'} ({memory.path})")
    for one in found:
        said = _verdict(one.verdict) if one.verdict is not None else "not asked"
        guess = f"{_verdict(one.after.verdict)} {one.after.confidence:.0%}" if one.after else "nothing"
        about = one.artifact or one.kind
        print(f"{one.id}  {clock(one.time)}  {one.state} {about}  you: {said}  expected: {guess}  ({one.how})")
        print(f"    {one_line(one.asked, 76)}")
    return OK


def _show(memory: SqliteDecisions, words: argparse.Namespace) -> int:
    _takes(words, "what")
    one = _named(memory, words.what)
    history = memory.corrections(one.id)
    if words.json:
        print_json({**asdict(one), "history": [entry._asdict() for entry in history]})
        return OK
    print(f"{one.id}, {time.strftime('%Y-%m-%d %H:%M', time.localtime(one.time))}, by {safe(one.human)}")
    print(f"  {one.state} {one.artifact or one.kind} of {safe(one.repository)}, job {one.job}, question {one.question}")
    _paragraph("asked", one.asked)
    if one.artifact:
        _paragraph(f"{one.artifact} began ({one.digest[:12]})", one.excerpt)
    print(f"  before reading: {_guess(one.before)}")
    print(f"  after reading: {_guess(one.after)}")
    if one.verdict is None:
        print(f"  you were not asked; put it right with: parley memory correct {one.id} --verdict V")
    else:
        print(f"  you said: {_verdict(one.verdict)}{f': {safe(one.said)}' if one.said else ''}")
        print(f"  as expected: {'yes' if one.agreed else 'no'}")
    print(f"  how: {HOW.get(one.how, one.how)}")
    for entry in history:
        before = "not asked" if entry.verdict is None else _verdict(entry.verdict)
        print(f"  until {clock(entry.time)}: {before}{f': {safe(entry.said)}' if entry.said else ''} ({entry.how})")
    return OK


def _export(memory: SqliteDecisions, words: argparse.Namespace) -> int:
    _takes(words, "what")
    lines = (json.dumps(asdict(one), ensure_ascii=True) for one in memory.everything())
    if not words.what:
        for line in lines:
            print(line)
        return OK
    path = Path(words.what)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError as error:
        raise Trouble(f"{path}: there is such a file already; name another") from error
    except OSError as error:
        raise Trouble(f"{path}: it can't be written ({error.strerror}); name another") from error
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        written = sum(bool(file.write(f"{line}\n")) for line in lines)
    print(f"{path} holds {count(written, 'decision')}", file=sys.stderr)
    return OK


# ---- why -----------------------------------------------------------------------------------------


def _why(memory: SqliteDecisions, words: argparse.Namespace) -> int:
    _takes(words, "what")
    if not words.what:
        raise Trouble("name a question or a job: `parley memory why ID`")
    here = place_of(words.repo)
    with bus(here) as store:
        found = _reasons(store, words.what)
    remembered = {one.id: one for reason in found for name in reason.recalled for one in memory.named(name, 1)}
    if words.json:
        known = {name: asdict(one) for name, one in remembered.items()}
        print_json({"questions": [reason.document() for reason in found], "decisions": known})
        return OK
    for number, reason in enumerate(found):
        if number:
            print()
        _tell(reason, remembered)
    return OK


def _reasons(store: SqliteStore, given: str) -> list[Reason]:
    jobs = [row.job for row in store.jobs()]
    if any(job.startswith(given.removeprefix("job:")) for job in jobs):
        job = pick(given.removeprefix("job:"), jobs, "job", "`parley ls` lists them")
        if found := reasons(store, job):
            return found
        raise Trouble(f"nothing was asked in job {job} yet; `parley log {job}` shows what happened")
    every = {reason.question: reason for job in jobs for reason in reasons(store, job)}
    return [every[pick(given.removeprefix("escalation:"), every, "question or job", "`parley log JOB` shows them")]]


def _tell(reason: Reason, remembered: Mapping[str, Decided]) -> None:
    about = reason.artifact or reason.kind
    print(f"question {reason.question} of job {reason.job}, {reason.state} {about}")
    _paragraph("asked", reason.asked)
    print(f"  before reading the proxy expected: {_said(reason.predicted)}")
    if reason.found:
        _paragraph("it found", reason.found)
    print(f"  after reading it would say: {_said(reason.would)}")
    for name in reason.recalled:
        print(f"  it was reminded of {_brief(name, remembered.get(name))}")
    if not reason.recalled:
        print("  it was reminded of nothing")
    if reason.weighed is not None:
        weighed = reason.weighed
        outcome = "its answer stands" if weighed["answer"] else "you were asked"
        numbers = f"agreement {weighed['agreement']:.2f} from {count(weighed['evidence'], 'decision')}"
        print(f"  weighed: {outcome}; {safe(str(weighed['why']))} ({numbers})")
    if reason.human is not None:
        print(f"  {safe(str(reason.human['by']))} said: {_word(reason.human)}")
    if reason.reads is not None:
        print(f"  the proxy read that as: {_said(reason.reads)}")
    answer = reason.answer
    print(f"  the answer, by the {answer['author']}: {_word(answer)}" if answer else "  there is no answer yet")
    if answer and answer["remarks"]:
        _paragraph("the proxy's remarks", answer["remarks"])


def _brief(name: str, one: Decided | None) -> str:
    if one is None:
        return f"{name}, which was forgotten since"
    said = f"{_verdict(one.verdict)}{f': {one_line(one.said, 40)}' if one.said else ''}"
    return f"{name}, {clock(one.time)}, {one.state} {one.artifact or one.kind}: {said} ({one_line(one.asked, 40)})"


def _word(said: Mapping[str, Any]) -> str:
    return one_line(": ".join(part for part in (said["ruling"], said["text"]) if part) or "(nothing)", 100)


def _said(guess: Mapping[str, Any] | None) -> str:
    if guess is None:
        return "nothing"
    sure = guess.get("confidence")
    words = (str(guess.get(name) or "") for name in ("verdict", "text"))
    said = one_line(": ".join(part for part in words if part) or "plain words", 100)
    reason = f"; {one_line(str(guess['reason']), 200)}" if guess.get("reason") else ""
    return f"{said}{'' if sure is None else f' ({sure:.0%} sure)'}{reason}"


# ---- changing ------------------------------------------------------------------------------------


def _correct(memory: SqliteDecisions, words: argparse.Namespace) -> int:
    _takes(words, "what", "verdict", "text")
    if words.verdict not in list(Ruling):
        given = "say what is right" if words.verdict is None else f"{words.verdict!r} is not a verdict"
        raise Trouble(f"{given}: --verdict with one of: {', '.join(Ruling)}")
    one = _named(memory, words.what)
    new = memory.correct(one.id, words.verdict, check_text(words.text or ""), time.time())
    if words.json:
        print_json(asdict(new))
    else:
        before = "not asked" if one.verdict is None else _verdict(one.verdict)
        print(f"{new.id} is {_verdict(new.verdict)} now; it was: {before}")
    return OK


def _forget(memory: SqliteDecisions, words: argparse.Namespace) -> int:
    _takes(words, "what", "job", "all")
    if sum((bool(words.what), words.job is not None, words.all)) != 1:
        raise Trouble("say what to forget: an ID, --job JOB, or --all")
    if words.what:
        names = [_named(memory, words.what).id]
    elif words.all:
        names = [one.id for one in memory.everything()]
    else:
        names = [one.id for one in memory.of_job(words.job)]
        if not names:
            raise Trouble(f"nothing is remembered of a job {words.job!r}; `parley memory list --json` names the jobs")
    forgotten = memory.forget(names) if names else 0
    if words.json:
        print_json({"forgotten": forgotten})
    else:
        print(f"forgot {count(forgotten, 'decision')}")
    return OK


# ---- words ---------------------------------------------------------------------------------------


def _named(memory: SqliteDecisions, given: str) -> Decided:
    if not given:
        raise Trouble("name a decision by its ID; `parley memory list` lists them")
    found = {one.id: one for one in memory.named(given)}
    return found[pick(given, found, "decision", "`parley memory list` lists them")]


def _takes(words: argparse.Namespace, *names: str) -> None:
    """Refuse what does not go with an action, rather than leave it unheeded."""
    given = {
        "what": bool(words.what),
        "state": words.state is not None,
        "limit": words.limit is not None,
        "verdict": words.verdict is not None,
        "text": words.text is not None,
        "job": words.job is not None,
        "all": words.all,
    }
    for name, there in given.items():
        if there and name not in names:
            shown = repr(words.what) if name == "what" else f"--{name}"
            raise Trouble(f"`parley memory {words.action}` takes no {shown}; see `parley memory --help`")


def _verdict(verdict: str | None) -> str:
    return verdict or "words"


def _guess(guess: Guess | None) -> str:
    if guess is None:
        return "nothing was predicted"
    text = f": {one_line(guess.text, 100)}" if guess.text else ""
    reason = f"; {one_line(guess.reason, 200)}" if guess.reason else ""
    return f"{_verdict(guess.verdict)}{text} ({guess.confidence:.0%} sure){reason}"


def _paragraph(head: str, text: str) -> None:
    print(f"  {head}:")
    for line in safe_lines(text).splitlines() or ["(nothing)"]:
        print(f"    {line}")


ACTIONS: Mapping[str, Callable[[SqliteDecisions, argparse.Namespace], int]] = {
    "list": _list,
    "show": _show,
    "why": _why,
    "search": _search,
    "correct": _correct,
    "forget": _forget,
    "export": _export,
}
