"""`parley cost`: what turns used, by job, day, agent and model, with sums that agree exactly."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from parley.bus.memory_store import MemoryBus, MemoryStore
from parley.bus.rows import StepRow
from parley.views.costs import Cost, grouped, total, turn_costs
from tests.cli.home import APPROVES, LEADS, Home
from tests.stores.rows import commit, job, step

AMOUNTS = ("turns", "input_tokens", "output_tokens", "cache_creation_tokens", "cache_read_tokens", "cost_usd")
USES = LEADS.replace(
    "do: [{write: {path: INTENT.md",
    "do: [{usage: {cost: 0.1, input_tokens: 1001, output_tokens: 17, cache_read_tokens: 5}}, {write: {path: INTENT.md",
).replace(
    "do: [{write: {path: PLAN.md",
    "do: [{usage: {cost: 0.2, input_tokens: 33, output_tokens: 7}}, {write: {path: PLAN.md",
)


@pytest.fixture(scope="module")
def costly(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """Two jobs whose agents report what they use, one done and one at its first gate."""
    folder = tmp_path_factory.mktemp("costly")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        home = Home(folder)
        home.start(APPROVES + USES)
        home.start(USES)
        yield home


def costs(home: Home, *words: str) -> dict[str, Any]:
    done = home.here("cost", *words, "--json")
    assert done.code == 0, done
    document: dict[str, Any] = done.document
    return document


def test_sums_agree_however_turns_are_grouped_and_with_the_budgets(costly: Home) -> None:
    by_job = costs(costly)
    assert all(row["turns"] and row["request"] == "a request" for row in by_job["costs"])
    for by in ("job", "day", "agent", "model", "repository"):
        found = costs(costly, "--by", by)
        assert found["total"] == by_job["total"]
        for name in AMOUNTS:
            summed = sum(row[name] or 0 for row in found["costs"])
            assert summed == pytest.approx(found["total"][name], abs=1e-9), (by, name)

    with closing(sqlite3.connect(costly.folder / ".parley/bus.db")) as bus:
        turns, tokens, micros = bus.execute("SELECT sum(turns), sum(tokens), sum(micros) FROM spending").fetchone()
    everything = by_job["total"]
    assert (everything["turns"], everything["cost_usd"]) == (turns, micros / 1e6)
    assert everything["input_tokens"] + everything["output_tokens"] == tokens
    assert everything["cost_usd"] == pytest.approx(0.4)  # two intents and a plan
    assert everything["cache_read_tokens"] == 10

    agents = {row["agent"]: row for row in costs(costly, "--by", "agent")["costs"]}
    assert agents["intent-lead"]["input_tokens"] == 2002
    assert agents["proxy"]["cost_usd"] is None
    assert [row["model"] for row in costs(costly, "--by", "model")["costs"]] == ["(scripted)"]


def test_costs_are_shown_with_what_they_are_of(costly: Home) -> None:
    done = costly.here("cost", "--state", "done")
    lines = done.out.splitlines()

    assert lines[0].split() == ["job", "turns", "tokens", "in", "from", "cache", "out", "USD"]
    assert lines[1].split()[5] == "0.30"
    assert lines[1].endswith("  a request")  # no column is wider than it needs to be
    assert lines[2].startswith("all ")
    assert "have reported no money" in lines[3]
    assert max(map(len, lines)) <= 80
    assert costly.refuses("cost", "--by", "week") == (
        "parley: --by week: use one of: job, day, agent, model, repository"
    )
    assert "no job matches" in costly.here("cost", "--state", "failed").out
    everywhere = costs(costly, "--everywhere", "--by", "day")
    assert everywhere["total"] == costs(costly)["total"]
    (here,) = costs(costly, "--by", "repository")["costs"]
    assert (here["repository"], here["turns"]) == (str(costly.folder), everywhere["total"]["turns"])


def begun(number: int, agent: str, day: str) -> StepRow:
    return step(number, rule="wake", at=f"{agent} dispatch:1", choice=f'"t{number}"', extra=f'{{"day":"{day}"}}')


def ended(number: int, turn: int, agent: str, **left: Any) -> StepRow:
    extra = json.dumps({"turn": f"t{turn}", **left})
    return step(number, rule="nosend-step", consumed=f"Run {agent} dispatch:1 m1 t{turn}", choice="", extra=extra)


def test_a_turn_counts_on_its_first_day_with_the_model_that_answered_or_was_asked_for() -> None:
    roles = [
        {"name": "coder", "model": "inherit"},
        {"name": "tester", "model": "small"},
        {"name": "p", "runner": "proof"},
    ]
    store = MemoryStore(MemoryBus())
    row = job(agent="codex", settings=json.dumps({"roles": roles, "usual_model": "usual"}))
    store.create(row)
    store.own("j1")
    steps = [
        begun(1, "coder", "2026-01-01"),
        begun(2, "tester", "2026-01-02"),
        ended(3, 1, "coder", usage={"input_tokens": 10, "cost_usd": 0.000001}, model="big"),
        ended(4, 2, "tester", usage={"output_tokens": 5.0, "cost_usd": 0.1}, fault="it died"),
        begun(5, "coder", "2026-01-02"),
        begun(6, "p", "2026-01-02"),
        ended(7, 5, "coder", usage={"input_tokens": 1e300}),
    ]
    store.commit([commit(steps=steps)])

    turns = turn_costs(store, row)
    assert grouped(turns, lambda turn: turn.model) == {
        "big": Cost(turns=1, input_tokens=10, micros=1, priced=1),
        "small": Cost(turns=1, output_tokens=5, micros=100_000, priced=1),
        "usual": Cost(turns=1),
        "(proof)": Cost(turns=1),
    }
    assert {day: cost.turns for day, cost in grouped(turns, lambda turn: turn.day).items()} == {
        "2026-01-01": 1,
        "2026-01-02": 3,
    }
    assert total(turns) == Cost(turns=4, input_tokens=10, output_tokens=5, micros=100_001, priced=2)
