"""The folder of roles is Claude Code's too: what is no role stops no job, and tools that are not given are named."""

from pathlib import Path

import pytest

from parley.base.documents.node import DocumentError
from parley.roles import RoleFile, gather, lacking_tools, not_given, shipped, skipped
from parley.roles.role_file import BUS_TOOLS, GIVEN, PROXY_TOOLS
from parley.runners.claude.guard import BUILT_IN
from parley.settings import load
from tests.cli.home import BUSY, Home
from tools.docs import fill_roles

DOCS = Path(__file__).resolve().parents[2] / "docs"
ODD = {
    "README.md": "# Our agents\n\nSome notes.\n",
    "CHANGELOG.md": "",
    "notes.md": "no front matter\n",
    "Reviewer.md": "---\ndescription: reviews\n---\nYou review.\n",
    "other.md": "---\nname: Code Reviewer\ndescription: reviews\n---\nYou review.\n",
    "BAD.md": "---\nname: [\n---\n",
}


def agents(root: Path, files: dict[str, str]) -> Path:
    folder = root / ".claude/agents"
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return root


def gathered(root: Path) -> dict[str, RoleFile]:
    return gather(root, load.read(root))


def test_what_is_no_role_is_skipped_and_told(tmp_path: Path) -> None:
    agents(tmp_path, {**ODD, "migrator.md": "---\ndescription: migrates\n---\nYou migrate.\n"})

    assert set(gathered(tmp_path)) == {*shipped(), "migrator"}
    told = skipped(tmp_path)
    assert sorted(line.partition(" ")[0] for line in told) == sorted(f".claude/agents/{name}" for name in ODD)
    assert ".claude/agents/README.md is skipped, it is no role: there is no front matter" in "\n".join(told)
    assert "'Code Reviewer' can't be a role's name; use small letters, digits, - and _" in "\n".join(told)


def test_a_link_that_leads_nowhere_or_outside_stops_no_job_unless_it_is_a_roles(tmp_path: Path) -> None:
    folder = agents(tmp_path / "root", {}) / ".claude/agents"
    (folder / "README.md").symlink_to("/etc/passwd")
    (folder / "NOTES.md").symlink_to("gone")

    assert len(skipped(tmp_path / "root")) == 2
    assert set(gathered(tmp_path / "root")) == set(shipped())
    (folder / "coder.md").symlink_to("/etc/passwd")
    with pytest.raises(DocumentError, match="this leads outside"):
        gathered(tmp_path / "root")


@pytest.mark.parametrize("text", ["You code.\n", "---\nname: Coder\n---\n"])
def test_a_file_that_is_called_as_a_shipped_role_has_to_be_right(tmp_path: Path, text: str) -> None:
    with pytest.raises(DocumentError):
        gathered(agents(tmp_path, {"coder.md": text}))


def test_the_tools_that_are_given_are_those_that_are_checked() -> None:
    assert {*BUILT_IN, *BUS_TOOLS, *PROXY_TOOLS} == GIVEN
    assert [not_given(role.tools) for role in shipped().values()] == [()] * len(shipped())


def test_tools_that_are_not_given_are_named(tmp_path: Path) -> None:
    tools = "Read, Bash(git log:*), WebFetch, Task, mcp__github__search"
    agents(tmp_path, {"scout.md": f"---\ntools: {tools}\n---\nYou look.\n"})
    (tmp_path / "parley.toml").write_text('[roles.tester]\ntools = ["Read", "WebSearch"]\n', encoding="utf-8")

    assert lacking_tools(tmp_path, gathered(tmp_path)) == [
        ".claude/agents/scout.md: Parley does not give WebFetch, Task, mcp__github__search; scout works without",
        "package + parley.toml: Parley does not give WebSearch; tester works without",
    ]


def test_a_job_starts_beside_them_and_says_so_once(tmp_path: Path) -> None:
    home = Home(tmp_path)
    agents(home.folder, {"README.md": "# Notes\n", "scout.md": "---\ntools: Read, WebFetch\n---\nYou look.\n"})

    done = home.run("run", "x", "--detach", "--playbook", home.write("b.yaml", BUSY))
    listed = home.run("roles")

    assert done.code == 0
    assert done.err.count("README.md is skipped") == 1
    assert done.err.count("Parley does not give WebFetch; scout works without") == 1
    assert listed.err.count("README.md is skipped") == 1
    assert "Read, WebFetch (not given), Send" in listed.out
    document = home.run("roles", "--json").document
    assert next(role for role in document["roles"] if role["name"] == "scout")["not_given"] == ["WebFetch"]
    assert len(document["skipped"]) == 1
    home.run("withdraw", done.out.strip())


# ---- teams ---------------------------------------------------------------------------------------


def test_a_team_is_extended_or_replaced(tmp_path: Path) -> None:
    team = shipped()["project-lead"].team
    agents(tmp_path, {"migrator.md": "---\nteam: [+tester]\n---\n", "intent-lead.md": "---\nteam: [+migrator]\n---\n"})
    (tmp_path / "parley.toml").write_text('[roles.project-lead]\nteam = ["+migrator", "+coder"]\n', encoding="utf-8")
    found = gathered(tmp_path)

    assert found["project-lead"].team == (*team, "migrator")
    assert found["intent-lead"].team == ("researcher", "writer", "migrator")
    assert found["migrator"].team == ("tester",)


@pytest.mark.parametrize(
    "toml, said",
    [
        ('["+coder", "tester"]', r"\[roles.project-lead\] team: some names have a \+ and some have none; write \+"),
        ('["+codr"]', "has 'codr', and there is no such role to send to; did you mean 'coder'?"),
    ],
)
def test_a_team_that_is_wrong_is_refused(tmp_path: Path, toml: str, said: str) -> None:
    (tmp_path / "parley.toml").write_text(f"[roles.project-lead]\nteam = {toml}\n", encoding="utf-8")

    with pytest.raises(DocumentError, match=said):
        gathered(tmp_path)


def test_a_team_of_a_file_that_is_wrong_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match=r"lead.md:2:7: `team`: some names have a \+"):
        gathered(agents(tmp_path, {"intent-lead.md": "---\nteam: +coder, writer\n---\n"}))


def test_the_page_lists_every_role_that_ships() -> None:
    page = (DOCS / "roles.md").read_text(encoding="utf-8")

    assert fill_roles(page) == page, "run `make docs`"
    assert all(f"| `{name}` |" in page for name in shipped())
