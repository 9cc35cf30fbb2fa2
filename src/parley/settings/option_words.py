"""Settings in a few words, as the command line and the environment give them: policies, budgets, addresses."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

import msgspec

from parley.base.documents.node import DocumentError, Place
from parley.base.wording import advice
from parley.settings.schema import (
    DAY_BUDGETS,
    DESKTOP,
    JOB_BUDGETS,
    NO_LIMIT,
    POLICIES,
    STATES,
    BudgetSettings,
    Settings,
)

MOST_OF_A_BUDGET = 1e12
_EXAMPLES = {"turns": "40", "tokens": "2000000", "money": "5", "minutes": "90", "parallel": "4"}
_FRACTIONAL = ("money", "minutes")


def option_error(where: str, problem: str, remedy: str) -> DocumentError:
    """What is wrong with a word that is in no file."""
    return DocumentError(Place(where, 0, 0), problem, remedy)


# ---- policies ------------------------------------------------------------------------------------


def with_policy(settings: Settings, text: str) -> Settings:
    """The settings with a policy as the command line gives it: one for all states, or `plan=never,…`."""
    policies = dict(zip(STATES, settings.policies, strict=True))
    given = set[str]()
    for part in text.split(","):
        name, equals, policy = (word.strip() for word in part.partition("="))
        if not equals:
            name, policy = "", name
        where = f"--policy {part.strip()}"
        if policy not in POLICIES:
            raise option_error(where, f"there is no policy {policy!r}", advice(policy, POLICIES))
        if name and name not in STATES:
            raise option_error(where, f"there is no state {name!r}", advice(name, STATES))
        if name in given:
            raise option_error(where, f"{name or 'all states'} is given twice", "leave one of them out")
        given.add(name)
        policies.update({name: policy} if name else dict.fromkeys(STATES, policy))
    return msgspec.structs.replace(settings, policies=(policies["intent"], policies["plan"], policies["execute"]))


# ---- budgets -------------------------------------------------------------------------------------


def with_budget(settings: Settings, text: str) -> Settings:
    """The settings with budgets as the command line gives them: `turns=40,money=5,day.turns=100`."""
    job, day = dict(settings.budget.job), dict(settings.budget.day)
    for (what, scope), word in budget_words(text).items():
        name = f"day.{what}" if scope == "day" else what
        (day if scope == "day" else job)[what] = budget_amount(what, word, f"--budget {name}={word}")
    return msgspec.structs.replace(settings, budget=BudgetSettings(job, day))


def budget_words(text: str) -> dict[tuple[str, str], str]:
    """What `--budget` names: of what, for the job or the day, how much. Each once."""
    found: dict[tuple[str, str], str] = {}
    for part in text.split(","):
        name, equals, word = (each.strip() for each in part.partition("="))
        scope, dot, what = name.rpartition(".")
        where = f"--budget {part.strip()}"
        if (dot and scope != "day") or what not in (DAY_BUDGETS if dot else JOB_BUDGETS):
            names = (*JOB_BUDGETS, *(f"day.{each}" for each in DAY_BUDGETS))
            raise option_error(where, f"there is no budget {name!r}", advice(name, names))
        if not equals or not word:
            raise option_error(where, "it does not say how much", f"write {name}=40")
        if (what, scope or "job") in found:
            raise option_error(where, f"{name} is given twice", "leave one of them out")
        found[what, scope or "job"] = word
    return found


def budget_amount(what: str, value: object, where: str) -> float:
    """How much; an error that names `where` if it is no amount."""
    amount = amount_of(what, value)
    if amount is None:
        raise option_error(where, *no_amount(what))
    return amount


def amount_of(what: str, value: object) -> float | None:
    """How much: a number above 0, whole where only whole ones make sense; `2M` is two million, `none` no limit."""
    if value == NO_LIMIT and what != "parallel":
        return math.inf
    if isinstance(value, str):
        factor = {"k": 1e3, "m": 1e6}.get(value[-1:].lower())
        number = value[:-1] if factor else value
        if not re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,9})?", number):
            return None
        amount = round(float(number) * (factor or 1), 6)
    elif isinstance(value, bool) or not isinstance(value, int | float):
        return None
    else:
        amount = float(value)
    if not 0 < amount <= MOST_OF_A_BUDGET or (what not in _FRACTIONAL and amount != int(amount)):
        return None
    return amount


def no_amount(what: str) -> tuple[str, str]:
    """What is wrong with an amount, and what to do."""
    whole = "" if what in _FRACTIONAL else "whole "
    unlimited = "" if what == "parallel" else f", or {what}={NO_LIMIT} for no limit"
    return f"it must be a {whole}number above 0", f"write {what}={_EXAMPLES[what]}{unlimited}"


# ---- addresses -----------------------------------------------------------------------------------


def notify_to(words: Iterable[str], where: str) -> tuple[str, ...]:
    """The addresses to notify, each of which says what kind of service it is of."""
    found = tuple(words)
    for number, address in enumerate(found, 1):
        if not is_address(address):
            raise option_error(where, *no_address(number))
    return found


def is_address(text: str) -> bool:
    """Whether notices can be sent there."""
    return text == DESKTOP or re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", text) is not None


def no_address(number: int) -> tuple[str, str]:
    """What is wrong with an address, and what to do. The number alone is told: an address may hold a secret."""
    return f"address {number} is none", f"write it as service://…, or `{DESKTOP}`"


# ---- the git remote of places --------------------------------------------------------------------

_REMOTE = re.compile(
    r"(ssh|https)://(?:[^\s/@]+@)?(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9][A-Za-z0-9.-]*)(?::\d{1,5})?/[^\s]+"
)


def git_remote_scheme(text: str) -> str:
    """How a git remote is reached: `ssh`, `https`, or `file` for a path; empty: it is no address of a remote."""
    if not text.isprintable():
        return ""
    if text.startswith("/") and len(text) > 1:
        return "file"
    found = _REMOTE.fullmatch(text)
    return found[1] if found else ""


def no_git_remote(shown: str) -> tuple[str, str]:
    """What is wrong with a text that is no address of a git remote, and what to write."""
    return f"{shown} is no git remote", 'write "ssh://git@example.org/parley.git", "https://…" or a whole path'
