"""One file holds a job's whole record, and is audited where its bus is not."""

import gzip
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from parley.audit.audit import audit, read_anchor
from parley.audit.export import FORMAT, PROTOCOL, Exported, export, load_export, write_export
from parley.bus.rows import PROTOCOL as BUS_PROTOCOL
from parley.bus.rows import BusError
from parley.bus.store import Store
from tests.audit.conftest import Kept
from tests.audit.played_jobs import PLAYS, RecordedHome


@pytest.mark.parametrize("name", PLAYS)
def test_an_export_is_audited_like_the_bus(theatre: RecordedHome, tmp_path: Path, name: str) -> None:
    job = PLAYS[name](theatre)
    paths = [tmp_path / "elsewhere.jsonl", tmp_path / "elsewhere.jsonl.gz"]
    for path in paths:
        write_export(path, export(theatre.store, theatre.home / "jobs" / job, job))
    there = theatre.audit(job)
    theatre.close()
    shutil.rmtree(theatre.home)

    for path in paths:
        exported = load_export(path)
        here = audit(exported, job, read_anchor(exported.state))
        assert here.unknown == len(exported.rows["inputs"])  # the key stays with the bus
        assert replace(here, unknown=0) == there
    assert there.ok
    assert there.unknown == 0


def test_the_same_record_gives_the_same_bytes(kept: dict[str, Kept], tmp_path: Path) -> None:
    play = kept["finished"]
    exported = play.load()
    packed = [tmp_path / "one.gz", tmp_path / "two.gz"]
    for path in packed:
        write_export(path, _lines(play))

    assert packed[0].read_bytes() == packed[1].read_bytes()
    assert gzip.decompress(packed[0].read_bytes()) == play.exported.read_bytes()
    folder = tmp_path / "files"
    for name, data in exported.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    assert b"".join(export(exported, folder, play.job)) == play.exported.read_bytes()


def _lines(play: Kept) -> list[bytes]:
    return play.exported.read_bytes().splitlines(keepends=True)


def test_an_export_holds_the_files_and_nothing_of_the_workspaces(kept: dict[str, Kept]) -> None:
    play = kept["finished"]
    exported = play.load()

    names = set(exported.files)
    assert {"state.json", ".intent-stream.jsonl", ".plan-stream.jsonl", ".exec-stream.jsonl"} <= names
    assert {name.partition("/")[0] for name in names if "/" in name} == {"records", "outcomes", "streams"}
    for name, data in exported.files.items():
        assert data == (play.home / "jobs" / play.job / name).read_bytes()


def test_a_file_that_is_no_text_or_long_is_kept_to_the_byte(kept: dict[str, Kept], tmp_path: Path) -> None:
    play = kept["running"]
    home = tmp_path / "files"
    data = {"state.json": b"{}", ".exec-stream.jsonl": bytes(range(256)) * 4000, "streams/a.jsonl": b""}
    for name, content in data.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_bytes(content)
    (home / "streams" / "link.jsonl").symlink_to("/etc/hostname")
    write_export(tmp_path / "x", export(play.load(), home, play.job))

    assert load_export(tmp_path / "x").files == data


def test_an_export_can_only_be_read(kept: dict[str, Kept]) -> None:
    store: Store = kept["running"].load()
    row = store.jobs()[0]
    attempts: list[Callable[[], object]] = [
        lambda: store.create(row),
        lambda: store.own(row.job),
        lambda: store.commit([]),
        lambda: store.put(row.job, "pause", "k", 0.0, "eve", "{}"),
    ]
    for attempt in attempts:
        with pytest.raises(BusError, match="an export can only be read"):
            attempt()
    store.disown(row.job)
    store.close()
    assert not store.owner_lives(row.job)
    assert not store.changed()
    assert store.message(row.job, 1).body == "do it — ü"
    with pytest.raises(BusError, match="no message 999"):
        store.message(row.job, 999)
    with pytest.raises(BusError, match="0 rows for job 'other'"):
        store.load("other")
    assert [audit(store, "other", None).findings[0].table] == ["jobs"]


def test_what_an_export_is_made_of_is_the_protocol_of_the_bus() -> None:
    assert PROTOCOL == BUS_PROTOCOL


# ---- what is wrong with a file -------------------------------------------------------------------


def broken(tmp_path: Path, data: bytes) -> str:
    path = tmp_path / "broken.jsonl"
    path.write_bytes(data)
    with pytest.raises(BusError) as error:
        load_export(path)
    text = str(error.value)
    assert text.startswith(str(path))
    assert "\n" not in text
    return text


def test_an_export_that_was_cut_off_is_refused(kept: dict[str, Kept], tmp_path: Path) -> None:
    lines = _lines(kept["running"])
    for count in range(1, len(lines)):
        assert f"it was cut off: line {count} is not the last" in broken(tmp_path, b"".join(lines[:count]))
    whole = b"".join(lines)
    for size in range(len(lines[0]) + 1, len(whole), 997):
        assert "cut off" in broken(tmp_path, whole[:size])
    packed = gzip.compress(whole)
    for size in range(3, len(packed), 499):
        assert "cut off or damaged" in broken(tmp_path, packed[:size])


def test_an_export_that_was_changed_is_refused(kept: dict[str, Kept], tmp_path: Path) -> None:
    lines = _lines(kept["running"])
    for index in range(1, len(lines) - 1, 7):
        changed = [*lines]
        changed[index] = lines[index].replace(b"a", b"b")
        if changed != lines:
            assert re.search(r"changed after it was|line \d+: it is no", broken(tmp_path, b"".join(changed)))
        fewer = broken(tmp_path, b"".join(lines[:index] + lines[index + 1 :]))
        assert "it was changed after it was exported: its digest is not that of its lines" in fewer
    packed = bytearray(gzip.compress(b"".join(lines)))
    packed[len(packed) // 2] ^= 0xFF
    assert "damaged" in broken(tmp_path, bytes(packed)) or "line" in broken(tmp_path, bytes(packed))


def test_a_file_that_is_something_else_is_refused(tmp_path: Path) -> None:
    assert "it is empty" in broken(tmp_path, b"")
    assert "line 1: it is no line of an export" in broken(tmp_path, b"hello\n")
    assert "it is no export of a job" in broken(tmp_path, b"{}\n")
    for other in (FORMAT - 1, FORMAT + 1):
        header: dict[str, Any] = {"parley-export": other, "protocol": PROTOCOL, "job": "j"}
        line = broken(tmp_path, json.dumps(header).encode() + b"\n")
        assert f"its format is {other}, not {FORMAT}; audit it with the Parley that exported it" in line
    header = {"parley-export": FORMAT, "protocol": "other", "job": "j"}
    assert "another version of the protocol" in broken(tmp_path, json.dumps(header).encode() + b"\n")
    with pytest.raises(BusError, match="it can't be read: No such file"):
        load_export(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "line, problem",
    [
        ('{"table":"spells","row":[1]}', "no row of a table"),
        ('{"table":"steps","row":[1]}', "no row of a table"),
        ('{"table":["steps"],"row":[1]}', "no row of a table"),
        ('{"table":"molecules","row":["slot",{}]}', "holds what no row holds"),
        ('{"file":"x","base64":"%%"}', "no piece of a file"),
        ('{"file":5,"text":"x"}', "no piece of a file"),
        ('{"other":1}', "no line of an export"),
        ("[" * 100_000, "no line of an export"),
    ],
)
def test_a_line_that_belongs_to_no_export_is_told(
    kept: dict[str, Kept], tmp_path: Path, line: str, problem: str
) -> None:
    lines = _lines(kept["running"])

    assert problem in broken(tmp_path, lines[0] + f"{line}\n".encode() + b"".join(lines[1:]))
    assert "something after the last line" in broken(tmp_path, b"".join([*lines, b"{}\n"]))


def redigested(path: Path, documents: Iterable[dict[str, Any]]) -> Exported:
    """Write an export as a program would that has changed it and knows how the last line is made."""
    body = b"".join(json.dumps(document).encode() + b"\n" for document in documents)
    end = {"end": {"lines": body.count(b"\n"), "sha256": sha256(body).hexdigest()}}
    path.write_bytes(body + json.dumps(end).encode() + b"\n")
    return load_export(path)


def test_what_was_changed_in_an_export_is_found_though_its_digest_fits(kept: dict[str, Kept], tmp_path: Path) -> None:
    play = kept["running"]
    documents = [json.loads(line) for line in _lines(play)[:-1]]
    assert audit(redigested(tmp_path / "same", documents), play.job, read_anchor(play.state)).ok
    for index, document in enumerate(documents):
        if "table" not in document or document["table"] == "owners":
            continue
        changed = [*documents]
        changed[index] = {**document, "row": [*document["row"][:-1], f"{document['row'][-1]}x"]}
        exported = redigested(tmp_path / "changed", changed)

        assert not audit(exported, play.job, read_anchor(exported.state)).ok, document


def test_an_export_is_written_whole_or_not_at_all(kept: dict[str, Kept], tmp_path: Path) -> None:
    path = tmp_path / "export.jsonl"
    path.write_text("an older one")

    def lines() -> Iterable[bytes]:
        yield from _lines(kept["running"])[:5]
        raise BusError("the bus is gone")

    with pytest.raises(BusError, match="the bus is gone"):
        write_export(path, lines())
    assert path.read_text() == "an older one"
    assert [entry.name for entry in tmp_path.iterdir()] == ["export.jsonl"]
    write_export(path, _lines(kept["running"]))
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(BusError, match="can't be written"):
        write_export(tmp_path / "nowhere" / "x", [])


def test_an_export_takes_the_place_of_no_device(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(BusError, match="it is no ordinary file"):
        write_export(tmp_path / "pipe", [])
    assert (tmp_path / "pipe").is_fifo()


def test_a_tampered_bus_is_exported_as_it_is(tmp_path: Path) -> None:
    theatre = RecordedHome(tmp_path / "home", "memory")
    job = PLAYS["running"](theatre)
    kept = theatre.bus.jobs[job]
    last = kept.steps.rows[-1]
    kept.steps.rows.append(copy(last))
    write_export(tmp_path / "x", export(theatre.store, theatre.home / "jobs" / job, job))

    exported = load_export(tmp_path / "x")

    assert audit(exported, job, read_anchor(exported.state)) == theatre.audit(job)
    assert not theatre.audit(job).ok
