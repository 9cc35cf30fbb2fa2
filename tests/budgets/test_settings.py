"""Budgets as people write them: settings, options, and every way to get them wrong."""

from pathlib import Path

import pytest

from parley.base.documents.node import DocumentError
from parley.runners.scripted.playbook import Playbook, parse
from parley.runners.scripted.scripted_agent import OrderError, PlayOrder, play, read_order
from parley.settings import load
from parley.settings.option_words import with_budget
from parley.settings.schema import BudgetSettings, Settings
from tests.cli.home import LEADS, Home


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.delenv("PARLEY_HOME", raising=False)
    return Home(tmp_path)


def read(folder: Path, text: str) -> BudgetSettings:
    (folder / "parley.toml").write_text(text, encoding="utf-8")
    return load.read(folder).budget


def test_budgets_are_read(tmp_path: Path) -> None:
    job = '[budget.job]\nturns = 40\ntokens = "2M"\nmoney = 5.5\nminutes = 90\nparallel = 4\n'

    assert read(tmp_path, f'{job}[budget.day]\nturns = 100\ntokens = "500k"\nmoney = 20\n') == BudgetSettings(
        {"turns": 40, "tokens": 2_000_000, "money": 5.5, "minutes": 90, "parallel": 4},
        {"turns": 100, "tokens": 500_000, "money": 20},
    )
    assert read(tmp_path, "") == BudgetSettings()


def test_options_go_before_settings(tmp_path: Path) -> None:
    settings = Settings(budget=BudgetSettings({"turns": 10, "money": 1}, {"turns": 50}))
    settings = with_budget(with_budget(settings, "turns=40, tokens=1.5M"), "day.money=3,minutes=0.5")

    assert settings.budget == BudgetSettings(
        {"turns": 40, "money": 1, "tokens": 1_500_000, "minutes": 0.5}, {"turns": 50, "money": 3}
    )


@pytest.mark.parametrize(
    "line, said",
    [
        ("turns = -1", "[budget.job] turns: it must be a whole number above 0; write turns=40"),
        ("turns = 0", "[budget.job] turns: it must be a whole number above 0"),
        ("turns = 1.5", "[budget.job] turns: it must be a whole number above 0"),
        ("turns = true", "[budget.job] turns: it must be a whole number above 0"),
        ('turns = "many"', "[budget.job] turns: it must be a whole number above 0"),
        ('tokens = ""', "[budget.job] tokens: it must be a whole number above 0; write tokens=2000000"),
        ('tokens = "2G"', "[budget.job] tokens: it must be a whole number above 0"),
        ("money = nan", "[budget.job] money: it must be a number above 0; write money=5"),
        ("money = inf", "[budget.job] money: it must be a number above 0"),
        ("money = -0.5", "[budget.job] money: it must be a number above 0"),
        ("minutes = [1]", "[budget.job] minutes: it must be a number above 0; write minutes=90"),
        ("parallel = 0", "[budget.job] parallel: it must be a whole number above 0; write parallel=4"),
        ("turns = 10000000000000", "[budget.job] turns: it must be a whole number above 0"),
        ("age = 3", "[budget.job] age: there is no such setting; use one of: turns, tokens, money"),
    ],
)  # fmt: skip
def test_a_setting_that_is_no_budget(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(DocumentError) as error:
        read(tmp_path, f"[budget.job]\n{line}\n")

    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text, said",
    [
        ("[budget]\nturns = 3", "there is no such setting; use one of: job, day"),
        ("budget = 3", "[budget]: it must be a table"),
        ("[budget]\njob = 3", "[budget.job]: it must be a table"),
        ("[budget.day]\nminutes = 3", "[budget.day] minutes: there is no such setting; use one of: turns, tokens"),
    ],
)  # fmt: skip
def test_a_table_that_is_no_budget(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(DocumentError) as error:
        read(tmp_path, text)

    assert said in str(error.value)


@pytest.mark.parametrize(
    "word, said",
    [
        ("turns=-1", "it must be a whole number above 0; write turns=40"),
        ("turns=+5", "it must be a whole number above 0"),
        ("turns=0", "it must be a whole number above 0"),
        ("money=nan", "it must be a number above 0; write money=5"),
        ("money=1e9", "it must be a number above 0"),
        ("turns=1e3", "it must be a whole number above 0"),
        ("turns=٣", "it must be a whole number above 0"),
        ("turns", "it does not say how much; write turns=40"),
        ("turns=", "it does not say how much; write turns=40"),
        ("turns=3,turns=4", "turns is given twice; leave one of them out"),
        ("day.turns=-1", "--budget day.turns=-1: it must be a whole number above 0"),
        ("age=3", "there is no budget 'age'; use one of: turns, tokens, money, minutes, parallel, day.turns"),
        ("day.minutes=3", "did you mean 'minutes'?"),
        ("year.turns=3", "there is no budget 'year.turns'"),
        ("", "there is no budget ''"),
    ],
)
def test_an_option_that_is_no_budget(home: Home, word: str, said: str) -> None:
    line = home.refuses("run", "x", "--playbook", home.write("p.yaml", LEADS), "--budget", word)

    assert said in line
    assert not (home.folder / ".parley").exists()


def test_raising_needs_a_job(home: Home) -> None:
    assert "name the job whose budget is to be raised" in home.refuses("resume", "--budget", "turns=+3")


# ---- what a playbook says was used


def played(*actions: str) -> Playbook:
    return parse(f"agents:\n  coder:\n    - {{match: '.', do: [{', '.join(actions)}]}}\n", "p.yaml")


def test_what_a_playbook_says_was_used_adds_up() -> None:
    book = played("{usage: {input_tokens: 900, cost: 0.5}}", "{usage: {input_tokens: 100, cache_read_tokens: 7}}")
    rules = tuple(book.rules("coder") or ())
    turn = play(PlayOrder(agent="coder", rules=rules, message="go", state="EXECUTE", visit=1, handle={}))

    with pytest.raises(StopIteration) as stop:
        next(turn)
    assert stop.value.value.usage == {"input_tokens": 1000, "cost_usd": 0.5, "cache_read_tokens": 7}


@pytest.mark.parametrize(
    "action, said",
    [
        ("{usage: {input_tokens: -1}}", "'input_tokens' must be a number; write one from 0 to 1000000000000000"),
        ("{usage: {cost: .nan}}", "'cost' must be a number; write one from 0 to 1000000000000000"),
        ("{usage: {cost: much}}", "'cost' must be a number; write one from 0 to 1000000000000000"),
        ("{usage: {turns: 3}}", "unknown key 'turns' in 'usage'"),
        ("{usage: 3}", "'usage' must be a mapping"),
    ],
)
def test_what_can_not_have_been_used(action: str, said: str) -> None:
    with pytest.raises(DocumentError) as error:
        played(action)

    assert said in str(error.value)


@pytest.mark.parametrize("value", [3, {"cost": -1}, {"cost": "much"}, {"cost": float("nan")}])
def test_an_order_that_can_not_have_used_that(value: object) -> None:
    order = {"agent": "coder", "message": "go", "rules": [{"match": ".", "do": [{"usage": value}]}]}

    with pytest.raises(OrderError, match="'usage' has a wrong or missing value"):
        read_order(order)


# ---- what a job may use where no settings say it


def test_a_job_has_a_budget_unless_it_is_taken_away(tmp_path: Path) -> None:
    assert read(tmp_path, "").of_job(costs=False) == {"turns": 200}
    assert read(tmp_path, "").of_job(costs=True) == {"turns": 200, "money": 20}
    assert read(tmp_path, "[budget.job]\nturns = 7\ntokens = 9\n").of_job(costs=True) == {
        "turns": 7,
        "money": 20,
        "tokens": 9,
    }
    free = read(tmp_path, '[budget.job]\nturns = "none"\n[budget.day]\nturns = "none"\n')
    assert free.of_job(costs=False) == free.of_day() == {}
    assert with_budget(Settings(), "turns=none,money=3").budget.of_job(costs=True) == {"money": 3}
    with pytest.raises(DocumentError, match=r"parallel: it must be a whole number above 0; write parallel=4$"):
        read(tmp_path, '[budget.job]\nparallel = "none"\n')


def test_the_users_own_budget_lies_under_the_repositorys(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text("[budget.job]\nturns = 50\nmoney = 3\n[policy]\nplan = 'never'\n", encoding="utf-8")
    (tmp_path / "parley.toml").write_text("[budget.job]\nmoney = 1\n[policy]\nintent = 'never'\n", encoding="utf-8")

    settings = load.read(tmp_path, own)

    assert settings.budget.of_job(costs=True) == {"turns": 50, "money": 1}
    assert settings.policies == ("never", "never", "always")
