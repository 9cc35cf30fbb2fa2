"""What docs/audit.md says of the hash chain is enough to compute one anew, without Parley."""

import json
import re
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from parley.bus.hash_chain import digest_of, link
from parley.bus.rows import InputRow, MessageRow, StepRow
from tests.audit.conftest import Kept
from tests.stores.rows import message, step

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "audit.md"
GIVEN = InputRow(number=3, job="j1", kind="answer", key="k", time=1.5, by="ann", body="{}", taken=1, note="answered")


def program(folder: Path) -> Path:
    """The program that the documentation shows."""
    (found,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), flags=re.DOTALL)
    path = folder / "chain.py"
    path.write_text(found, encoding="utf-8")
    return path


def run(path: Path, export: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-I", path, export], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", ["running", "finished", "withdrawn"])
def test_the_documentations_program_computes_the_same_head(kept: dict[str, Kept], name: str, tmp_path: Path) -> None:
    play = kept[name]
    done = run(program(tmp_path), play.exported)

    assert (done.returncode, done.stdout) == (0, f"{play.load().rows['transactions'][-1].head}\n"), done.stderr


def test_the_documentations_program_finds_a_changed_row(kept: dict[str, Kept], tmp_path: Path) -> None:
    lines = kept["running"].exported.read_text(encoding="ascii").splitlines()
    changed = [line.replace("do it", "do that") if '"table":"messages"' in line else line for line in lines]
    assert changed != lines
    (tmp_path / "changed.jsonl").write_text("\n".join(changed), encoding="ascii")

    done = run(program(tmp_path), tmp_path / "changed.jsonl")

    assert done.returncode == 1
    assert "transaction 1 " in done.stderr


def test_a_row_is_written_as_an_array_of_its_table_and_its_columns() -> None:
    row = message(1, body='é "\n\x01', meta="")
    written = b'["messages",1,1,"lead","state:j1/1","coder","dispatch:1",1,"key1",2.5,"\xc3\xa9 \\"\\n\\u0001","",""]'

    assert digest_of(row) == sha256(written).hexdigest()


@given(st.text(), st.text(), st.floats(0, 1e15), st.integers(0, 1 << 39))
def test_any_row_is_written_as_the_standard_library_writes_it(one: str, two: str, time: float, number: int) -> None:
    row = step(number, who=one, extra=two, time=time)
    columns = ["steps", *msgspec.structs.astuple(row)]
    written = json.dumps(columns, ensure_ascii=False, separators=(",", ":"))
    if "e" not in repr(time):  # below a ten-thousandth of a second they differ
        assert digest_of(row) == sha256(written.encode()).hexdigest()


def changed(value: str | float) -> str | float:
    return f"{value}x" if isinstance(value, str) else value + 1


@pytest.mark.parametrize("row", [step(1), message(1), GIVEN], ids=["steps", "messages", "inputs"])
def test_a_head_covers_every_column(row: StepRow | MessageRow | InputRow) -> None:
    def head(row: StepRow | MessageRow | InputRow) -> str:
        return link(
            "before",
            number=1,
            time=2.5,
            epoch=1,
            steps=[row] if isinstance(row, StepRow) else [],
            messages=[row] if isinstance(row, MessageRow) else [],
            taken=[row] if isinstance(row, InputRow) else [],
        ).head

    heads = {head(replace(row, **{name: changed(getattr(row, name))})) for name in row.__struct_fields__}
    assert len({head(row), *heads}) == len(row.__struct_fields__) + 1


def test_nothing_moves_from_one_column_to_the_next_unseen() -> None:
    assert digest_of(step(1, consumed="ab", produced="c")) != digest_of(step(1, consumed="a", produced="bc"))
    assert digest_of(step(1, time=1.0)) != digest_of(step(1, time=1))
    assert digest_of(step(1, at='","')) != digest_of(step(1, at="", choice='","'))
