"""The files of others that the page and its tests use: each is the one that vendor.json names, with its licence."""

import hashlib
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "src/parley/web/static/vendor"
FOLDERS = [PAGE, ROOT / "tests/web/vendor"]
LIST = "vendor.json"


def listed(folder: Path) -> list[dict[str, str]]:
    files: list[dict[str, str]] = json.loads((folder / LIST).read_text(encoding="utf-8"))
    return files


def changed(folder: Path) -> list[str]:
    """Name the listed files whose bytes are others than those that were vendored."""
    return [
        each["file"]
        for each in listed(folder)
        if hashlib.sha256((folder / each["file"]).read_bytes()).hexdigest() != each["sha256"]
    ]


@pytest.mark.parametrize("folder", FOLDERS, ids=["page", "tests"])
def test_each_vendored_file_has_the_hash_that_is_written_down(folder: Path) -> None:
    assert listed(folder)
    assert changed(folder) == []


def test_a_changed_byte_is_found(tmp_path: Path) -> None:
    for path in PAGE.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    with (tmp_path / "htmx.min.js").open("ab") as file:
        file.write(b" ")

    assert changed(tmp_path) == ["htmx.min.js"]


@pytest.mark.parametrize("folder", FOLDERS, ids=["page", "tests"])
def test_no_other_file_lies_beside_the_vendored_ones(folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == sorted([LIST, *(each["file"] for each in listed(folder))])


@pytest.mark.parametrize("folder", FOLDERS, ids=["page", "tests"])
def test_each_vendored_package_has_its_licence_text_beside_it(folder: Path) -> None:
    packages = {each["package"] for each in listed(folder)}
    licensed = {each["package"] for each in listed(folder) if "LICENSE" in each["file"] and each["licence"]}

    assert packages == licensed
    assert all((folder / each["file"]).stat().st_size for each in listed(folder))


@pytest.mark.parametrize("folder", FOLDERS, ids=["page", "tests"])
def test_each_vendored_file_says_where_it_came_from(folder: Path) -> None:
    keys = {"name", "version", "licence", "package", "path", "file", "sha256"}

    assert [each for each in listed(folder) if each.keys() != keys or not all(each.values())] == []
