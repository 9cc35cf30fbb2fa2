"""The compiled form stays possible: what would break its build is found here, without a C compiler."""

import ast
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from hatch_build import sources, spell_out
from tests.repo.test_hygiene import pins

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
HOOK = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]
TRANSLATE = """
import json, sys
from pathlib import Path
from hatch_build import translate
translate(Path().resolve(), json.loads(sys.argv[2]), Path(sys.argv[1]))
"""


def python(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run Python in the root."""
    return subprocess.run(
        [sys.executable, *words], cwd=ROOT, env={**os.environ, **env}, capture_output=True, text=True, check=False
    )


def wheel(where: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return python("-m", "hatchling", "build", "--target", "wheel", "--directory", str(where), **env)


@pytest.mark.parametrize("module", HOOK["compiled"])
def test_a_module_that_is_compiled_exists(module: str) -> None:
    assert sources(ROOT, [module]) == [module]


def test_mypyc_takes_every_module(tmp_path: Path) -> None:
    done = python("-c", TRANSLATE, str(tmp_path), json.dumps(HOOK))

    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "__native_parley.c").is_file()


def test_a_dataclass_is_compiled_with_its_constructor_and_its_annotations_written_out() -> None:
    source = """
import os

@quick
@dataclass(frozen=True, slots=True)
class Run:
    '''A turn.'''

    agent: str  # whose
    queue: tuple[str, ...] = ()  # a comment stays
    seen: list[str] = field(default_factory=list)

    def brief(self) -> str:
        return self.agent


class Plain:
    pass
"""

    assert (
        spell_out(source, ["Plain"])
        == """
import os
import typing
if typing.TYPE_CHECKING:
    from mypy_extensions import mypyc_attr


@dataclass(init=False, unsafe_hash=True)
class Run:
    '''A turn.'''

    agent: str  # whose
    queue: tuple[str, ...]  # a comment stays
    seen: list[str]

    def __init__(self, agent: str, queue: tuple[str, ...] = (), seen: list[str] | None = None) -> None:
        self.agent = agent
        self.queue = queue
        self.seen = list() if seen is None else seen

    def brief(self) -> str:
        return self.agent
setattr(Run, '__annotations__', {'agent': 'str', 'queue': 'tuple[str, ...]', 'seen': 'list[str]'})


@mypyc_attr(allow_interpreted_subclasses=True)
class Plain:
    pass
"""
    )


def test_no_plain_class_inherits_from_one_that_is_compiled_unless_that_is_marked() -> None:
    """It would be refused when its module is imported."""
    compiled = {name.removeprefix("src/").removesuffix(".py").replace("/", "."): name for name in HOOK["compiled"]}
    found = []
    for path in (ROOT / "src").rglob("*.py"):
        if str(path.relative_to(ROOT)) in compiled.values():
            continue
        tree = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        froms = (node for node in tree if isinstance(node, ast.ImportFrom) and node.module in compiled)
        names = {alias.asname or alias.name for node in froms for alias in node.names} - set(HOOK["inherited"])
        classes = (node for node in tree if isinstance(node, ast.ClassDef))
        found += [f"{path.name}: {node.name}" for node in classes if names & {ast.unparse(base) for base in node.bases}]

    assert found == []


def test_it_is_built_with_what_is_locked() -> None:
    assert set(HOOK["compilers"]) <= pins(ROOT / "requirements-dev.lock").keys()


def test_no_compiled_file_hides_a_source() -> None:
    assert [path.name for path in (ROOT / "src").rglob("*") if path.suffix in {".so", ".pyd"}] == []


def test_a_wheel_is_pure_unless_more_is_asked_for(tmp_path: Path) -> None:
    done = wheel(tmp_path, PARLEY_COMPILE="")

    assert done.returncode == 0, done.stderr
    assert [path.name.partition("-py3")[2] for path in tmp_path.iterdir()] == ["-none-any.whl"]


def test_without_a_compiler_one_line_says_so_and_nothing_is_made(tmp_path: Path) -> None:
    done = wheel(tmp_path / "made", PARLEY_COMPILE="1", CC="no-such-compiler -O2")

    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "for lack of a C compiler (no-such-compiler)" in done.stderr
    assert not list(tmp_path.rglob("*.whl"))
