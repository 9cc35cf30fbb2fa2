"""Builds the wheel with the hot path compiled, where that is asked for: `PARLEY_COMPILE=1 pip wheel .`.

Which modules those are, and what compiles them, stands in pyproject.toml, at this hook's settings. Without the variable
the wheel is pure. The sources stay in it beside what was made of them, for tracebacks and for whoever reads on. Nothing
is written into the checkout.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

GROUP = "parley"  # all compiled code is in one library, parley__mypyc; each module is a small one that refers to it


def sources(root: Path, patterns: Sequence[str]) -> list[str]:
    """The files of the modules that are compiled, seen from the root."""
    return [str(path.relative_to(root)) for pattern in patterns for path in sorted(root.glob(pattern))]


def translate(files: Sequence[str], where: Path) -> list[Any]:
    """Write the modules as C, which needs no compiler; tell what is to be made of it; SystemExit if one can't be."""
    from mypyc.build import mypycify

    # With the project's own settings of mypy; no word on other modules, and nothing kept between runs.
    settings = ["--config-file", "pyproject.toml", "--follow-imports", "silent", "--cache-dir", os.devnull]
    return mypycify([*settings, *files], opt_level="3", debug_level="0", target_dir=str(where), group_name=GROUP)


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


def build(files: Sequence[str], where: Path) -> dict[str, str]:
    """Compile the modules in a folder, and tell where in the wheel each library belongs."""
    from setuptools import Distribution
    from setuptools.command.build_ext import build_ext

    command = build_ext(Distribution({"name": GROUP, "ext_modules": translate(files, where)}))
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
        build_data["force_include"] |= build(sources(Path(self.root), self.config["compiled"]), Path(self._where.name))
        build_data["pure_python"], build_data["infer_tag"] = False, True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Leave nothing behind."""
        if self._where is not None:
            self._where.cleanup()


def _asked() -> bool:
    return os.environ.get("PARLEY_COMPILE", "") not in {"", "0"}


if __name__ == "__main__":
    check()
