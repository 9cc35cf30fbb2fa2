"""`parley memory`: shows, searches, corrects and forgets the user's remembered decisions."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path

from parley.base.text import safe_lines
from parley.base.wording import advice, count
from parley.bus.store import HomeStore
from parley.cli import OK, CommandError
from parley.cli.common import check_text, one_line, place_of, print_json, safe, time_text
from parley.cli.open_bus import open_bus, pick
from parley.cli.shared_home import decisions
from parley.engine.values.message_meta import Answered, Guessed, Replied
from parley.features.proxy.decision_recall import RecalledDecisions
from parley.features.proxy.reasons import Reason, reasons
from parley.ports.decisions import Decided, Guess
from parley.protocol.molecules import Ruling

STATES = ("INTENT", "PLAN", "EXECUTE")
HOW = {
    "policy": "you are always asked here",
    "unsure": "the proxy was not sure enough, or its record did not allow it",
    "checked": "it was sure, and you were asked to check it",
    "answered": "the proxy answered by itself",
    "corrected": "you corrected it",
}
LONGEST = 100_000  # decisions in a listing


def run(words: argparse.Namespace) -> int:
    """Do what is asked."""
    if words.action not in ACTIONS:
        raise CommandError(f"there is no `parley memory {words.action}`; {advice(words.action, ACTIONS)}")
    memory = decisions(place_of(words.repo).home)
    try:
        return ACTIONS[words.action](memory, words)
    finally:
        memory.close()


# ---- reading -------------------------------------------------------------------------------------


def _list(memory: RecalledDecisions, words: argparse.Namespace) -> int:
    _takes(words, "state", "limit")
    state = (words.state or "").upper()
    if state and state not in STATES:
        raise CommandError(
            f"there is no state {words.state!r}; {advice(words.state, [state.lower() for state in STATES])}"
        )
    return _listing(memory.last(_limit(words), state), memory, words)


def _search(memory: RecalledDecisions, words: argparse.Namespace) -> int:
    _takes(words, "what", "limit")
    if not words.what.strip():
        raise CommandError("say what to look for: `parley memory search TEXT`")
    return _listing(memory.search(words.what, _limit(words)), memory, words)


def _limit(words: argparse.Namespace) -> int:
    limit = 20 if words.limit is None else int(words.limit)
    if not 1 <= limit <= LONGEST:
        raise CommandError(f"--limit {limit}: it must be a whole number from 1 to {LONGEST}")
    return limit


def _listing(found: list[Decided], memory: RecalledDecisions, words: argparse.Namespace) -> int:
    if words.json:
        print_json({"memory": memory.where, "decisions": [asdict(one) for one in found]})
        return OK
    if not found:
        print(f"nothing is remembered{' of that' if words.what or words.state else ' yet'} ({memory.where})")
    for one in found:
        said = _verdict(one.verdict) if one.verdict is not None else "not asked"
        guess = f"{_verdict(one.after.verdict)} {one.after.confidence:.0%}" if one.after else "nothing"
        about = one.artifact or one.kind
        print(f"{one.id}  {time_text(one.time)}  {one.state} {about}  you: {said}  expected: {guess}  ({one.how})")
        print(f"    {one_line(one.asked, 76)}")
    return OK


def _show(memory: RecalledDecisions, words: argparse.Namespace) -> int:
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
        print(f"  you were not asked; correct it with: parley memory correct {one.id} --verdict V")
    else:
        print(f"  you said: {_verdict(one.verdict)}{f': {safe(one.said)}' if one.said else ''}")
        print(f"  as expected: {'yes' if one.agreed else 'no'}")
    print(f"  how: {HOW.get(one.how, one.how)}")
    for entry in history:
        before = "not asked" if entry.verdict is None else _verdict(entry.verdict)
        print(f"  until {time_text(entry.time)}: {before}{f': {safe(entry.said)}' if entry.said else ''} ({entry.how})")
    return OK


def _export(memory: RecalledDecisions, words: argparse.Namespace) -> int:
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
        raise CommandError(f"{path}: there is such a file already; name another") from error
    except OSError as error:
        raise CommandError(f"{path}: it can't be written ({error.strerror}); name another") from error
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        written = sum(bool(file.write(f"{line}\n")) for line in lines)
    print(f"{path} holds {count(written, 'decision')}", file=sys.stderr)
    return OK


# ---- why -----------------------------------------------------------------------------------------


def _why(memory: RecalledDecisions, words: argparse.Namespace) -> int:
    _takes(words, "what")
    if not words.what:
        raise CommandError("name a question or a job: `parley memory why ID`")
    here = place_of(words.repo)
    with open_bus(here) as store:
        found = _reasons(store, words.what)
    remembered = {one.id: one for reason in found for name in reason.view.recalled for one in memory.named(name, 1)}
    if words.json:
        known = {name: asdict(one) for name, one in remembered.items()}
        print_json({"questions": [reason.document() for reason in found], "decisions": known})
        return OK
    for number, reason in enumerate(found):
        if number:
            print()
        _tell(reason, remembered)
    return OK


def _reasons(store: HomeStore, given: str) -> list[Reason]:
    jobs = [row.job for row in store.jobs()]
    if any(job.startswith(given.removeprefix("job:")) for job in jobs):
        job = pick(given.removeprefix("job:"), jobs, "job", "`parley ls` lists them")
        if found := reasons(store, job):
            return found
        raise CommandError(f"nothing was asked in job {job} yet; `parley log {job}` shows what happened")
    every = {reason.posed.question: reason for job in jobs for reason in reasons(store, job)}
    return [every[pick(given.removeprefix("escalation:"), every, "question or job", "`parley log JOB` shows them")]]


def _tell(reason: Reason, remembered: Mapping[str, Decided]) -> None:
    posed, view = reason.posed, reason.view
    print(f"question {posed.question} of job {reason.job}, {posed.state} {posed.artifact or posed.kind}")
    _paragraph("asked", reason.asked)
    print(f"  before reading the proxy expected: {_said(view.predicted)}")
    if view.found:
        _paragraph("it found", view.found)
    print(f"  after reading it would say: {_said(view.would)}")
    for name in view.recalled:
        print(f"  it was reminded of {_brief(name, remembered.get(name))}")
    if not view.recalled:
        print("  it was reminded of nothing")
    if view.weighed is not None:
        outcome = "its answer stands" if view.weighed.answer else "you were asked"
        numbers = f"agreement {view.weighed.agreement:.2f} from {count(view.weighed.evidence, 'decision')}"
        print(f"  weighed: {outcome}; {safe(view.weighed.why)} ({numbers})")
    if reason.human is not None:
        print(f"  {safe(reason.human.by)} said: {_word(reason.human)}")
    if view.reads is not None:
        print(f"  the proxy read that as: {_said(view.reads)}")
    answer = reason.answer
    print(f"  the answer, by the {answer.author}: {_word(answer)}" if answer else "  there is no answer yet")
    if answer and answer.remarks:
        _paragraph("the proxy's remarks", answer.remarks)


def _brief(name: str, one: Decided | None) -> str:
    if one is None:
        return f"{name}, which was forgotten since"
    said = f"{_verdict(one.verdict)}{f': {one_line(one.said, 40)}' if one.said else ''}"
    return f"{name}, {time_text(one.time)}, {one.state} {one.artifact or one.kind}: {said} ({one_line(one.asked, 40)})"


def _word(said: Replied | Answered) -> str:
    return one_line(": ".join(part for part in (said.ruling, said.text) if part) or "(nothing)", 100)


def _said(guess: Guessed | None) -> str:
    if guess is None:
        return "nothing"
    said = one_line(": ".join(part for part in (guess.verdict, guess.text) if part) or "plain words", 100)
    sure = "" if guess.confidence is None else f" ({guess.confidence:.0%} sure)"
    return f"{said}{sure}{f'; {one_line(guess.reason, 200)}' if guess.reason else ''}"


# ---- changing ------------------------------------------------------------------------------------


def _correct(memory: RecalledDecisions, words: argparse.Namespace) -> int:
    _takes(words, "what", "verdict", "text")
    if words.verdict not in list(Ruling):
        given = "say what is right" if words.verdict is None else f"{words.verdict!r} is not a verdict"
        raise CommandError(f"{given}: --verdict with one of: {', '.join(Ruling)}")
    one = _named(memory, words.what)
    new = memory.correct(one.id, words.verdict, check_text(words.text or ""), time.time())
    if words.json:
        print_json(asdict(new))
    else:
        before = "not asked" if one.verdict is None else _verdict(one.verdict)
        print(f"{new.id} is {_verdict(new.verdict)} now; it was: {before}")
    return OK


def _forget(memory: RecalledDecisions, words: argparse.Namespace) -> int:
    _takes(words, "what", "job", "all")
    if sum((bool(words.what), words.job is not None, words.all)) != 1:
        raise CommandError("say what to forget: an ID, --job JOB, or --all")
    if words.what:
        names = [_named(memory, words.what).id]
    elif words.all:
        names = [one.id for one in memory.everything()]
    else:
        names = [one.id for one in memory.of_job(words.job)]
        if not names:
            raise CommandError(
                f"nothing is remembered of a job {words.job!r}; `parley memory list --json` names the jobs"
            )
    forgotten = memory.forget(names) if names else 0
    if words.json:
        print_json({"forgotten": forgotten})
    else:
        print(f"forgot {count(forgotten, 'decision')}")
    return OK


# ---- words ---------------------------------------------------------------------------------------


def _named(memory: RecalledDecisions, given: str) -> Decided:
    if not given:
        raise CommandError("name a decision by its ID; `parley memory list` lists them")
    found = {one.id: one for one in memory.named(given)}
    return found[pick(given, found, "decision", "`parley memory list` lists them")]


def _takes(words: argparse.Namespace, *names: str) -> None:
    """Refuse options that do not go with an action, rather than ignore them."""
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
            raise CommandError(f"`parley memory {words.action}` takes no {shown}; see `parley memory --help`")


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


ACTIONS: Mapping[str, Callable[[RecalledDecisions, argparse.Namespace], int]] = {
    "list": _list,
    "show": _show,
    "why": _why,
    "search": _search,
    "correct": _correct,
    "forget": _forget,
    "export": _export,
}
