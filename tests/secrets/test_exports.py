"""An export holds no secret, and proves as much as one that does."""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from parley.audit.audit import AuditReport, audit, read_anchor, render
from parley.audit.export import Exported, export, load_export, write_export
from parley.base.redaction import Secrets
from parley.bus.rows import BusError
from tests.audit.played_jobs import PLAYS, RecordedHome
from tests.cli.home import APPROVES, LEADS, Home


def proved(exported: Exported) -> AuditReport:
    return audit(exported, exported.job, read_anchor(exported.state), redacted=exported.redacted)


def said(theatre: RecordedHome, job: str) -> list[str]:
    """The words in a job's messages: each of them is called a secret below."""
    words = {word for row in theatre.store.messages(job) for word in re.findall(r"\w{4,}", row.body)}
    return sorted(words)


@pytest.mark.parametrize("name", PLAYS)
def test_whatever_is_called_a_secret_the_export_is_proved_without_it(tmp_path: Path, name: str) -> None:
    """Every word that anybody said, the names of states, roles and verdicts among them."""
    theatre = RecordedHome(tmp_path / "home", "memory")
    job = PLAYS[name](theatre)
    words = said(theatre, job)
    secrets = Secrets([(f"WORD_{number}_KEY", word) for number, word in enumerate(words)])
    true = theatre.audit(job)
    write_export(tmp_path / "x", export(theatre.store, theatre.home / "jobs" / job, job, secrets))

    exported = load_export(tmp_path / "x")
    report = proved(exported)

    assert report.ok, report.findings
    assert report.unknown == len(theatre.store.inputs(job, waiting=False))  # the key stays where the bus is
    assert report.refusals.counts == true.refusals.counts
    assert replace(report, redacted=0, unknown=0, refusals=true.refusals) == true
    assert report.redacted > 0
    for row in exported.messages(job):
        words_said = re.sub(r"^\[[A-Z]+[a-z ]*\]", "", row.body)
        assert secrets.redact(words_said) == words_said
    assert f"{report.redacted} row" in "\n".join(render(report))
    again = b"".join(export(exported, tmp_path / "none", job))
    kept = [line for line in (tmp_path / "x").read_bytes().splitlines()[:-1] if b'{"file"' not in line]
    assert again.splitlines()[:-1] == kept
    theatre.close()


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """A redacted export, line by line, without the last."""
    folder = tmp_path_factory.mktemp("export")
    theatre = RecordedHome(folder / "home", "memory")
    job = PLAYS["finished"](theatre)
    secrets = Secrets([(f"WORD_{number}_KEY", word) for number, word in enumerate(said(theatre, job))])
    write_export(folder / "x", export(theatre.store, theatre.home / "jobs" / job, job, secrets))
    theatre.close()
    return [json.loads(line) for line in (folder / "x").read_bytes().splitlines()[:-1]]


def load(path: Path, documents: Iterable[dict[str, Any]]) -> Exported:
    """An export as somebody writes it who has changed it and knows how the last line is made."""
    body = b"".join(json.dumps(document).encode() + b"\n" for document in documents)
    end = {"end": {"lines": body.count(b"\n"), "sha256": sha256(body).hexdigest()}}
    path.write_bytes(body + json.dumps(end).encode() + b"\n")
    return load_export(path)


def redacted(lines: list[dict[str, Any]]) -> list[int]:
    return [at for at, line in enumerate(lines) if "digest" in line]


def spread(places: list[int], lines: list[dict[str, Any]]) -> list[int]:
    """Some of them, of every table."""
    return sorted(
        {places[0], places[-1], *places[:: len(places) // 4 + 1], *{lines[at]["table"]: at for at in places}.values()}
    )


def test_a_digest_that_is_not_the_rows_is_found(lines: list[dict[str, Any]], tmp_path: Path) -> None:
    assert proved(load(tmp_path / "x", lines)).ok
    places = redacted(lines)
    assert {lines[at]["table"] for at in places} >= {"jobs", "messages", "steps", "inputs"}
    for at in spread(places, lines):
        changed = [*lines]
        changed[at] = {**lines[at], "digest": "0" * 64}
        assert not proved(load(tmp_path / "x", changed)).ok, lines[at]


def test_a_row_that_was_not_redacted_is_proved_beside_one_that_was(lines: list[dict[str, Any]], tmp_path: Path) -> None:
    sealed = {lines[at]["row"][1] for at in redacted(lines) if lines[at]["table"] == "messages"}
    beside = [
        at
        for at, line in enumerate(lines)
        if line.get("table") in ("steps", "messages") and "digest" not in line and line["row"][1] in sealed
    ]
    assert beside
    for at in spread(beside, lines):
        changed = [*lines]
        changed[at] = {**lines[at], "row": [*lines[at]["row"][:-1], f"{lines[at]['row'][-1]} "]}
        assert not proved(load(tmp_path / "x", changed)).ok, lines[at]


@pytest.mark.parametrize(
    "spoil, problem",
    [
        (lambda line: {**line, "digest": "x"}, "no row that could be redacted"),
        (lambda line: {**line, "digest": 5}, "no row that could be redacted"),
        (lambda line: {**line, "row": [[], *line["row"][1:]]}, "holds what no row holds"),
        (
            lambda line: json.loads(json.dumps(line).replace("[redacted ", "[redact ")),
            "it says that it is redacted, and nothing in it is",
        ),
    ],
)
def test_a_seal_that_makes_no_sense_is_refused(
    lines: list[dict[str, Any]], tmp_path: Path, spoil: Callable[[dict[str, Any]], dict[str, Any]], problem: str
) -> None:
    at = next(at for at in redacted(lines) if lines[at]["table"] == "messages")
    changed = [*lines]
    changed[at] = spoil(lines[at])

    with pytest.raises(BusError, match=problem):
        load(tmp_path / "x", changed)


def test_the_command_exports_without_secrets_and_audits_it(home: Home) -> None:
    home.write(".env", "PLANTED=planted-in-env-1\n")
    playbook = APPROVES + LEADS.replace('text: "right?"', 'text: "is planted-in-env-1 right? sk-ant-planted-0002"')
    home.run("run", "use planted-in-env-1", "--playbook", home.write("p.yaml", playbook))
    job = home.jobs()[0]["id"]
    path = home.folder / "x.jsonl"

    assert home.here("export", job, "-o", str(path)).code == 0
    text = path.read_text()
    assert "planted-in-env-1" not in text
    assert "sk-ant-planted-0002" not in text
    assert "[redacted PLANTED]" in text
    report = home.here("audit", str(path))
    assert report.code == 0, report.out
    assert "rows are redacted: covered by the chain as they were" in report.out
    assert home.here("audit", job, "--json").document["redacted"] == 0
    assert (
        home.here("audit", str(path), "--json").document["head"] == home.here("audit", job, "--json").document["head"]
    )


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)
