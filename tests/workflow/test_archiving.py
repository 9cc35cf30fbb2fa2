"""Sessions are put away so that a crash at any step loses nothing, and brought back so that nothing live is lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from parley.ports.workspaces import WorkspaceError
from parley.workflow.files.archive import INDEX, LOG, archive_of, digest, found_of, read_index, read_log
from parley.workflow.files.session import render_session
from parley.workflow.host.archiving import Archival, NotRestored, Tree, archive, restore
from parley.workflow.model.terms import Note, NoteStatus, Session, instructions_of, session_of
from tests.workspaces.user_repository import JOB, ROOT, UserRepository, repository

START = 1727539822
NOTE = Note(
    note_id="note_001",
    timestamp=START,
    description="emails are unique",
    context="the table",
    status=NoteStatus.RESOLVED,
    resolution="yes",
    resolved_by="user",
    resolution_timestamp=START + 5,
)
SESSIONS = {
    "database_agent": Session("create_user_table_1727539200", START, (NOTE,)),
    "api_agent": Session("user_api_1727539284", START + 60),
}
CURRENT = {session_of(agent): render_session(session) for agent, session in SESSIONS.items()}
PLACES = {agent: archive_of(agent, "users", session.session_start) for agent, session in SESSIONS.items()}


class Crash(BaseException):
    """The process is gone."""


@dataclass
class Disk:
    """A shelf that outlives a crash: after so many single changes, nothing of a write happens any more."""

    files: dict[str, str] = field(default_factory=lambda: dict(CURRENT))
    left: int = 10**9
    broken: str = ""  # a write of this path fails
    changes: int = 0
    history: list[dict[str, str]] = field(default_factory=list)

    def read(self, path: str) -> str | None:
        return self.files.get(path)

    def write(self, files: Mapping[str, str | None]) -> None:
        for path, text in files.items():
            if self.left == 0:
                raise Crash
            if path == self.broken:
                raise WorkspaceError(f"no space for {path}")
            self.left -= 1
            self.changes += 1
            self.files.pop(path, None)
            if text is not None:
                self.files[path] = text
            self.history.append(dict(self.files))

    def listing(self, folder: str) -> tuple[str, ...]:
        return tuple(sorted(path for path in self.files if path.startswith(f"{folder}/")))

    def actions(self) -> list[tuple[str, str]]:
        """Who and what, as the log has it."""
        entries, _ = read_log(self.files[LOG])
        return [(entry.agent, entry.action) for entry in entries or ()]


def put_away(disk: Disk, now: int = 2_000_000_000) -> Archival:
    """Archive the two sessions."""
    return archive(disk, "users", SESSIONS, now)


def test_a_complete_session_is_copied_indexed_logged_and_then_removed() -> None:
    disk = Disk()
    result = put_away(disk)
    assert result.failed == ()
    assert sorted(disk.files) == sorted([*PLACES.values(), INDEX, LOG, instructions_of("archival_agent")])
    for agent, path in PLACES.items():
        assert disk.files[path] == CURRENT[session_of(agent)]
    listed, _ = read_index(disk.files[INDEX])
    assert listed == tuple(sorted(result.done, key=lambda entry: entry.file))
    assert {(entry.agent, entry.notes, entry.sha256) for entry in result.done} == {
        (agent, len(session.notes), digest(CURRENT[session_of(agent)])) for agent, session in SESSIONS.items()
    }
    assert disk.actions() == [
        ("database_agent", "archived"),
        ("api_agent", "archived"),
        ("database_agent", "removed"),
        ("api_agent", "removed"),
    ]


def test_nothing_is_removed_before_its_copy_is_there_and_indexed() -> None:
    disk = Disk()
    put_away(disk)
    for files in disk.history:
        for agent, path in PLACES.items():
            if session_of(agent) not in files:
                assert files[path] == CURRENT[session_of(agent)]
                assert path in files[INDEX]


def test_doing_it_again_changes_nothing() -> None:
    disk = Disk()
    first = put_away(disk)
    files, changes = dict(disk.files), disk.changes
    assert put_away(disk, 2_000_000_999) == first
    assert (disk.files, disk.changes) == (files, changes)


STEPS = 8  # the changes that the whole takes


def test_the_number_of_steps_is_that_of_the_whole() -> None:
    disk = Disk()
    put_away(disk)
    assert disk.changes == STEPS


@pytest.mark.parametrize("step", range(STEPS))
@pytest.mark.parametrize("again", range(4))
def test_a_crash_at_any_step_and_another_one_later_lose_nothing_and_end_the_same(step: int, again: int) -> None:
    whole, disk = Disk(), Disk(left=step)
    put_away(whole)
    with pytest.raises(Crash):
        put_away(disk)
    for left in (again, 10**9):
        disk.left = left
        for path, text in CURRENT.items():
            assert text in disk.files.values(), path
        try:
            put_away(disk)
        except Crash:
            continue
    assert disk.files == whole.files


@pytest.mark.parametrize("broken", [*PLACES.values(), INDEX, LOG, *CURRENT])
def test_what_fails_removes_nothing_that_is_not_safe_is_logged_and_done_when_tried_again(broken: str) -> None:
    disk = Disk(broken=broken)
    result = put_away(disk)
    assert {why for _, why in result.failed} == {f"no space for {broken}"}
    assert {agent for agent, _ in result.failed} | {entry.agent for entry in result.done} == set(SESSIONS)
    for text in CURRENT.values():
        assert text in disk.files.values()
    put_away(disk)
    if broken != LOG:
        assert disk.actions().count(("api_agent", "failed")) == 1, "the same failure is told once"
    disk.broken = ""
    again = put_away(disk)
    assert again.failed == ()
    assert [path for path in CURRENT if path in disk.files] == []


def test_a_copy_that_does_not_hold_what_was_written_is_no_copy() -> None:
    class Forgetful(Disk):
        def write(self, files: Mapping[str, str | None]) -> None:
            super().write(
                {path: text and text[:-1] if path in PLACES.values() else text for path, text in files.items()}
            )

    disk = Forgetful()
    result = put_away(disk)
    assert sorted(agent for agent, _ in result.failed) == sorted(SESSIONS)
    assert CURRENT.items() <= disk.files.items()


def test_another_session_of_the_same_second_gets_a_name_of_its_own() -> None:
    disk = Disk()
    taken = PLACES["api_agent"]
    disk.files[taken] = render_session(Session("other_1727539284", START + 60))
    before = disk.files[taken]
    (_, api) = put_away(disk).done
    assert api.file == taken.replace(".json", "_2.json")
    assert disk.files[taken] == before


@pytest.mark.parametrize("found", ["scribbled", render_session(Session("user_api_1727539284", START + 60, (NOTE,)))])
def test_a_file_that_differs_from_the_bus_is_kept_too(found: str) -> None:
    disk = Disk()
    disk.files[session_of("api_agent")] = found
    (_, api) = put_away(disk).done
    assert disk.files[api.file] == CURRENT[session_of("api_agent")]
    kept = [path for path, text in disk.files.items() if text == found]
    assert kept == [found_of("api_agent", found)]
    assert kept[0] in disk.files[LOG]
    assert session_of("api_agent") not in disk.files
    files = dict(disk.files)
    put_away(disk)
    assert disk.files == files


def test_an_index_that_can_not_be_read_is_made_anew_from_the_archives() -> None:
    disk = Disk()
    put_away(disk)
    good, _ = read_index(disk.files[INDEX])
    disk.files[INDEX] = "{" * 1000
    disk.files[LOG] = "null"
    assert put_away(disk).failed == ()
    found, _ = read_index(disk.files[INDEX])
    assert [entry.file for entry in found or ()] == [entry.file for entry in good or ()]
    assert ("archival_agent", "rebuilt") in disk.actions()


# ---- bringing back -------------------------------------------------------------------------------


def test_an_archive_comes_back_as_it_was() -> None:
    disk = Disk()
    put_away(disk)
    assert restore(disk, "api_agent", "session_2024", 3) == PLACES["api_agent"]
    assert disk.files[session_of("api_agent")] == CURRENT[session_of("api_agent")]
    assert disk.actions()[-1] == ("api_agent", "restored")
    changes = disk.changes
    restore(disk, "api_agent", PLACES["api_agent"].rsplit("/", 1)[1], 4)
    assert disk.changes == changes, "it is there already"


def test_what_was_restored_can_be_put_away_again() -> None:
    disk = Disk()
    put_away(disk)
    restore(disk, "api_agent", "session_2024", 3)
    assert put_away(disk).failed == ()
    assert session_of("api_agent") not in disk.files
    assert disk.actions()[-3:] == [("api_agent", "restored"), ("api_agent", "archived"), ("api_agent", "removed")]


def test_a_live_session_is_never_overwritten_unasked_and_archived_before_it_is() -> None:
    disk = Disk()
    put_away(disk)
    live = render_session(Session("user_api_1727539284", START + 999))
    disk.files[session_of("api_agent")] = live
    with pytest.raises(NotRestored, match="is a live session; give --replace"):
        restore(disk, "api_agent", "session_2024", 3)
    assert disk.files[session_of("api_agent")] == live
    restore(disk, "api_agent", "session_2024", 3, replacing=True)
    kept = archive_of("api_agent", "users", START + 999)
    assert disk.files[kept] == live
    assert kept in disk.files[INDEX]
    assert disk.files[session_of("api_agent")] == CURRENT[session_of("api_agent")]


@pytest.mark.parametrize("step", range(5))
def test_a_crash_while_a_live_session_is_replaced_loses_neither(step: int) -> None:
    disk = Disk()
    put_away(disk)
    live = render_session(Session("user_api_1727539284", START + 999))
    disk.files[session_of("api_agent")] = live
    disk.left = step
    with pytest.raises(Crash):
        restore(disk, "api_agent", "session_20240928_1611", 3, replacing=True)
    assert live in disk.files.values()
    disk.left = 10**9
    restore(disk, "api_agent", "session_20240928_1611", 4, replacing=True)
    assert live in disk.files.values()
    assert disk.files[session_of("api_agent")] == CURRENT[session_of("api_agent")]


@pytest.mark.parametrize(
    "agent,wanted,said",
    [
        (
            "api_agent",
            "session_1999",
            "'api_agent' has no archive named 'session_1999'; name one of those in .*: session_2024",
        ),
        ("nobody", "session_2024", "'nobody' has no archive named 'session_2024'; .*: none"),
        ("../../etc", "passwd", "has no archive"),
        ("api_agent", "", "has no archive"),
        ("api_agent", "../../../database_agent/completion_drive/session_2024", "has no archive"),
    ],
)
def test_what_is_not_there_is_refused_with_what_is(agent: str, wanted: str, said: str) -> None:
    disk = Disk()
    put_away(disk)
    with pytest.raises(NotRestored, match=said):
        restore(disk, agent, wanted, 3)


def test_a_name_that_fits_several_archives_is_refused() -> None:
    disk = Disk()
    put_away(disk)
    disk.files[archive_of("api_agent", "users", START + 61)] = CURRENT[session_of("api_agent")]
    with pytest.raises(NotRestored, match="several archives named 'session_'"):
        restore(disk, "api_agent", "session_", 3)


def test_a_changed_archive_does_not_come_back() -> None:
    disk = Disk()
    put_away(disk)
    disk.files[PLACES["database_agent"]] = CURRENT[session_of("database_agent")].replace("unique", "shared")
    with pytest.raises(NotRestored, match="another digest"):
        restore(disk, "database_agent", "session_2024", 3)


# ---- in a real tree ------------------------------------------------------------------------------


def test_sessions_are_put_away_and_brought_back_in_a_worktree(tmp_path_factory: pytest.TempPathFactory) -> None:
    place: UserRepository = repository(tmp_path_factory.mktemp("archive") / "user")
    place.prepare()
    tree = Tree(place.trees, JOB, ROOT)
    tree.write(CURRENT)
    assert archive(tree, "users", SESSIONS, 2_000_000_000).failed == ()
    committed = place.committed()
    assert {PLACES["api_agent"], PLACES["database_agent"], INDEX, LOG} <= set(committed)
    assert session_of("api_agent") not in committed
    restore(tree, "api_agent", "session_2024", 2_000_000_001)
    assert place.committed()[session_of("api_agent")].decode() == CURRENT[session_of("api_agent")]


def test_sessions_that_went_before_are_archived_too_and_whatever_fails_on_the_way_is_done_later() -> None:
    before = ("api_agent", Session("user_api_1727539100", START, (NOTE,)))
    place = archive_of("api_agent", "users", START)
    disk = Disk(broken=place)
    assert {agent for agent, _ in archive(disk, "users", SESSIONS, 2_000_000_000, [before]).failed} == set(SESSIONS)
    assert set(CURRENT) <= set(disk.files)

    disk.broken = ""
    for _ in range(2):
        assert not archive(disk, "users", SESSIONS, 2_000_000_000, [before]).failed

    entries, _ = read_index(disk.files[INDEX])
    assert {entry.file for entry in entries or ()} == {place, *PLACES.values()}
    assert disk.files[place] == render_session(before[1])
    assert not set(CURRENT) & set(disk.files)
