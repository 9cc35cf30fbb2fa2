"""`parley setup`: shows what is here, and writes the user's own settings for all repositories."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from parley.base.documents.node import DocumentError
from parley.cli import FAILED, OK, WAITING, CommandError
from parley.cli.common import agrees, ask, can_ask, own_settings, place_of
from parley.cli.machine.doctor import line_of, of_agent, of_boundary, of_claude
from parley.cli.machine.readiness import ReadinessCheck, needs
from parley.cli.machine.trust import own_is_trusted, record_own
from parley.cli.machine.user_settings_file import Lines, current, toml_text, value_in, write
from parley.runners.claude import logins
from parley.settings.option_words import budget_amount, budget_words, with_policy
from parley.settings.schema import DEFAULT_MONEY, DEFAULT_TURNS, STATES, Settings

TRIES = 3
POLICY = "When do jobs ask you? always, when_unsure or never"
LIMITS = {
    "turns": "How many turns may a job take before it asks you? A number, or none",
    "money": "How many US dollars may it cost before it asks you? A number, or none",
}


def run(words: argparse.Namespace) -> int:
    """Show what is here, ask, and write the user's own settings."""
    place = place_of(words.repo)
    path = own_settings()
    document = current(path)
    machine = [*needs(place), of_boundary(place)]
    print("what is here")
    for check in (of_claude(place), *machine):
        print(f"  {line_of(check)}")
    print()
    if words.subscription is not None or words.policy or words.budget:
        lines = _named(words)
    elif words.yes:
        lines = _proposed(document)
    elif can_ask():
        lines = _asked(document)
    else:
        raise CommandError(f"there is no terminal to ask on; say what you want: {_options(document)}", WAITING)
    changes = {
        (table, key): value
        for (table, key), value in lines.items()
        if toml_text(value_in(document, table, key)) != value
    }
    if changes:
        trusted = own_is_trusted()  # else what a job has put there would be allowed too
        write(path, changes)
        if trusted:
            record_own()
        print(f"written to {path}:")
        for (table, key), value in changes.items():
            print(f"  [{table}] {key} = {value}")
    else:
        print(f"nothing to change in {path}")
    return _conclude([of_agent(place), *machine])


def _conclude(checks: Sequence[ReadinessCheck]) -> int:
    """Say whether a job can start now."""
    missing = [check for check in checks if not check.ok]
    if missing:
        print("a job can't start yet:")
        for check in missing:
            print(f"  {line_of(check)}")
        return FAILED
    print(line_of(checks[0]))
    print('start a job with: parley run "what is to be done"')
    print("let your shell complete its words: parley completion SHELL (bash, zsh or fish) prints how")
    return OK


# ---- what is to be written -----------------------------------------------------------------------


def _subscription() -> str:
    """The subscription that was found and could be used; empty if there is none."""
    return next((one.origin for one in logins(os.environ) if one.subscription and not one.problem), "")


def _options(document: dict[str, Any]) -> str:
    """The command to set up without questions."""
    unused = bool(_subscription()) and value_in(document, "claude", "subscription") is None
    allow = " --subscription" if unused else ""
    return f"parley setup{allow} --yes, with --policy and --budget where the defaults do not suit you"


def _named(words: argparse.Namespace) -> Lines:
    """The settings from the options."""
    found: dict[tuple[str, str], str] = {}
    if words.subscription is not None:
        found["claude", "subscription"] = toml_text(words.subscription)
    if words.policy:
        found |= _policy(words.policy)
    if words.budget:
        found |= _budget(words.budget)
    return found


def _proposed(document: dict[str, Any]) -> Lines:
    """The proposed settings: use the subscription that was found, where the settings do not mention it."""
    unused = bool(_subscription()) and value_in(document, "claude", "subscription") is None
    return {("claude", "subscription"): "true"} if unused else {}


def _policy(text: str) -> dict[tuple[str, str], str]:
    settled = with_policy(Settings(), text)
    named = [part.partition("=")[0].strip() for part in text.split(",") if "=" in part] or STATES
    return {
        ("policy", state): toml_text(policy)
        for state, policy in zip(STATES, settled.policies, strict=True)
        if state in named
    }


def _budget(text: str) -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    for (what, scope), word in budget_words(text).items():
        budget_amount(what, word, f"--budget {what}={word}")
        found[f"budget.{scope}", what] = word if word.isdecimal() else toml_text(word)
    return found


# ---- asking --------------------------------------------------------------------------------------


def _asked(document: dict[str, Any]) -> Lines:
    """The settings from the user's answers. Enter leaves a setting as it is."""
    found: dict[tuple[str, str], str] = {}
    if origin := _subscription():
        before = value_in(document, "claude", "subscription")
        said = agrees(f"Let Parley use {origin}?", default=before is not False)
        found["claude", "subscription"] = toml_text(said)
    policies = [value_in(document, "policy", state) or "always" for state in STATES]
    known = policies[0] if len(set(policies)) == 1 else ",".join(map("=".join, zip(STATES, policies, strict=True)))
    found |= _one(f"{POLICY} [{known}]: ", _policy)
    for what, default in (("turns", DEFAULT_TURNS), ("money", DEFAULT_MONEY)):
        before = value_in(document, "budget.job", what)
        shown = f"{default:g}" if before is None else before
        found |= _one(f"{LIMITS[what]} [{shown}]: ", partial(_limit, what))
    return found


def _limit(what: str, text: str) -> dict[tuple[str, str], str]:
    return _budget(f"{what}={text}")


def _one(question: str, read: Callable[[str], dict[tuple[str, str], str]]) -> dict[tuple[str, str], str]:
    """Ask until the answer is valid; nothing where the user just presses Enter."""
    for _ in range(TRIES):
        said = ask(question)
        if not said:
            return {}
        try:
            return read(said)
        except DocumentError as error:
            print(f"  {error}")
    raise CommandError("nothing is written; run `parley setup` again")
