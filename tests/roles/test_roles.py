"""Where roles come from, which goes before which, and what an instance gets of them."""

import json
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from parley.assembly import roles
from parley.base.documents.node import DocumentError
from parley.base.json_codec import Unreadable, encode
from parley.bus.rows import JobRow
from parley.engine.values import job_settings
from parley.engine.values.job_roles import charter_of, offered, time_limit
from parley.engine.values.job_settings import JobSettings
from parley.protocol.molecules import PROXY
from parley.protocol.states import Action, State
from parley.protocol.transitions import make_initial_state, transition
from parley.roles import (
    RoleFile,
    gather,
    make_claude_folder,
    parse,
    shipped,
    skill_text,
    snapshot_of,
    system_prompt,
)
from parley.roles.phases import PHASES, phase_of
from parley.roles.role_snapshot import TOOLS
from parley.roles.skill_anatomy import SKILLS
from parley.settings import load
from parley.workflow.host.role_traits import TRAITS
from parley.workflow.model.terms import EXECUTOR, GROUP

DOERS = ("coder", "tester", "researcher", "writer", "reviewer")
PATH = "/usr/bin:/bin"


def write(root: Path, name: str, text: str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def gathered(root: Path, *also: str) -> dict[str, RoleFile]:
    return gather(root, load.read(root), also)


# ---- what ships ----------------------------------------------------------------------------------


def test_a_record_has_the_phase_of_its_state_or_of_the_one_it_ended_in() -> None:
    record = transition(make_initial_state("j"), Action.APPROVED_INTENT)

    assert phase_of(record) == PHASES[State.PLAN].name == "planning"
    assert phase_of(transition(record, Action.WITHDRAW)) == "planning"
    assert [phase.lead for phase in PHASES.values()] == ["intent-lead", "project-lead", "project-lead"]


def test_the_leads_a_team_and_the_proxy_ship() -> None:
    found = shipped()

    assert set(found) >= {*(phase.lead for phase in PHASES.values()), *DOERS, PROXY, EXECUTOR, GROUP}
    assert found["intent-lead"].team == ("researcher", "writer")
    assert set(found["project-lead"].team) == {*DOERS, EXECUTOR, GROUP}
    assert [found[name].team for name in DOERS] == [()] * len(DOERS)
    assert {"Edit", "Write"}.isdisjoint(found["reviewer"].tools)
    assert "Edit" not in found["researcher"].tools
    for name, role in found.items():
        assert role.description
        assert set(("Answer", "AskHuman", "Predict") if name == PROXY else TOOLS) <= set(role.tools)


# ---- what an instance is told ----------------------------------------------------------------------


def told(name: str, skills: tuple[str, ...] = (), tools: tuple[str, ...] | None = None) -> str:
    """The system prompt of an instance, as a job has it."""
    entry = {entry.name: entry for entry in roles({n: snapshot_of(r) for n, r in shipped().items()}, {})}[name]
    given = offered(TRAITS[name].tools if name in TRAITS else TOOLS, entry.team) if tools is None else tools
    return system_prompt(entry, skills, given, path=PATH, seconds=1800)


LEADS = [(phase.lead, SKILLS[state]) for state, phase in PHASES.items()]
CASES = [
    *(
        (name, (), offered(TRAITS[name].tools if name in TRAITS else TOOLS, role.team))
        for name, role in shipped().items()
        if name != PROXY and not (name in TRAITS and TRAITS[name].code)
    ),
    (PROXY, (), ("Answer", "AskHuman", "Predict")),
    *((lead, (skill,), TOOLS) for lead, skill in LEADS),
    *((name, (), ("Note", "Status")) for name in (*DOERS, "solution-architect")),
    *((name, (), ("Note", "Verdict")) for name in DOERS),
]
KNOWN = {*TOOLS, "Note", "Status", "Verdict", "Resolve", "Answer", "AskHuman", "Predict"}


@pytest.mark.parametrize("name, skills, tools", CASES)
def test_a_prompt_names_no_tool_that_the_instance_has_not(
    name: str, skills: tuple[str, ...], tools: tuple[str, ...]
) -> None:
    text = told(name, skills, tools)

    named = {tool for tool in KNOWN if re.search(rf"`{tool}\b|\b{tool}`", text)}
    assert named <= set(tools), named - set(tools)
    assert ("Go by INTENT.md" in text) == ("AskQuestion" in tools and not skills)
    assert ("orchestration_agent_contract.md" in text) == ("Note" in tools)


def test_the_environment_is_said_once_and_in_every_prompt() -> None:
    for name, skills, tools in CASES:
        text = told(name, skills, tools)
        assert text.count("No network.") == 1
        assert text.count("30 minutes a turn") == 1
        assert text.count("200,000 tokens of context") == 1
        assert re.search(r"Installed: [^.]*Python \d[\d.]*", text)
        assert ("build in /tmp." if name == PROXY else "Build in your folder or /tmp only.") in text


def test_without_a_team_no_conversation_is_offered() -> None:
    assert offered(TOOLS, ()) == ("AskQuestion",)
    assert offered(TOOLS, ("coder",)) == TOOLS
    assert offered((*TOOLS, "Resolve"), ()) == (*TOOLS, "Resolve")


def test_a_leads_prompt_names_its_skill_and_lists_its_team() -> None:
    for lead, skill in LEADS:
        text = told(lead, (skill,))
        assert f"`{skill}`" in text
        assert f"- researcher: {shipped()['researcher'].description}" in text
        assert text.endswith(skill_text(skill).strip()[-200:])
        assert "---\nname:" not in text


def test_a_skill_that_is_called_for_stands_before_the_states_own() -> None:
    plain, called = told("project-lead", ("planning",)), told("project-lead", ("planning", "persona-lead-engineer"))

    assert "# The lead engineer" not in plain
    assert 0 < called.index("# The lead engineer") < called.index("# Planning")


# ---- the user's own ------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["link", "folder", "absolute", "above", "endless"])
def test_a_repository_names_no_file_of_its_readers_as_a_prompt(tmp_path: Path, how: str) -> None:
    root, secret = tmp_path / "clone", tmp_path / "secret.md"
    write(tmp_path, secret.name, "---\nname: coder\n---\nthe reader's own secret")
    write(root, "README.md", "hello")
    agents = root / ".claude" / "agents"
    if how == "folder":
        agents.parent.mkdir()
        agents.symlink_to(tmp_path)
    elif how in ("link", "endless"):
        agents.mkdir(parents=True)
        (agents / "coder.md").symlink_to("/dev/zero" if how == "endless" else secret)
    else:
        named = secret if how == "absolute" else f"../{secret.name}"
        write(root, "parley.toml", f'[roles.coder]\nprompt = "{named}"\n')

    with pytest.raises(DocumentError, match=r"leads outside .*; put a copy there instead"):
        gathered(root)


def test_a_link_to_another_file_of_the_folder_is_as_good_as_that_file(tmp_path: Path) -> None:
    write(tmp_path, "prompts/coder.md", "---\nname: coder\n---\nYou code Rust.\n")
    agents = tmp_path / ".claude" / "agents"
    agents.mkdir(parents=True)
    (agents / "coder.md").symlink_to("../../prompts/coder.md")

    assert gathered(tmp_path)["coder"].prompt == "You code Rust."


def test_what_is_no_file_is_no_role(tmp_path: Path) -> None:
    agents = tmp_path / ".claude" / "agents"
    agents.mkdir(parents=True)
    os.mkfifo(agents / "x.md")

    with pytest.raises(DocumentError, match="this is no ordinary file; remove it"):
        gathered(tmp_path)


def test_a_users_file_goes_before_the_package_and_settings_before_both(tmp_path: Path) -> None:
    write(tmp_path, ".claude/agents/coder.md", "---\nname: coder\nmodel: opus\ncolor: red\n---\nYou code Rust.\n")
    write(tmp_path, "prompts/tests.md", "You test everything.\n")
    write(
        tmp_path,
        "parley.toml",
        '[roles.coder]\nmodel = "haiku"\nrunner = "codex"\nlimits = {turn_seconds = 60}\n'
        '[roles.tester]\nprompt = "prompts/tests.md"\ntools = ["Read"]\nteam = ["coder"]\n',
    )

    found = gathered(tmp_path)

    coder, tester = found["coder"], found["tester"]
    assert (coder.prompt, coder.model, coder.runner, coder.limits) == (
        "You code Rust.", "haiku", "codex", {"turn_seconds": 60.0},
    )  # fmt: skip
    assert coder.description == shipped()["coder"].description
    assert coder.origin == f"{tmp_path}/.claude/agents/coder.md + parley.toml"
    assert (tester.prompt, tester.tools, tester.team) == ("You test everything.", ("Read", *TOOLS), ("coder",))
    assert found["writer"] == shipped()["writer"]


def test_a_users_file_keeps_what_it_does_not_say_of_a_shipped_role(tmp_path: Path) -> None:
    write(tmp_path, ".claude/agents/project-lead.md", "---\ndescription: leads\n---\nLead well.\n")
    assert gathered(tmp_path)["project-lead"].team == shipped()["project-lead"].team

    write(tmp_path, ".claude/agents/project-lead.md", "---\nteam: []\n---\nLead alone.\n")
    assert gathered(tmp_path)["project-lead"].team == ()


def test_an_agent_file_of_claude_code_is_read_as_it_is(tmp_path: Path) -> None:
    text = (
        "---\nname: db-expert\n"
        "description: Use this when: a query is slow. Examples: <example>user: \"why?\" - answer: 'look'</example>\n"
        "tools: Read, Grep, Bash\nmodel: inherit\ncolor: blue\npermissionMode: plan\n---\n\nYou know databases.\n"
    )
    write(tmp_path, ".claude/agents/db-expert.md", text)

    role = gathered(tmp_path)["db-expert"]

    assert role.tools == ("Read", "Grep", "Bash", *TOOLS)
    assert role.description.startswith("Use this when: a query is slow. Examples:")
    assert (role.model, role.team, role.prompt) == ("", (), "You know databases.")


@pytest.mark.parametrize(
    "text, line, problem",
    [
        ("---\nteam: coder, ghost\n---\n", 2, "the team of 'x' has 'ghost', and there is no such role to send to"),
        ("---\nteam: [proxy]\n---\n", 2, "'proxy', and there is no such role to send to"),
        ("---\nname: x\nmodel: [a]\n---\n", 3, "`model` must be one name"),
        ("---\nname: x\nrunner: two words\n---\n", 3, "`runner` must be one name"),
        ("---\nlimits: 5\n---\n", 2, "`limits` must be a mapping"),
        ("---\nlimits: {turns: 5}\n---\n", 2, "unknown key 'turns' in `limits`"),
        ("---\nlimits: {turn_seconds: 0}\n---\n", 2, "`turn_seconds` must be a number of seconds"),
        ("---\nlimits: {turn_seconds: true}\n---\n", 2, "`turn_seconds` must be a number of seconds"),
        ("---\nname: human\n---\n", 2, "'human' is the protocol's own name"),
        ("---\ntools: {a: b}\n---\n", 2, "`tools` must be names"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_with_its_line(tmp_path: Path, text: str, line: int, problem: str) -> None:
    path = write(tmp_path, ".claude/agents/x.md", text)

    with pytest.raises(DocumentError) as error:
        gathered(tmp_path)

    assert str(error.value).startswith(f"{path}:{line}:")
    assert problem in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text, problem",
    [
        ('[roles.coder]\nteam = ["ghost"]\n', "[roles.coder] team: the team of 'coder' has 'ghost'"),
        ('[roles.coder]\nprompt = "nowhere.md"\n', "nowhere.md:1:1: No such file"),
        ("[roles.'A b']\nteam = []\n", "'A b' can't be a role's name"),
        ("[roles]\ncoder = 5\n", "[roles.coder]: it must be a table"),
        ("[roles.coder]\ncolour = 5\n", "[roles.coder] colour: there is no such setting"),
        ("[roles.coder]\nmodel = 5\n", "[roles.coder] model: it must be a text"),
        ("[roles.coder]\ntools = [5]\n", "[roles.coder] tools: it must be a list of names"),
        ("[roles.coder.limits]\nturns = 5\n", "[roles.coder] limits turns: there is no such setting"),
        ("[roles.coder.limits]\nturn_seconds = -1\n", "[roles.coder] limits turn_seconds: it must be a number"),
    ],
)
def test_what_is_wrong_with_the_settings_is_told(tmp_path: Path, text: str, problem: str) -> None:
    write(tmp_path, "parley.toml", text)

    with pytest.raises((DocumentError, DocumentError)) as error:
        gathered(tmp_path)

    assert problem in str(error.value)
    assert "\n" not in str(error.value)


def test_a_team_may_name_an_agent_that_only_the_playbook_knows(tmp_path: Path) -> None:
    write(tmp_path, "parley.toml", '[roles.coder]\nteam = ["helper"]\n')

    assert gathered(tmp_path, "helper")["coder"].team == ("helper",)


@given(st.text(max_size=300))
def test_any_text_is_a_role_or_one_clear_line(text: str) -> None:
    for given_ in (text, f"---\n{text}\n---\nbody"):
        said = _said(given_)
        assert re.fullmatch(r"x\.md:\d+:\d+: [^\n]+|\{.+\}", said), said


def _said(text: str) -> str:
    """The role as JSON, or the error."""
    try:
        return encode(snapshot_of(parse(text, Path("x.md"))))
    except DocumentError as error:
        return str(error)


# ---- the job's snapshot --------------------------------------------------------------------------


def snapshot(tmp_path: Path) -> JobRow:
    defined = {name: snapshot_of(role) for name, role in gathered(tmp_path).items()}
    sends = {"coder": frozenset({"helper"}), "helper": frozenset[str]()}
    settings = {"roles": roles(defined, sends), "policies": ["always"] * 3, "time_limit_seconds": 100}
    return JobRow(
        job="j",
        request="do it",
        decider="ada",
        created=0.0,
        updated=0.0,
        agent="scripted",
        settings=encode(settings),
    )


def test_the_snapshot_has_every_role_with_all_that_a_runner_needs(tmp_path: Path) -> None:
    write(tmp_path, "parley.toml", "[roles.tester.limits]\nturn_seconds = 7\n")
    row = snapshot(tmp_path)
    settings = job_settings.read(row, JobSettings)

    for entry in json.loads(row.settings)["roles"]:
        keys = {"name", "team", "tools", "description", "prompt", "model", "runner", "limits", "members", "messages"}
        assert keys == set(entry) - {"traits", "bus"}
    known = {role.name: role for role in settings.roles}
    assert known["coder"].prompt == shipped()["coder"].prompt
    assert known["coder"].team == ("helper",)
    assert known["helper"].prompt == ""
    assert (time_limit(settings, known["tester"]), time_limit(settings, known["coder"])) == (7, 100)
    assert time_limit(JobSettings(roles=(), policies=settings.policies), known["coder"]) == 1800


@pytest.mark.parametrize(
    "key, value, told",
    [
        ("roles", [{"team": []}], "Object missing required field `name` - at `$.roles[0]`"),
        ("policies", ["always"], "Expected `array` of length 3 - at `$.policies`"),
        ("fan_out", "many", "Expected `int`, got `str` - at `$.fan_out`"),
    ],
)
def test_settings_of_an_unknown_shape_are_refused_in_one_line(
    tmp_path: Path, key: str, value: object, told: str
) -> None:
    row = snapshot(tmp_path)
    odd = replace(row, settings=encode({**json.loads(row.settings), key: value}))

    with pytest.raises(Unreadable) as refused:
        charter_of(odd)
    assert str(refused.value) == f"the settings of job j: {told}"


def test_the_charter_has_the_proxy_once_with_its_own_tools(tmp_path: Path) -> None:
    charter = charter_of(snapshot(tmp_path))

    assert [role.tools for role in charter.roles if role.name == PROXY] == [("Answer", "AskHuman", "Predict")]
    assert all(role.tools == TOOLS for role in charter.roles if role.name in DOERS)


# ---- the instance's folder -----------------------------------------------------------------------


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_folder_holds_the_role_and_its_skills_and_can_only_be_read(tmp_path: Path) -> None:
    role = snapshot_of(shipped()["project-lead"])
    one, two = (
        make_claude_folder(tmp_path / name / "claude", role, ["planning", "execute"]) for name in ("one", "two")
    )

    assert bytes_of(one) == bytes_of(two)
    assert set(bytes_of(one)) == {
        ".claude-plugin/plugin.json", "agents/project-lead.md", "skills/planning/SKILL.md", "skills/execute/SKILL.md",
        "skills/persona-lead-engineer/SKILL.md", "skills/workflow-execution/SKILL.md",
    }  # fmt: skip
    assert json.loads((one / ".claude-plugin/plugin.json").read_text())["name"] == "parley"
    for path in (one, *one.rglob("*")):
        assert not path.stat().st_mode & 0o222, path
    again = parse((one / "agents/project-lead.md").read_text(), Path("project-lead.md"))
    assert (again.name, again.description, list(again.tools)) == (role.name, role.description, list(role.tools))


def test_a_folder_that_was_meddled_with_is_made_anew(tmp_path: Path) -> None:
    role, outside = snapshot_of(shipped()["coder"]), tmp_path / "outside"
    folder = make_claude_folder(tmp_path / "claude", role)
    good, number = bytes_of(folder), folder.stat().st_ino
    assert make_claude_folder(folder, role).stat().st_ino == number
    outside.mkdir()
    (outside / "kept").write_text("kept")

    folder.chmod(0o700)
    (folder / "settings.json").write_text("{}")
    assert bytes_of(make_claude_folder(folder, role)) == good
    folder.chmod(0o700)
    (folder / "skills").symlink_to(outside)
    assert bytes_of(make_claude_folder(folder, role)) == good
    folder.rename(tmp_path / "aside")
    folder.symlink_to(outside)
    assert bytes_of(make_claude_folder(folder, role)) == good
    assert not folder.is_symlink()
    assert (outside / "kept").read_text() == "kept"
    assert set(bytes_of(make_claude_folder(folder, snapshot_of(shipped()["tester"])))) == {
        ".claude-plugin/plugin.json", "agents/tester.md",
    }  # fmt: skip


# ---- kinds of messages -----------------------------------------------------------------------------


def test_a_role_takes_the_kinds_that_it_names_and_notices(tmp_path: Path) -> None:
    write(tmp_path, ".claude/agents/judge.md", "---\nname: judge\ndescription: judges\nmessages: [task]\n---\nJudge.\n")
    write(tmp_path, "parley.toml", '[roles.tester]\nmessages = ["task", "message"]\n')
    charter = charter_of(snapshot(tmp_path))

    taken = {role.name: role.takes for role in charter.roles}
    assert taken["judge"] == ("task", "notice")
    assert taken["tester"] == ("task", "message", "notice")
    assert taken["coder"] == ("task", "message", "report", "answer", "intervention", "notice")
    assert taken["design-verifier"] == ("task", "message", "intervention", "notice")  # it neither asks nor dispatches
    assert taken["proxy"] == ("question", "reply")


@pytest.mark.parametrize(
    "name, matter, why",
    [
        ("judge", "messages: [tasks]", "`messages`: there is no kind of messages 'tasks'"),
        ("judge", "messages: [notice]", "`messages`: there is no kind of messages 'notice'"),
        ("judge", "messages: [task]\nteam: [coder]", "judge has a team, and takes no report of it"),
        ("project-lead", "messages: [task]", "project-lead leads a state, and needs message, report, answer, interv"),
        ("proxy", "messages: [task]", "the proxy takes questions and replies, and nothing else"),
    ],
)
def test_kinds_that_can_not_be_are_refused_with_their_place(tmp_path: Path, name: str, matter: str, why: str) -> None:
    write(tmp_path, f".claude/agents/{name}.md", f"---\nname: {name}\ndescription: d\n{matter}\n---\nDo it.\n")

    with pytest.raises(DocumentError) as refused:
        gather(tmp_path, load.read(tmp_path))

    assert f"{tmp_path / '.claude/agents' / name}.md:4:" in str(refused.value)
    assert why in str(refused.value)
    assert "\n" not in str(refused.value)
