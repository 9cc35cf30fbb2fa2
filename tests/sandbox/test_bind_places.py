"""An agent that was here before leaves traps where something is to be sealed next time."""

import os
from pathlib import Path

import pytest

from parley.ports.turns import Bind, BoundaryError, Site
from parley.sandbox import Boundary, shared_links
from tests.sandbox.cage_harness import CageHarness, finish, run


def sealing(yard: CageHarness, *names: str) -> Site:
    """A site over which a file is sealed at some places."""
    seal = yard.root / "approved"
    seal.write_text("approved", encoding="utf-8")
    return Site(str(yard.workspace), binds=tuple(Bind(str(seal), str(yard.workspace / name)) for name in names))


@pytest.mark.parametrize("leads", ["secret", "planted", "/oldroot{root}/planted", "{root}/planted", "other", ".."])
def test_a_link_in_the_place_of_a_seal_leads_nowhere(boundary: Boundary, yard: CageHarness, leads: str) -> None:
    (yard.workspace / "PLAN.md").symlink_to(leads.format(root=yard.root))
    before = sorted(yard.root.iterdir())
    cage = yard.cage("sh", "-c", "cat PLAN.md; echo forged > PLAN.md; rm -f PLAN.md", site=sealing(yard, "PLAN.md"))
    caged = boundary.launch(cage)
    done = finish(caged)

    assert done.out == "approved"
    assert str(yard.workspace / "PLAN.md") in caged.verdict.unlinked
    assert sorted(path for path in yard.root.iterdir() if path.name != "approved") == before
    assert yard.secret.read_text("utf-8") == "outside"


def test_a_link_on_the_way_to_a_seal_is_refused(boundary: Boundary, yard: CageHarness) -> None:
    (yard.workspace / "docs").symlink_to("..")
    with pytest.raises(BoundaryError, match="docs is not a folder"):
        boundary.launch(yard.cage(site=sealing(yard, "docs/PLAN.md")))
    assert not (yard.root / "PLAN.md").exists()


def test_something_of_another_kind_is_refused(boundary: Boundary, yard: CageHarness) -> None:
    (yard.workspace / "PLAN.md").mkdir()
    with pytest.raises(BoundaryError, match=r"PLAN.md must be a file"):
        boundary.launch(yard.cage(site=sealing(yard, "PLAN.md")))


def test_places_are_made_where_there_are_none(boundary: Boundary, yard: CageHarness) -> None:
    done = run(boundary, yard.cage("cat", "a/b/PLAN.md", site=sealing(yard, "a/b/PLAN.md")))
    assert done.out == "approved"


def test_a_place_that_a_killed_owner_had_not_given_away_becomes_the_agents(
    boundary: Boundary, yard: CageHarness
) -> None:
    site = sealing(yard, "a/b/PLAN.md")
    run(boundary, yard.cage("true", site=site))
    if os.geteuid() == 0:  # as it is between the making of a folder and its giving
        for path in ("a", "a/b", "a/b/PLAN.md"):
            os.chown(yard.workspace / path, 0, 0)
    done = run(boundary, yard.cage("sh", "-c", "touch a/outcome a/b/other && echo written", site=site))

    assert done.out == "written\n"


def test_a_seal_lies_in_the_home_too(boundary: Boundary, yard: CageHarness) -> None:
    (yard.home / ".claude").symlink_to("/oldroot/tmp")
    role = yard.root / "role"
    role.mkdir()
    (role / "CLAUDE.md").write_text("be good", encoding="utf-8")
    binds = (Bind(str(role), "/home/agent/.claude"),)
    done = run(boundary, yard.cage("sh", "-c", "cat ~/.claude/CLAUDE.md; touch ~/.claude/x", binds=binds))

    assert done.out == "be good"
    assert "Read-only" in done.err


def test_a_writable_bind_in_a_bind_is_ground_as_well(boundary: Boundary, yard: CageHarness) -> None:
    private = yard.root / "private"
    private.mkdir()
    boundary.hand_over(private)
    (private / "objects").symlink_to("/oldroot/tmp")
    pack = yard.root / "pack"
    pack.mkdir()
    gitdir = yard.workspace / "gitdir"
    binds = (Bind(str(private), str(gitdir), writable=True), Bind(str(pack), f"{gitdir}/objects"))
    done = run(boundary, yard.cage("sh", "-c", "touch gitdir/x && touch gitdir/objects/y", binds=binds))

    assert "Read-only" in done.err
    assert (private / "x").exists()


def test_an_agent_that_shuts_itself_out_is_let_in_again(boundary: Boundary, yard: CageHarness) -> None:
    run(boundary, yard.cage("sh", "-c", "chmod 0 . ~"))
    assert run(boundary, yard.cage("sh", "-c", "touch x ~/y && echo in")).out == "in\n"


SHUT = (
    "chmod 0 ~/.claude",
    "chmod 0 ~/.claude ~/.claude/skills",
    "rm -r ~/.claude; ln -s /etc ~/.claude",
    "rm -r ~/.claude; echo mine > ~/.claude",
    "rm -r ~/.claude; mkfifo ~/.claude",
    "rm -r ~/.claude; mkdir -p ~/.claude/skills; echo mine > ~/.claude/skills/lead",
    "mkdir .parley; chmod 0 .parley",
    "mkdir -p .parley/children; chmod 0 .parley/children .parley",
)


@pytest.mark.parametrize("deed", SHUT)
def test_what_an_agent_made_of_the_way_to_a_bind_does_not_keep_its_next_turn_from_starting(
    boundary: Boundary, yard: CageHarness, deed: str
) -> None:
    shown = yard.root / "shown"
    shown.mkdir()
    (shown / "read").write_text("shown", encoding="utf-8")
    site = Site(str(yard.workspace), binds=(Bind(str(shown), str(yard.workspace / ".parley/children")),))
    binds = (Bind(str(shown), "/home/agent/.claude/skills/lead"),)
    (yard.home / ".claude/skills").mkdir(parents=True)
    boundary.hand_over(yard.home)
    run(boundary, yard.cage("sh", "-c", deed))

    look = "cat ~/.claude/skills/lead/read .parley/children/read; cat $(find ~ -name '.aside-*' -type f)"
    done = run(boundary, yard.cage("sh", "-c", look, site=site, binds=binds))

    assert done.out == ("shownshownmine\n" if "mine" in deed else "shownshown"), done


@pytest.mark.skipif(os.geteuid() != 0, reason="only root hands anything over")
def test_deep_folders_are_handed_over(boundary: Boundary, yard: CageHarness) -> None:
    deepest = yard.workspace / "/".join("d" * 600)
    deepest.mkdir(parents=True)

    boundary.hand_over(yard.workspace)

    assert deepest.stat().st_uid == boundary.uid


@pytest.mark.skipif(os.geteuid() != 0, reason="only root hands anything over")
def test_a_tree_without_a_bottom_is_handed_over_as_far_as_a_path_leads(boundary: Boundary, yard: CageHarness) -> None:
    program = "import os\nfor _ in range(20):\n    os.mkdir('d' * 250); os.chdir('d' * 250)\n"
    assert run(boundary, yard.python(program)).status == 0
    ours = yard.workspace / ("d" * 250) / "ours"
    ours.touch()
    boundary.hand_over(yard.workspace)

    assert ours.stat().st_uid == yard.workspace.stat().st_uid != 0


def test_handing_over_does_not_follow_a_folder_that_became_a_link(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/sub").symlink_to(tmp_path)
    if os.geteuid() == 0:
        shared_links.hand_over(str(tmp_path / "tree"), 64000)
    assert tmp_path.stat().st_uid == os.geteuid()
