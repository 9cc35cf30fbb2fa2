"""The contract that every agent of a workflow keeps to: what it says is what the program does, and where it lies."""

import inspect
import re
import tempfile
from pathlib import Path

import pytest

from parley.cli.running.job_runners import home_binds
from parley.roles import (
    CONTRACT,
    PROTOCOLS,
    make_claude_folder,
    protocols,
    shipped,
    skill_text,
    snapshot_of,
    system_prompt,
)
from parley.sandbox import Boundary
from parley.settings.schema import BoundarySettings
from parley.workflow.execution import doer_moves, executor_messages
from parley.workflow.model.flow import EDGES
from parley.workflow.model.notes import CATEGORIES, MUST_ESCALATE, RESOLVERS
from parley.workflow.model.terms import ARCHITECT, DESIGN_VERIFIER, INTEGRATOR, SOLUTION, NoteStatus, Remedy, Status
from parley.workflow.paths.ownership import ARTIFACTS, HIDDEN
from tests.cli.home import LEADS, Home
from tests.sandbox.cage_harness import lay_out, run

TEXT = (protocols() / CONTRACT).read_text(encoding="utf-8")
HELPERS = ("instruction-writer", "file-structure-designer", "checkpoint-designer")
GROUP = (ARCHITECT, SOLUTION, DESIGN_VERIFIER, INTEGRATOR, *HELPERS)


def section(number: int) -> str:
    return re.split(r"^## \d+\. .*$", TEXT, flags=re.MULTILINE)[number]


def test_it_has_every_part_that_agents_need() -> None:
    titles = re.findall(r"^## (\d+)\. (.+)$", TEXT, re.MULTILINE)

    assert [number for number, _ in titles] == [str(number) for number in range(1, 10)]
    about = " ".join(title for _, title in titles).casefold()
    for part in (
        "turn",
        "files",
        "status",
        "notes",
        "settle yourself",
        "escalation",
        "goes wrong",
        "marks",
        "verifiers",
    ):
        assert part in about


def test_its_statuses_categories_and_fields_are_the_programs() -> None:
    assert {word for word in re.findall(r"`(\w+)`", section(3)) if word in set(Status)} == set(Status)
    assert set(re.findall(r"^\| `(\w+)`", section(4), re.MULTILINE)) == {
        "note_id", "timestamp", "description", "context", "category", "status", "resolution", "resolved_by",
        "resolution_timestamp", "escalation_reason",
    }  # fmt: skip
    assert all(f"`{word}`" in section(4) for word in (*NoteStatus, *RESOLVERS))
    escalate, settle = section(5).split("| you may resolve")
    assert {word for word in CATEGORIES if f"`{word}`" in escalate} == set(MUST_ESCALATE)
    assert {word for word in CATEGORIES if f"`{word}`" in settle} == set(CATEGORIES) - set(MUST_ESCALATE)
    assert all(remedy in section(7) for remedy in Remedy)
    assert all(f"`{name}" in section(2) for name in (*ARTIFACTS, *HIDDEN, ".git"))


def test_its_table_of_statuses_is_the_programs_and_every_mark_of_the_executors_is_explained() -> None:
    rows = [line.split("|")[1:3] for line in section(3).splitlines() if line.startswith("| `")]
    told = {
        (Status(before), Status(after))
        for here, there in rows
        for before in re.findall(r"`(\w+)`", here)
        for after in re.findall(r"`(\w+)`", there)
    }
    marks = re.findall(
        r"\[([A-Z]+(?: [a-z]+)?)\]", inspect.getsource(executor_messages) + inspect.getsource(doer_moves)
    )

    assert told == {(before, after) for before, listed in EDGES.items() for after in listed}
    assert {mark for mark in marks if f"`[{mark}]`" not in section(8)} <= {"INTEGRATE", "WORKFLOW", "WORKFLOW stopped"}


def test_who_works_in_a_workflow_is_told_where_it_lies_and_nobody_else_is() -> None:
    role = snapshot_of(shipped()["coder"])

    assert f"~/{PROTOCOLS}/{CONTRACT}" in system_prompt(role, tools=("Note", "Status"))
    assert PROTOCOLS not in system_prompt(role, tools=("AskQuestion",))
    assert PROTOCOLS not in system_prompt(snapshot_of(shipped()[DESIGN_VERIFIER]), tools=("Verdict",))


def test_it_is_in_every_home_and_can_only_be_read() -> None:
    boundary = Boundary(given=home_binds())
    try:
        with tempfile.TemporaryDirectory(prefix="parley-yard-") as folder:
            Path(folder).chmod(0o777)
            yard = lay_out(Path(folder), boundary)
            there = f"$HOME/{PROTOCOLS}"
            spoil = f"echo x >> {there}/{CONTRACT} || rm {there}/{CONTRACT} || touch {there}/more || echo held >&2"
            done = run(boundary, yard.cage("/bin/sh", "-c", f"cat {there}/{CONTRACT}; {spoil}"))
    finally:
        boundary.close()

    assert done.out == TEXT
    assert done.err.endswith("held\n")


def test_without_a_boundary_it_is_copied_over_whatever_is_there(tmp_path: Path) -> None:
    boundary = Boundary(BoundarySettings(accept="none"), home_binds())
    yard = lay_out(tmp_path / "yard", boundary)
    there = yard.home / PROTOCOLS
    there.mkdir(parents=True)
    (tmp_path / "outside").write_text("kept")
    (there / CONTRACT).symlink_to(tmp_path / "outside")

    done = run(boundary, yard.cage("/bin/sh", "-c", f"cat $HOME/{PROTOCOLS}/{CONTRACT}"))

    assert done.out == TEXT
    assert (tmp_path / "outside").read_text() == "kept"


# ---- roles and the lead's skill ------------------------------------------------------------------


def test_the_architecture_group_and_the_integrator_ship() -> None:
    found = shipped()

    assert set(GROUP) <= set(found)
    assert all(found[name].description and not found[name].team for name in GROUP)
    assert "Edit" not in found[DESIGN_VERIFIER].tools


@pytest.mark.parametrize("name", GROUP)
def test_each_of_them_is_dressed_read_only(tmp_path: Path, name: str) -> None:
    folder = make_claude_folder(tmp_path / "claude", snapshot_of(shipped()[name]))

    assert (folder / "agents" / f"{name}.md").is_file()
    assert not any(path.stat().st_mode & 0o222 for path in (folder, *folder.rglob("*")))


def test_the_lead_engineers_skill_says_when_it_fires_and_can_be_read_in_every_home() -> None:
    skill = skill_text("persona-lead-engineer")
    matter = skill.split("---\n", 2)[1]
    role = snapshot_of(shipped()["project-lead"])
    places = [bind.target for bind in home_binds()]

    assert re.search(r"^name: persona-lead-engineer$", matter, re.MULTILINE)
    for phrase in ("ALWAYS", "several source documents", "decompose", "delegate", "merge parallel branches"):
        assert phrase in matter
    for state in ("planning", "execute"):
        assert "# The lead engineer" in system_prompt(role, (state, "persona-lead-engineer"))
        assert "# The lead engineer" not in system_prompt(role, (state,))
    (named,) = re.findall(r"~/(\S+)/SKILL\.md", system_prompt(role, ("planning",)))
    assert f"/home/agent/{named}" in places
    (page,) = re.findall(r"~/(\S+)/workflow-planning\.md", system_prompt(role, ("planning",)))
    assert f"/home/agent/{page}" in places


def test_the_skill_is_called_up_by_the_request_alone_and_nothing_of_it_is_in_the_work(tmp_path: Path) -> None:
    """The lead's playbook acts only if the protocol has told it to take the skill up: otherwise nothing is asked."""
    home = Home(tmp_path)
    called = LEADS.replace(r"'\[PLAN\]'", r"'\[PLAN\][\s\S]*persona-lead-engineer[\s\S]*a\.md, b\.md'")
    home.write("play.yaml", "human: [{match: INTENT, verdict: approve, text: 'yes'}]\n" + called)

    done = home.run("run", "Build what a.md and b.md describe", "--playbook", "play.yaml")

    assert done.code == 4, done.out + done.err
    (job,) = home.jobs()
    assert job["state"] == "PLAN"
    work = home.job_file(job["id"], "work")
    there = {path.relative_to(work).as_posix() for path in work.rglob("*") if ".git" not in path.parts}
    assert {"INTENT.md", "PLAN.md"} <= there
    assert not [path for path in there if re.search(r"\.claude|persona|protocols", path)]
