"""What docs/boundary.md says is what the code does."""

import re
import tomllib
from pathlib import Path

from parley.sandbox.boundary import UID
from parley.sandbox.inside.attempts import ATTEMPTS
from parley.settings.load import read
from parley.settings.schema import BoundarySettings
from tools.docs import fill_boundary

PAGE = (Path(__file__).parents[2] / "docs/boundary.md").read_text(encoding="utf-8")


def test_the_table_of_attempts_is_the_codes() -> None:
    assert fill_boundary(PAGE) == PAGE, "run `make docs`"
    assert len(re.findall(r"^\| `\w+` \|", PAGE, re.MULTILINE)) == len(ATTEMPTS) >= 24


def test_every_attempt_says_what_it_does_in_a_sentence() -> None:
    assert [attempt.__name__ for attempt in ATTEMPTS if not re.fullmatch(r"[A-Z][^\n]+\.", attempt.__doc__ or "")] == []
    assert len({attempt.__name__ for attempt in ATTEMPTS}) == len(ATTEMPTS)


def test_the_settings_of_the_page_can_be_read_and_are_all(tmp_path: Path) -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "parley.toml").write_text(example, encoding="utf-8")

    assert read(tmp_path).boundary.hosts == ("packages.example.org:443",)
    assert set(tomllib.loads(example)["boundary"]) == set(BoundarySettings.__struct_fields__)


def test_the_users_number_is_the_one_of_the_page() -> None:
    assert str(UID) in PAGE
