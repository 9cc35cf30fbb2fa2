"""Every setting is either harmless or asked about; and what is asked about is what is used."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from parley.base.documents.node import node_of
from parley.settings.option_words import budget_amount
from parley.settings.schema import BudgetSettings, NotifySettings, RoleSettings, Settings
from parley.settings.widening import RULES, paths, value_at, widenings

DEFAULT = Settings()
# For each setting a value that is more than the default allows, and one that is no more; None: there is none such.
MORE: Mapping[str, tuple[Any, Any]] = {
    "policies": (("always", "when_unsure", "always"), None),
    "fan_out": (4, 1),
    "crash_budget": (4, 1),
    "retry_budget": (4, 1),
    "backtracks": (6, 1),
    "repeats": (11, 1),
    "exchanges": (41, 1),
    "time_limit_seconds": (1801.0, 1.0),
    "stall_seconds": (301.0, 1.0),
    "parallel": (9, 1),
    "durability": ("normal", None),
    "roles": (
        {"coder": RoleSettings(runner="codex")},
        {"coder": RoleSettings(team=("tester",), tools=("Bash",), model="m")},
    ),
    "boundary.accept": ("none", None),
    "boundary.readable": (("/opt",), None),
    "boundary.hosts": (("example.org:443",), None),
    "boundary.exempt": (("udp",), None),
    "boundary.processes": (257, 1),
    "boundary.open_files": (4097, 1),
    "boundary.file_megabytes": (4097, 1),
    "boundary.memory_mb": (10_000_000, 1),
    "workspace.setup": (None, "make"),
    "workspace.copy": ((".env",), None),
    "workspace.quota_mb": (2049, 1),
    "workspace.files": (200_001, 1),
    "workspace.dirty": ("include", None),
    "agents": (node_of({"x": {"command": ["x"]}}, "f"), None),
    "claude.path": ("/x", None),
    "claude.subscription": (True, None),
    "claude.model": (None, "m"),
    "claude.warm": (5, 1),
    "claude.max_retries": (4, 1),
    "proxy.false_approval": (2.0, 4.0),
    "proxy.checked": (0.0, 1.0),
    "proxy.fresh_days": (91.0, 1.0),
    "proxy.memory": (None, False),
    "proxy.rehearse": (True, None),
    "proxy.brief": (None, False),
    "notify.to": (("ntfy://x",), None),
    "notify.on": (None, ("done",)),
    "budget.job": ({"turns": 201.0}, {"turns": 1.0, "tokens": 1e9, "minutes": 5.0}),
    "budget.day": (None, {"turns": 1e6}),
    "workflow.complex_agents": (None, 9),
    "workflow.complex_levels": (None, 9),
    "workflow.similar": (86.0, 1.0),
    "workflow.rounds": (4, 1),
    "sending.message": (16_001, 1),
    "sending.sent_files": (51, 1),
    "sending.sent_mb": (11, 1),
    "telemetry.enabled": (None, False),
    "telemetry.endpoint": ("http://localhost:4318", None),
    "hosts.remote": ("/srv/parley.git", None),
    "hosts.remote_ca": ("/etc/other.pem", None),
    "hosts.temporal": ("temporal.example.org:7233", None),
    "hosts.namespace": ("other", None),
    "hosts.temporal_ca": ("/etc/other.pem", None),
    "hosts.temporal_certificate": ("/etc/other.pem", None),
    "hosts.temporal_key": ("/etc/other.pem", None),
    "hosts.roles": (("other",), None),
    "hosts.labels": ({"coder": "other"}, None),
    "hosts.lost_seconds": (60.0, None),
    "hosts.alone_seconds": (3600.0, None),
    "people": ({"bob": "answer"}, None),
}


def with_value(settings: Settings, path: str, value: Any) -> Settings:
    """Settings that say something else at one place."""
    name, _, rest = path.partition(".")
    if not rest:
        return structs.replace(settings, **{name: value})
    inner: Any = getattr(settings, name) or NotifySettings()
    changed: Any = structs.replace(inner, **{rest: value})
    return structs.replace(settings, **{name: changed})


def test_no_setting_is_forgotten() -> None:
    assert set(paths()) == set(RULES) == set(MORE)


@pytest.mark.parametrize("path", MORE)
def test_each_setting_is_asked_about_where_it_is_more_and_only_there(path: str) -> None:
    more, less = MORE[path]
    if more is not None:
        assert len(widenings(DEFAULT, with_value(DEFAULT, path, more))) == 1, path
        assert widenings(with_value(DEFAULT, path, more), with_value(DEFAULT, path, more)) == []
        assert widenings(with_value(DEFAULT, path, more), DEFAULT) == [], "less is always free"
    if less is not None:
        assert widenings(DEFAULT, with_value(DEFAULT, path, less)) == [], path


def test_the_address_of_the_git_remote_is_told_with_no_job_since_it_may_hold_a_password() -> None:
    (wish,) = widenings(DEFAULT, with_value(DEFAULT, "hosts.remote", "https://ann:secret@git.example.org/p.git"))

    assert wish.private


def test_a_limit_that_is_0_is_none_so_that_a_repository_may_set_it_and_not_lift_it() -> None:
    unlimited = with_value(DEFAULT, "repeats", 0)

    assert widenings(unlimited, DEFAULT) == []
    assert [wish.name for wish in widenings(DEFAULT, unlimited)] == ["[limits] repeats"]


@given(st.lists(st.sampled_from([path for path in MORE if MORE[path][0] is not None]), unique=True))
def test_what_is_asked_about_is_each_setting_by_itself(chosen: list[str]) -> None:
    asked = DEFAULT
    for path in chosen:
        asked = with_value(asked, path, MORE[path][0])

    assert len(widenings(DEFAULT, asked)) == len(chosen)
    for path in chosen:
        mine = with_value(DEFAULT, path, MORE[path][0])
        assert len(widenings(mine, asked)) == len(chosen) - 1


def test_a_setting_that_is_not_named_widens_as_soon_as_it_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parley.settings.widening.RULES", {})
    for path, values in MORE.items():
        for value in values:
            if value is not None:
                asked = with_value(DEFAULT, path, value)
                assert [wish.name for wish in widenings(DEFAULT, asked)] == [path]
                assert json.loads(widenings(DEFAULT, asked)[0].value) is not None
                assert value_at(asked, path) == value


def test_a_set_up_command_is_free_only_behind_a_boundary() -> None:
    asked = with_value(DEFAULT, "workspace.setup", "make")
    bare = with_value(DEFAULT, "boundary.accept", "none")

    assert widenings(bare, with_value(bare, "workspace.setup", "make"))[0].name == "[workspace] setup"
    assert widenings(DEFAULT, asked) == []


def test_budgets_are_compared_with_what_holds_without_them() -> None:
    own = structs.replace(DEFAULT, parallel=4, budget=BudgetSettings({"tokens": 1000.0}, {"money": 5.0}))

    def asked(job: dict[str, float], day: dict[str, float]) -> list[str]:
        budget = BudgetSettings({**own.budget.job, **job}, {**own.budget.day, **day})
        return [wish.name for wish in widenings(own, structs.replace(own, budget=budget))]

    none = budget_amount("tokens", "none", "")
    assert asked({"parallel": 8.0}, {}) == ["[budget.job] parallel"]
    assert asked({"tokens": none}, {"money": none}) == ["[budget.job] tokens", "[budget.day] money"]
    assert asked({"tokens": 10.0, "parallel": 2.0, "minutes": none}, {"money": 5.0, "turns": 9.0}) == []
    assert asked({"money": 20.5}, {}) == ["[budget.job] money"]


@pytest.mark.parametrize("key", ["turn_seconds", "stall_seconds"])
def test_a_role_may_be_shorter_than_a_turn_may_and_not_longer(key: str) -> None:
    for seconds, more in ((1e6, 1), (60.0, 0)):
        asked = structs.replace(DEFAULT, roles={"coder": RoleSettings(limits={key: seconds})})
        assert len(widenings(DEFAULT, asked)) == more
