"""Files, modules and functions that the docs name exist."""

import importlib
import re
from pathlib import Path

import pytest

from parley.features.telemetry.vocabulary import METRICS, SPANS

ROOT = Path(__file__).parents[2]
PLACES = (ROOT, ROOT / "src", ROOT / "src" / "parley")
PAGES = [ROOT / name for name in ("README.md", "SECURITY.md")] + sorted((ROOT / "docs").glob("*.md"))
FILE = re.compile(r"`([\w./-]+\.(?:py|sql))(?:(?:: ?|::)(\w+))?`")
DOTTED = re.compile(r"\b(parley(?:_cfa)?(?:\.[a-z_]\w*)+)\b(?!\.)")
MODULE = re.compile(r"\bpython3? -m ([\w.]+)")
NO_MODULES = {
    *("parley.toml", "parley.git", "parley.fish"),
    *(name for names in SPANS.values() for name in names),  # of telemetry
    *METRICS,
    *(name for metric in METRICS.values() for name in metric.attributes),
}
OTHERS = re.compile(r"^(?:api|db|service|orchestration|web|src/api)/")  # files of the projects in examples
MADE = {"features/chatter.py", "runners/echo/echo_runner.py"}  # what extending.md has its reader make
TOOLS = {"pytest", "venv", "pip", "json", "unittest", "http"}  # modules that are not ours


def found(path: str) -> Path | None:
    """A file of the repository or of the package."""
    return next((place / path for place in PLACES if (place / path).exists()), None)


def defines(file: Path, name: str) -> bool:
    return re.search(rf"\b(?:def|class) {name}\b", file.read_text(encoding="utf-8")) is not None


def missing(page: Path) -> list[str]:
    """What a page names and the repository does not have."""
    text = page.read_text(encoding="utf-8")
    lost = []
    for path, name in FILE.findall(text):
        file = found(path)
        if file is None and path not in MADE and not OTHERS.match(path):
            lost.append(path)
        elif file is not None and name and not defines(file, name):
            lost.append(f"{path}: {name}")
    lost += [name for name in DOTTED.findall(text) if name not in NO_MODULES and not exists(name)]
    lost += [name for name in MODULE.findall(text) if name.split(".")[0] not in TOOLS and not exists(name)]
    return lost


def exists(dotted: str) -> bool:
    """Whether a dotted name is a module, or something in one."""
    path = dotted.replace(".", "/")
    if found(path) or found(f"{path}.py"):
        return True
    module, _, name = dotted.rpartition(".")
    return bool(module) and exists(module) and hasattr(importlib.import_module(module), name)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_module_and_function_that_a_page_names_exists(page: Path) -> None:
    assert missing(page) == []


def test_what_does_not_exist_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "`engine/nowhere.py`, `base/text.py: nothing`, `base/text.py: mended`, `parley.engine.nowhere`,"
        " `parley.engine`, `tests/docs/test_docs.py::test_nothing`, `python -m tools.nothing`, `parley.toml`",
        encoding="utf-8",
    )

    assert missing(page) == [
        "engine/nowhere.py",
        "base/text.py: nothing",
        "tests/docs/test_docs.py: test_nothing",
        "parley.engine.nowhere",
        "tools.nothing",
    ]
