"""The names that are sent: those of the docs, and of others' names only what looks like one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from parley.features.telemetry.vocabulary import METRICS, OTHER, SPANS, WAITS, FewNames, Names
from parley.hosts.worker_health import FAMILIES as WORKER_FAMILIES
from parley.hosts.worker_health import OUTCOMES
from parley.machine.prometheus import PROCESS
from parley.web.pages.metrics import FAMILIES, NEEDS
from parley.web.pages.metrics import WAITS as FIGURE_WAITS

PAGE = (Path(__file__).resolve().parents[2] / "docs/telemetry.md").read_text(encoding="utf-8")


def rows(heading: str) -> list[list[str]]:
    """The rows of the first table below a heading of the page."""
    part = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("| ")][1:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if not line.startswith("| ---")]


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_the_docs_have_every_span_with_its_attributes() -> None:
    found = {names(row[0])[0].partition(" ")[0]: {*names(row[2]), "parley.job.id"} for row in rows("Spans")}

    assert found == {name: set(attributes) for name, attributes in SPANS.items()}


def test_the_docs_have_every_metric_with_its_kind_unit_and_attributes() -> None:
    found = {names(row[0])[0]: (row[1], names(row[2])[0], set(names(row[4]))) for row in rows("Metrics")}

    assert found == {name: (one.kind, one.unit, set(one.attributes)) for name, one in METRICS.items()}


def test_the_docs_have_every_cause_of_a_wait() -> None:
    assert [names(row[0])[0] for row in rows("Waits")] == list(WAITS)


def test_the_docs_have_every_figure_with_its_labels() -> None:
    found = {names(row[0])[0]: (row[1], tuple(names(row[2]))) for row in rows("Figures for Prometheus")}

    assert found == {name: (one.kind, one.labels) for name, one in FAMILIES.items()}
    said = PAGE.partition("## Figures for Prometheus\n")[2]
    assert [word for word in (*NEEDS, *FIGURE_WAITS) if f"`{word}`" not in said] == []


@pytest.mark.parametrize("name", ["intent-lead", "mcp__files__read", "Bash", "a.b-c_9"])
def test_what_looks_like_a_name_is_sent(name: str) -> None:
    assert Names().name(name) == name


@pytest.mark.parametrize(
    "name", ["", "delete the users table", "../../etc/passwd", "/tmp/x", "a\nb", "é", "a" * 65, "-rf", "x=1"]
)
def test_what_may_be_words_or_a_path_is_not(name: str) -> None:
    assert Names().name(name) == OTHER


def test_a_name_that_holds_a_secret_is_not_sent() -> None:
    assert Names(lambda text: text.replace("hunter2", "***")).name("tool-hunter2") == OTHER
    assert Names(lambda text: text.replace("hunter2", "***")).model("gpt-hunter2") == OTHER


@pytest.mark.parametrize("model", ["claude-opus-4-5[1m]", "us.anthropic.claude-3:0", "org/model@2026+x", ""])
def test_models_have_longer_names(model: str) -> None:
    assert Names().model(model) == model


def test_no_metric_has_series_without_end() -> None:
    few = FewNames(2)

    assert [few.of("agent", name) for name in ("a", "b", "c", "a", "d")] == ["a", "b", OTHER, "a", OTHER]
    assert few.of("tool", "c") == "c"


def test_the_docs_have_every_figure_of_a_worker() -> None:
    told = [row for row in rows("Workers") if row[0].startswith("`parley_worker")]
    found = {names(row[0])[0]: (row[1], tuple(names(row[2]))) for row in told}

    assert found == {name: (one.kind, one.labels) for name, one in WORKER_FAMILIES.items() if name not in PROCESS}
    said = PAGE.partition("## Workers\n")[2]
    assert [word for word in (*OUTCOMES, *PROCESS) if f"`{word}`" not in said] == []
