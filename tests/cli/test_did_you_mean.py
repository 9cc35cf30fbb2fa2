"""A mistyped name: the one that was meant is named, wherever names are given. And numbers with their nouns."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.base.wording import advice, count, near
from tests.cli.home import BUSY, Home

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "words, meant",
    [
        (["shwo", "x"], "did you mean `parley show`? see `parley --help`"),
        (["Doctor"], "did you mean `parley doctor`?"),
        (["run", "x", "--polcy", "always"], "did you mean --policy?"),
        (["run", "x", "--playbok=b.yaml"], "did you mean --playbook?"),
        (["run", "x", "--playbook", "b.yaml", "--policy", "allways"], "did you mean 'always'?"),
        (["run", "x", "--playbook", "b.yaml", "--policy", "plann=always"], "did you mean 'plan'?"),
        (["run", "x", "--playbook", "b.yaml", "--budget", "turn=3"], "did you mean 'turns'?"),
        (["run", "x", "--agent", "cluade"], "did you mean 'claude'?"),
        (["answer", "x", "--backtrack", "intnet"], "did you mean 'intent'?"),
        (["roles", "codr"], "did you mean coder?"),
        (["workflow", "chek"], "did you mean 'check'?"),
        (["memory", "serach", "x"], "did you mean 'search'?"),
        (["tool", "Sned"], "did you mean 'Send'?"),
        (
            ["run", "fix", "the", "--json", "tests"],
            'put your words in quotes: "fix the tests"; see `parley run --help`',
        ),
        (["intervene", "x", "do", "it"], 'put your words in quotes: "do it"'),
    ],
)
def test_a_mistyped_word_is_told_what_it_may_have_meant(waiting: Home, words: list[str], meant: str) -> None:
    waiting.write("b.yaml", BUSY)

    assert meant in waiting.refuses(*words)


def test_a_mistyped_job_is_told_which_one_is_near(waiting: Home) -> None:
    job = waiting.jobs()[0]["id"]

    assert f"did you mean {job}?" in waiting.refuses("show", f"{job[:3]}_{job[4:]}")


def test_a_word_that_is_near_to_nothing_gets_the_list(waiting: Home) -> None:
    assert waiting.refuses("run", "x", "--playbook", waiting.write("b.yaml", BUSY), "--policy", "qqq").endswith(
        "use one of: never, when_unsure, always"
    )
    assert waiting.refuses("zzz") == "parley: there is no command 'zzz'; see `parley --help`"


@pytest.mark.parametrize("words", [["--repo", "/", "ls"], ["--", "ls"], ["-q", "ls"]])
def test_an_option_before_the_command_is_told_its_place(waiting: Home, words: list[str]) -> None:
    assert f"{words[0]!r} stands before the command" in waiting.refuses(*words)


@pytest.mark.parametrize(
    "toml, meant",
    [
        ("[limts]\nfan_out = 2\n", "did you mean 'limits'?"),
        ("[limits]\nfan_uot = 2\n", "did you mean 'fan_out'?"),
        ('[policy]\nplan = "nevr"\n', "did you mean 'never'?"),
        ("[roles.coder.limits]\nturn_secnds = 3\n", "did you mean 'turn_seconds'?"),
    ],
)
def test_a_mistyped_setting_is_told_what_it_may_have_meant(home: Home, toml: str, meant: str) -> None:
    home.write("parley.toml", toml)

    assert meant in home.refuses("run", "x", "--playbook", home.write("b.yaml", BUSY))


@given(st.text(), st.lists(st.text(min_size=1), max_size=30))
def test_the_advice_is_one_of_the_known_names_for_any_word(word: str, known: list[str]) -> None:
    meant = near(word, known)

    assert meant in {"", *known}
    assert len(advice(word, known)) > 0


def test_one_is_one_and_all_others_are_many() -> None:
    counted = [count(0, "turn"), count(1, "turn"), count(2, "try", "tries"), count(1.5, "day"), count(1200, "file")]

    assert counted == ["0 turns", "1 turn", "2 tries", "1.5 days", "1,200 files"]


def test_no_number_stands_before_a_fixed_plural() -> None:
    """Whatever counts says so with `count`: a sentence that is right for two is wrong for one."""
    nouns = "turns|files|steps|tries|agents|messages|rounds|decisions|jobs|rows|transactions|findings|notes|lines"
    fixed = re.compile(rf"\{{[a-z][^{{}}]*\}} (more )?({nouns})\b")
    found = [
        f"{path.name}:{number}: {line.strip()}"
        for path in (ROOT / "src/parley").rglob("*.py")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if fixed.search(line) and "more than" not in line
    ]

    assert found == []
