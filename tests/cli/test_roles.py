"""`parley roles`, and that what does not need it does not pay for it."""

import subprocess
import sys

from tests.cli.home import Home


def test_roles_are_listed_with_where_they_come_from(home: Home) -> None:
    home.write(".claude/agents/dba.md", "---\nname: dba\ndescription: knows\n  databases\nteam: coder\n---\nBe one.\n")
    home.write("parley.toml", '[roles.coder]\nmodel = "haiku"\nlimits = {turn_seconds = 90}\n')

    text = home.here("roles").out
    entries = {entry["name"]: entry for entry in home.here("roles", "--json").document["roles"]}

    assert "dba  (.claude/agents/dba.md)\n  knows databases\n  team    coder\n" in text
    assert "coder  (package + parley.toml)\n" in text
    assert "  model   haiku\n" in text
    assert "  limits  turn_seconds: 90\n" in text
    assert entries["coder"]["model"] == "haiku"
    assert entries["tester"]["model"] is None
    assert entries["dba"]["from"] == ".claude/agents/dba.md"


def test_a_role_is_shown_with_all_that_it_is_told(home: Home) -> None:
    shown = home.here("roles", "rev").out

    assert shown.startswith("reviewer  (package)\n")
    assert "You change nothing. You say what is wrong before it does harm." in shown
    assert "Your folder is your git worktree" in shown
    assert home.here("roles", "intent-lead", "--json").document["prompt"].count("# Your team") == 1
    assert "there is no role 'x'" in home.refuses("roles", "x")
    assert "matches several roles" in home.refuses("roles", "re")


def test_a_job_keeps_the_roles_that_it_started_with(home: Home) -> None:
    home.write(".claude/agents/coder.md", "---\nname: coder\n---\nThe first.\n")
    job = home.start()
    home.write(".claude/agents/coder.md", "---\nname: coder\n---\nThe second.\n")
    home.run("resume", job)
    exported = home.run("export", job).out

    assert "The first." in exported
    assert "The second." not in exported


def test_listing_jobs_needs_neither_yaml_nor_the_roles(waiting: Home) -> None:
    code = "import sys; from parley.cli.main import main; main(['ls']); print(sorted(sys.modules), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=waiting.folder, env=waiting.env(), capture_output=True, text=True, check=True
    )

    assert "'parley.cli.looking.ls'" in done.stderr
    assert "'yaml'" not in done.stderr
    assert "'parley.roles'" not in done.stderr
