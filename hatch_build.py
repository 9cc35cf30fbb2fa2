"""Builds the wheel with the hot path compiled, where that is asked for: `PARLEY_COMPILE=1 pip wheel .`.

Which modules those are, and what compiles them, stands in pyproject.toml, at this hook's settings. Without the variable
the wheel is pure. The sources stay in it beside what was made of them, for tracebacks and for whoever reads on. Nothing
is written into the checkout.
"""

from __future__ import annotations

import ast
import os
import shlex
import shutil
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

GROUP = "parley"  # all compiled code is in one library, parley__mypyc; each module is a small one that refers to it


def sources(root: Path, patterns: Sequence[str]) -> list[str]:
    """The files of the modules that are compiled, seen from the root."""
    return [str(path.relative_to(root)) for pattern in patterns for path in sorted(root.glob(pattern))]


# ---- the source as it is compiled ----------------------------------------------------------------


def spell_out(source: str, inherited: Sequence[str] = ()) -> str:
    """Write out what `dataclass` would make of each class at run time: mypyc goes through the interpreter for that.

    A class gets its constructor, which is then compiled too, and its annotations, of which a compiled class would tell
    the outer type alone. That it is frozen has been checked by then, and is not enforced again. What can't be written
    out this way stays as it is. Of a class that is `inherited`, plain ones may be made.
    """
    lines = source.splitlines()
    body = ast.parse(source).body
    marked = False
    for node in reversed(body):
        if isinstance(node, ast.ClassDef):
            _spell_out(node, lines)
            if node.name in inherited:
                lines.insert(node.lineno - 1, "@mypyc_attr(allow_interpreted_subclasses=True)")
                marked = True
        elif marked and isinstance(node, ast.Import | ast.ImportFrom):
            lines[node.end_lineno : node.end_lineno] = _MARKING
            break
    return "\n".join([*lines, ""])


# Nothing of it is there when the module runs.
_MARKING = ("import typing", "if typing.TYPE_CHECKING:", "    from mypy_extensions import mypyc_attr")


def _spell_out(node: ast.ClassDef, lines: list[str]) -> None:
    marks = {ast.unparse(mark).partition("(")[0]: mark for mark in node.decorator_list}
    made = marks.get("dataclass")
    fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
    methods = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
    if made is None or node.bases or not fields or "__init__" in methods:
        return
    options = {word.arg: ast.unparse(word.value) for word in made.keywords} if isinstance(made, ast.Call) else {}
    constructor = _constructor(fields, after="__post_init__" in methods)
    if constructor is None or options.keys() - {"frozen", "slots", "eq"}:
        return
    kinds = ", ".join(f"{ast.unparse(each.target)!r}: {ast.unparse(each.annotation)!r}" for each in fields)
    lines.insert(node.end_lineno or 0, f"setattr({node.name}, '__annotations__', {{{kinds}}})")
    end = fields[-1].end_lineno or 0
    lines[end:end] = ["", *(f"    {line}" for line in constructor)]
    for each in reversed(fields):
        _leave_out_default(each, lines)
    hashed = ["unsafe_hash=True"] if options.get("frozen") == "True" and "eq" not in options else []
    eq = [f"eq={options['eq']}"] if "eq" in options else []
    lines[made.lineno - 1] = f"@dataclass({', '.join(['init=False', *hashed, *eq])})"
    if "quick" in marks:  # it makes a constructor too
        lines[marks["quick"].lineno - 1] = ""


def _constructor(fields: Sequence[ast.AnnAssign], *, after: bool) -> list[str] | None:
    takes, sets = ["self"], []
    for each in fields:
        name, kind, default = ast.unparse(each.target), ast.unparse(each.annotation), each.value
        words = _words(default)
        if words is None:
            takes.append(f"{name}: {kind} = {ast.unparse(default)}" if default else f"{name}: {kind}")
            sets.append(f"self.{name} = {name}")
        elif words.keys() == {"default_factory"} and not kind.endswith("None"):
            takes.append(f"{name}: {kind} | None = None")
            sets.append(f"self.{name} = {words['default_factory']}() if {name} is None else {name}")
        elif words != {"init": "False"}:
            return None
    calls = ["self.__post_init__()"] if after else []
    return [f"def __init__({', '.join(takes)}) -> None:", *(f"    {line}" for line in (*sets, *calls))]


def _words(default: ast.expr | None) -> dict[str | None, str] | None:
    """What `field` is told, if that is what a field is set to."""
    if isinstance(default, ast.Call) and ast.unparse(default.func) == "field":
        return {word.arg: ast.unparse(word.value) for word in default.keywords}
    return None


def _leave_out_default(field: ast.AnnAssign, lines: list[str]) -> None:
    """What follows it, a comment that silences something perhaps, stays."""
    kind, default = field.annotation, field.value
    if default is not None and kind.end_lineno and default.end_lineno:
        before = lines[kind.end_lineno - 1].encode()[: kind.end_col_offset].decode()
        behind = lines[default.end_lineno - 1].encode()[default.end_col_offset :].decode()
        lines[kind.end_lineno - 1 : default.end_lineno] = [before + behind]


# ---- the build -----------------------------------------------------------------------------------


def translate(root: Path, settings: Mapping[str, Any], where: Path) -> list[Any]:
    """Write the modules as C, which needs no compiler; tell what is to be made of it; SystemExit if one can't be."""
    from mypyc.build import mypycify  # here, since a pure wheel is built without it

    files = sources(root, settings["compiled"])
    shutil.copytree(root / "src", where / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for name in files:
        path = where / name
        path.write_text(spell_out(path.read_text(encoding="utf-8"), settings["inherited"]), encoding="utf-8")
    # With the project's own settings of mypy; no word on other modules, and nothing kept between runs.
    words = ["--config-file", str(root / "pyproject.toml"), "--follow-imports", "silent", "--cache-dir", os.devnull]
    with chdir(where):  # O2: O3 is no faster, and takes longer
        made = mypycify([*words, *files], opt_level="2", debug_level="0", target_dir=str(where), group_name=GROUP)
    for library in made:
        library.extra_compile_args += ["-fno-plt", "-fno-semantic-interposition"]  # calls within it, and to Python's
    return made


def missing() -> Iterator[str]:
    """What a build needs and this machine lacks."""
    yield from (f"the Python package {name}" for name in ("mypyc", "setuptools") if find_spec(name) is None)
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
    if shutil.which(compiler) is None:
        yield f"a C compiler ({compiler})"
    if not Path(sysconfig.get_path("include"), "Python.h").is_file():
        yield "the headers of Python (Python.h)"


def check() -> None:
    """Stop where something is missing, before anything is made."""
    lacking = list(missing())
    if lacking:
        raise SystemExit(
            f"the compiled form can't be built here, for lack of {' and '.join(lacking)}: install that, or do without; "
            "the interpreted form does the same, only slower"
        )


def build(root: Path, settings: Mapping[str, Any], where: Path) -> dict[str, str]:
    """Compile the modules in a folder, and tell where in the wheel each library belongs."""
    from setuptools import Distribution  # as above
    from setuptools.command.build_ext import build_ext

    command = build_ext(Distribution({"name": GROUP, "ext_modules": translate(root, settings, where)}))
    made = where / "lib"
    command.build_lib, command.build_temp = str(made), str(where)
    command.ensure_finalized()
    command.run()
    return {str(path): str(path.relative_to(made)) for path in made.rglob("*") if path.is_file()}


class CompiledWheel(BuildHookInterface[Any]):
    """The compiled form of the wheel; an editable install is never compiled, so that an edited source is what runs."""

    _where: tempfile.TemporaryDirectory[str] | None = None

    def dependencies(self) -> list[str]:
        """What a build needs in an environment of its own."""
        return list(self.config["compilers"]) if _asked() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before the wheel is put together."""
        if version != "standard" or not _asked():
            return
        check()
        self._where = tempfile.TemporaryDirectory(prefix="parley-")
        build_data["force_include"] |= build(Path(self.root), self.config, Path(self._where.name))
        build_data["pure_python"], build_data["infer_tag"] = False, True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Leave nothing behind."""
        if self._where is not None:
            self._where.cleanup()


def _asked() -> bool:
    return os.environ.get("PARLEY_COMPILE", "") not in {"", "0"}


if __name__ == "__main__":
    check()
