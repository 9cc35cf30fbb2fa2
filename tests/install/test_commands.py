"""The command in a message, for every way in which Parley can be installed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from parley_cfa.installation import Installation, read

NAME = "parley-try"
REQUIRES = """\
Requires-Dist: rich>=13
Provides-Extra: claude
Requires-Dist: no-such-package==1 ; extra == 'claude'
Provides-Extra: notify
Requires-Dist: pytest ; (sys_platform == 'linux') and extra == 'notify'
"""


class Environment:
    """An environment with a distribution in it, which nothing installed."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.info = folder / "site" / "parley_try-1.0.dist-info"
        self.info.mkdir(parents=True)
        (self.info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {NAME}\nVersion: 1.0\n{REQUIRES}")
        monkeypatch.syspath_prepend(folder / "site")
        monkeypatch.setattr(sys, "prefix", str(folder))
        monkeypatch.setattr(sys, "executable", "/env/bin/python")

    def came_from(self, document: object) -> Installation:
        """How it was installed, by what the installer wrote down."""
        text = document if isinstance(document, str) else json.dumps(document)
        (self.info / "direct_url.json").write_text(text)
        return read(NAME)


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Environment:
    return Environment(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    "mark, words",
    [
        ("", "/env/bin/python -m pip install"),
        ("pipx_metadata.json", "pipx install --force"),
        ("uv-receipt.toml", "uv tool install --force"),
    ],
)
@pytest.mark.parametrize("editable", [False, True])
def test_a_checkout_is_installed_again_by_the_same_program(
    environment: Environment, mark: str, words: str, editable: bool
) -> None:
    if mark:
        (environment.folder / mark).touch()
    checkout = environment.folder / "a checkout"
    checkout.mkdir()

    found = environment.came_from({"url": checkout.as_uri(), "dir_info": {"editable": True} if editable else {}})

    option = " --editable" if editable else ""
    assert found.command("claude") == f"{words}{option} '{checkout}[claude,notify]'"  # what is there is kept


@pytest.mark.parametrize(
    "document, requirement",
    [
        ({"url": "https://example.org/p.whl", "archive_info": {}}, "'parley-cfa[notify] @ https://example.org/p.whl'"),
        (
            {"url": "https://example.org/p.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "'parley-cfa[notify] @ git+https://example.org/p.git@abc'",
        ),
    ],
)
def test_an_address_stays_an_address(environment: Environment, document: Any, requirement: str) -> None:
    assert environment.came_from(document).command() == f"/env/bin/python -m pip install {requirement}"


@pytest.mark.parametrize(
    "document",
    ["", "no JSON", [], {"url": 3}, {"vcs_info": {"vcs": "git"}}, {"url": "file:///no/such/p.whl", "archive_info": {}},
     {"url": "file:///no/such/checkout", "dir_info": {"editable": True}}],
)  # fmt: skip
def test_where_the_source_is_not_known_or_gone_a_checkout_is_named_and_no_registry(
    environment: Environment, document: object
) -> None:
    found = environment.came_from(document)

    assert found.command() == "/env/bin/python -m pip install '.[notify]' (in a checkout of Parley)"


def test_without_any_metadata_it_is_the_same() -> None:
    assert read("no-such-distribution").command("claude").endswith("install '.[claude]' (in a checkout of Parley)")


def test_where_there_is_no_pip_uv_removes_the_other_projects_package() -> None:
    said = Installation("pipx", "/env/bin/python", "/p.whl", has_pip=False).without_stranger()

    assert "uv pip uninstall --python /env/bin/python parley && pipx install --force /p.whl" in said
