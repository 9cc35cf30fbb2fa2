"""Many jobs: which of them a command is about, what a listing shows of hundreds, and giving up several at once."""

import time

import pytest

from parley.bus.sqlite.sqlite_store import SqliteStore
from tests.cli.home import APPROVES, LEADS, PARLEY, Home
from tests.cli.terminal import terminal
from tests.stores.rows import job

HOUR, DAY = 3600.0, 86400.0


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """Three hundred jobs, as their rows alone: for tests that change nothing."""
    home = Home(tmp_path_factory.mktemp("crowded"))
    (home.folder / ".parley").mkdir(mode=0o700)
    now, store = time.time(), SqliteStore(home.folder / ".parley")
    for number in range(300):
        state = ("DONE", "WITHDRAWN", "FAILURE")[number % 3]
        request = f"mend the  Till {number}" if number % 10 == 0 else f"work {number}"
        store.create(job(f"f{number:03}", request=request, state=state, updated=now - number * HOUR, settings="{}"))
    for number in range(50):
        store.create(job(f"w{number:03}", needs_human=1, updated=now - number * DAY))
    store.close()
    return home


def listed(home: Home, *words: str) -> list[str]:
    done = home.here("ls", *words)
    assert done.code == 0, done
    return [line.split()[0] for line in done.out.splitlines() if line.startswith("  ")]


def test_a_long_listing_is_cut_and_says_how_to_see_the_rest(crowded: Home) -> None:
    lines = crowded.here("ls").out.splitlines()

    assert lines[0] == "needs you (parley inbox)"
    assert lines[1].split()[0] == "w000"  # the newest first
    assert lines[41] == "  … 10 more: parley ls --state needs-you"
    assert lines[43] == "finished"
    assert lines[-1] == "  … 290 more: parley ls --state finished"
    assert len(lines) == 2 + 40 + 2 + 10 + 1
    assert len(listed(crowded, "--all")) == 350
    assert len(listed(crowded, "--state", "finished")) == 300


def test_jobs_are_chosen_by_state_age_words_and_ids(crowded: Home) -> None:
    assert len(listed(crowded, "--state", "done,failed")) == 200
    assert len(listed(crowded, "--state", "Needs-You")) == 50
    assert listed(crowded, "--state", "waiting") == listed(crowded, "--state", "unfinished")
    assert listed(crowded, "--state", "finished", "--newer-than", "150m") == ["f000", "f001", "f002"]
    assert listed(crowded, "--state", "finished", "--older-than", "297h") == ["f297", "f298", "f299"]
    assert listed(crowded, "--state", "done", "--grep", "the till", "--newer-than", "3d") == ["f000", "f030", "f060"]
    assert listed(crowded, "f007", "w013", "f007") == ["w013", "f007"]
    assert "matches several jobs: f100, f101" in crowded.refuses("ls", "f1", "--json")
    assert "there is no job 'nosuch'" in crowded.refuses("ls", "nosuch")
    done = crowded.here("ls", "--grep", "nothing such")
    assert (done.code, done.out) == (0, "no job matches, of 350; see them with `parley ls --all`\n")


@pytest.mark.parametrize(
    "words, said",
    [
        (["--state", "runing"], "there is no state 'runing'; use one of: needs-you, working"),
        (["--older-than", "soon"], "--older-than soon: this is no age; write one such as 30d or 12h"),
        (["--newer-than", "1h", "--older-than", "2h"], "swap the two ages"),
        (["--older-than", ""], "--older-than is empty: this is no age"),  # a script's variable that is not set
        (["--grep", " "], "--grep is empty: every job matches that; say which words, or leave it out"),
    ],
)
def test_a_filter_that_means_nothing_is_refused(crowded: Home, words: list[str], said: str) -> None:
    assert said in crowded.refuses("ls", *words)
    assert said in crowded.refuses("withdraw", "f000", *words, "--yes")


def test_several_jobs_are_withdrawn_with_one_word(home: Home) -> None:
    first, second, third = home.start(), home.start(APPROVES + LEADS), home.start()
    broken = "bad00000"
    store = SqliteStore(home.folder / ".parley")
    store.create(job(broken, request="no such thing", updated=time.time()))
    store.close()

    refused = home.refuses("withdraw", "--state", "unfinished", "--grep", "a request")
    assert f"this would withdraw 2 jobs: {first}, {third}; say so with --yes" in refused
    assert "give one JOB" in home.refuses("withdraw", first, third, "--thread", "x", "--yes")
    assert "name a JOB, or choose some" in home.refuses("withdraw")

    done = home.run("withdraw", broken, first[:5], second, "no longer needed", "--yes", "--json")
    assert done.code == 1
    results = {result["id"]: result for result in done.document["jobs"]}
    assert [(results[name]["ok"], results[name]["state"]) for name in (first, second)] == [
        (True, "WITHDRAWN"),
        (False, "DONE"),
    ]
    assert not results[broken]["ok"]
    assert "INTENT -> WITHDRAWN (WITHDRAW): no longer needed" in home.here("log", first).out

    words = [str(PARLEY), "withdraw", "--grep", "A REQUEST", "--state", "needs-you"]
    with terminal(words, home.folder, home.env()) as screen:
        shown = screen.wait_for("withdraw it? [y/N]")
        assert third in shown
        assert first not in shown
        screen.type("y\n")
        screen.wait_for(f"{third} is withdrawn")
    assert home.here("withdraw", "--state", "needs-you", "--yes").out == (
        "nothing to withdraw: no unfinished job matches\n"
    )
