"""What settings may widen: every setting is named here, with what makes it more than the user has allowed.

A repository's settings come with a clone, through a merge, out of a job. They may ask for less than the user allows,
never for more: no weaker boundary, no program of their choice, nothing but committed files for agents to see, no
words sent elsewhere, no fewer questions to the human, no higher limit. What widens is found by comparing settings as
they are used, not as they are written: so no way of writing TOML gets past it. A setting that is not named here widens
as soon as it differs.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from parley.base.documents.node import Node, plain
from parley.settings.schema import (
    NAMINGS,
    NO_LIMIT,
    POLICIES,
    STATES,
    HostsSettings,
    JobLimits,
    NotifySettings,
    RoleSettings,
    Settings,
    SettingsGroup,
)


class Wish(NamedTuple):
    """One setting that only the user may allow."""

    name: str  # `[boundary] hosts`
    value: str  # as TOML has it, near enough
    private: bool = False  # its value may hold secrets, or says nothing to people: it is not told with a job


DEFAULT_MEMORY_MB = 8192
_SECRET = ("environment", "route", "headers")  # the settings of agents that may hold secrets
Compare = Callable[[Any, Any], bool]  # what the user has, what is asked for: whether that is more
Rule = Callable[[Settings, Settings], Iterator[Wish]]


# ---- when a value is more than another --------------------------------------------------------------


def _never(mine: Any, asked: Any) -> bool:
    return False


def _raised(mine: float, asked: float) -> bool:
    return asked > mine


def _limit_raised(mine: float, asked: float) -> bool:
    """0 stands for no limit: it is the default of a limit that holds only where it is set."""
    return (asked or math.inf) > (mine or math.inf)


def _more_memory(mine: int, asked: int) -> bool:
    """0 stands for the default: a fixed amount, or half of a smaller machine's memory."""
    half = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 21
    default = min(DEFAULT_MEMORY_MB, half)
    return (asked or default) > (mine or default)


def _lowered(mine: float, asked: float) -> bool:
    return asked < mine


def _turned_on(mine: bool, asked: bool) -> bool:
    return asked and not mine


def _named(mine: str, asked: str) -> bool:
    return bool(asked) and asked != mine


def _added(mine: tuple[str, ...], asked: tuple[str, ...]) -> bool:
    return not set(asked) <= set(mine)


def _includes(mine: str, asked: str) -> bool:
    return asked == "include" != mine


def _relaxed(mine: str, asked: str) -> bool:
    return asked not in ("full", mine)


def _elsewhere(mine: str, asked: str) -> bool:
    return asked not in (mine, HostsSettings().namespace)


def _differs(mine: Any, asked: Any) -> bool:
    return bool(asked != mine)


# ---- rules --------------------------------------------------------------------------------------------


def _one(path: str, name: str, more: Compare, *, private: bool = False) -> Rule:
    """A setting that is a plain value."""

    def rule(mine: Settings, asked: Settings) -> Iterator[Wish]:
        given = value_at(asked, path)
        if more(value_at(mine, path), given):
            yield Wish(name, text_of(given), private)

    return rule


def _policies(mine: Settings, asked: Settings) -> Iterator[Wish]:
    """A policy that asks the human less."""
    for state, before, now in zip(STATES, mine.policies, asked.policies, strict=True):
        if POLICIES.index(now) < POLICIES.index(before):
            yield Wish(f"[policy] {state}", text_of(now))


def _roles(mine: Settings, asked: Settings) -> Iterator[Wish]:
    """A role that names its program, or may take longer than any turn may. Its prompt is judged with its text."""
    longest = {"turn_seconds": asked.time_limit_seconds, "stall_seconds": asked.stall_seconds}
    for name, role in asked.roles.items():
        before = mine.roles.get(name, RoleSettings())
        if role.runner is not None and role.runner != before.runner:
            yield Wish(f"[roles.{name}] runner", text_of(role.runner))
        for key, seconds in role.limits.items():
            if seconds > max(longest[key], before.limits.get(key, 0.0)):
                yield Wish(f"[roles.{name}] limits.{key}", text_of(seconds))


def _agents(mine: Settings, asked: Settings) -> Iterator[Wish]:
    """Every word about programs that are run as agents."""
    before = {wish.name: wish.value for wish in _whole("agents", plain(mine.agents))}
    yield from (wish for wish in _whole("agents", plain(asked.agents)) if before.get(wish.name) != wish.value)


def _whole(name: str, table: Mapping[str, Any], *, private: bool = False) -> Iterator[Wish]:
    """Every setting of a table and of the tables in it, and each table that is empty."""
    for key, value in table.items():
        hidden = private or key in _SECRET
        if isinstance(value, Mapping) and value:
            yield from _whole(f"{name}.{key}", value, private=hidden)
        else:
            yield Wish(f"[{name}] {key}", text_of(value), hidden)


def _people(mine: Settings, asked: Settings) -> Iterator[Wish]:
    """A person who may do more."""
    for name, may in asked.people.items():
        before = mine.people.get(name)
        if before is None or NAMINGS.index(may) > NAMINGS.index(before):
            yield Wish(f"[people] {name}", text_of(may))


def _setup(mine: Settings, asked: Settings) -> Iterator[Wish]:
    """A command for each fresh workspace: behind the boundary it may do what agents may, without one anything."""
    if asked.boundary.accept and _named(mine.workspace.setup, asked.workspace.setup):
        yield Wish("[workspace] setup", text_of(asked.workspace.setup))


def _budget_of(scope: str) -> Rule:
    """What may be used up before the human is asked."""

    def limits(settings: Settings) -> dict[str, float]:
        if scope == "day":
            return settings.budget.of_day()
        return {"parallel": settings.parallel, **settings.budget.of_job(costs=True)}

    def rule(mine: Settings, asked: Settings) -> Iterator[Wish]:
        before, now = limits(mine), limits(asked)
        for what, limit in before.items():
            if now.get(what, math.inf) > limit and what in getattr(asked.budget, scope):
                yield Wish(f"[budget.{scope}] {what}", text_of(now.get(what, NO_LIMIT)))

    return rule


def _limits(*names: str) -> dict[str, Rule]:
    return {name: _one(name, f"[limits] {name}", _limit_raised) for name in names}


def _table(name: str, **keys: Compare) -> dict[str, Rule]:
    return {f"{name}.{key}": _one(f"{name}.{key}", f"[{name}] {key}", more) for key, more in keys.items()}


# Every setting, by where `Settings` has it.
RULES: Mapping[str, Rule] = {
    "policies": _policies,
    **_limits(*JobLimits.__struct_fields__),
    **_limits("time_limit_seconds", "stall_seconds", "parallel"),
    "durability": _one("durability", "[bus] durability", _relaxed),
    "roles": _roles,
    **_table("boundary", accept=_named, readable=_added, hosts=_added, exempt=_added),
    **_table("boundary", processes=_raised, open_files=_raised, file_megabytes=_raised, memory_mb=_more_memory),
    "workspace.setup": _setup,
    **_table("workspace", copy=_added, quota_mb=_raised, files=_raised, dirty=_includes),
    "agents": _agents,
    # a model is only asked for, and paid for within the budget
    **_table("claude", path=_named, subscription=_turned_on, model=_never, warm=_raised, max_retries=_raised),
    # what makes the proxy answer more, and be checked less
    **_table("proxy", false_approval=_lowered, checked=_lowered, fresh_days=_raised, memory=_turned_on),
    # a rehearsal teaches the proxy; a briefing only comes before the human's own answer
    **_table("proxy", rehearse=_turned_on, brief=_never),
    **_table("notify", to=_added, on=_never),
    "budget.job": _budget_of("job"),
    "budget.day": _budget_of("day"),
    # who helps to design a workflow; then what ends a loop of questions, and when a verification goes up
    **_table("workflow", complex_agents=_never, complex_levels=_never, similar=_raised, rounds=_raised),
    **{
        f"sending.{key}": _one(f"sending.{key}", f"[limits] {key}", _raised)
        for key in ("message", "sent_files", "sent_mb")
    },
    **_table("telemetry", enabled=_turned_on, endpoint=_named),
    # a repository's file is refused where it says any of these
    "hosts.remote": _one("hosts.remote", "[hosts] remote", _named, private=True),  # an address may hold a password
    **_table("hosts", remote_ca=_named, temporal=_named, namespace=_elsewhere, roles=_added, labels=_named),
    **_table(
        "hosts",
        temporal_ca=_named,
        temporal_certificate=_named,
        temporal_key=_named,
        lost_seconds=_raised,
        alone_seconds=_raised,
    ),
    "people": _people,
}


def widenings(mine: Settings, asked: Settings) -> list[Wish]:
    """What settings ask for beyond others."""
    found: list[Wish] = []
    for path in paths():
        rule = RULES.get(path) or _one(path, path, _differs)
        found += rule(mine, asked)
    return found


def paths() -> list[str]:
    """Every setting, by where `Settings` has it."""
    return list(_paths(Settings(notify=NotifySettings()), ""))


def _paths(settings: SettingsGroup, before: str) -> Iterator[str]:
    for name in settings.__struct_fields__:
        value = getattr(settings, name)
        if isinstance(value, SettingsGroup):
            yield from _paths(value, f"{before}{name}.")
        else:
            yield f"{before}{name}"


def value_at(settings: Settings, path: str) -> Any:
    """What settings say at a path; where they say nothing of notices, the defaults."""
    found: Any = settings
    for name in path.split("."):
        found = (
            NotifySettings()
            if found is settings and name == "notify" and settings.notify is None
            else getattr(found, name)
        )
    return found


def text_of(value: Any) -> str:
    """A value as TOML has it, near enough."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, ensure_ascii=False, default=_as_plain)


def _as_plain(value: Any) -> Any:
    if isinstance(value, Node):
        return plain(value)
    return msgspec.structs.asdict(value) if isinstance(value, msgspec.Struct) else str(value)
