"""A rule does what its notation says, and says what it does: in both directions, and each lie is found."""

import re

import pytest
from msgspec.structs import replace

from parley.protocol.errors import Violated
from parley.protocol.molecules import Deliver, Idle, Mailbox, Proxy, Run, Send, Surface, Tally, Terminate, Tombstone
from parley.protocol.rule import Firing, Reaction, RuleSet
from parley.protocol.rules import RULES
from parley.protocol.soup import Soup
from parley.verify.exploration_menu import Bounds
from parley.verify.explorer import explore
from parley.verify.notation import KINDS, MANY, PARTS, Amount, Witness, agrees, form_of, misfits
from tests.explorer.bugs import ASKED, ASKED_TWICE


@pytest.mark.parametrize("rule", RULES.values(), ids=list(RULES))
def test_every_notation_can_be_read(rule: object) -> None:
    form = form_of(rule)  # type: ignore[arg-type]  # a table's values
    assert form.consumed or form.produced


@pytest.mark.parametrize("rule", RULES.values(), ids=list(RULES))
def test_every_condition_names_molecules_and_rules_that_there_are(rule: object) -> None:
    when = rule.when  # type: ignore[attr-defined]  # a table's values
    kinds = set(re.findall(r"\b[A-Z][a-z]+[A-Za-z]*\b", when)) - {"PENDING"}
    assert kinds <= KINDS.keys()
    assert set(re.findall(r"\[([a-z-]+)\]", when)) <= RULES.keys()


def test_a_form_counts_each_kind_on_each_side() -> None:
    rule = replace(RULES["ask"], shape="Send(A, t, (A,t',x):xs) ‖ Tally_A(t)? → Idle_A(t) ‖ Idle_P(x)+", besides="")

    form = form_of(rule)

    assert form.consumed == {Send: Amount(1, 1), Tally: Amount(0, 1)}
    assert form.produced == {Idle: Amount(2, MANY)}
    assert form_of(replace(rule, besides="ε → Surface_P(x)*")).produced[Surface] == Amount(0, MANY)


@pytest.mark.parametrize(
    "shape",
    [
        "Idle_A(t)", "Idle_A(t) → Run(A, t, m) → Send(A, t)", "Idle_A(t) ‖  → Run(A, t, m)", "idle → Run(A)",
        "Idler_A(t) → Run(A, t, m)", "Idle_A(t → Run(A, t, m)", "Idle_A(t)) → Run(A, t, m)", "Idle_A(t)(u) → Run(A)",
        "Idle_A(t)?? → Run(A, t, m)", "Idle_A(t) and mail → Run(A, t, m)", "ε ‖ Idle_A(t) → Run(A, t, m)",
    ],
)  # fmt: skip
def test_what_is_no_notation_is_told_with_the_rules_name(shape: str) -> None:
    with pytest.raises(Violated, match=r"notation: \[wake\] has"):
        form_of(replace(RULES["wake"], shape=shape))


def test_a_reaction_that_is_not_of_the_form_is_told() -> None:
    wake = form_of(RULES["wake"])
    idle, box, run = Idle("a", "t"), Mailbox("a", "t"), Run("a", "t", "m")
    assert list(misfits(wake, Reaction((idle, box), (run, box)))) == []
    assert list(misfits(wake, Reaction((idle,), (run, box)))) == ["takes 0 of Mailbox, and its notation says 1"]
    assert list(misfits(wake, Reaction((idle, box), (run, run, box)))) == ["gives 2 of Run, and its notation says 1"]
    assert list(misfits(wake, Reaction((idle, box), (run, box, Tombstone("t"))))) == [
        "gives 1 of Tombstone, which its notation does not name"
    ]
    assert list(misfits(form_of(RULES["term-final"]), Reaction((Terminate("t"),), (Tombstone("t"),) * 2))) == [
        "gives 2 of Tombstone, and its notation says 0 to 1"
    ]


def test_the_notation_of_every_kind_can_be_compared() -> None:
    assert PARTS.keys() == set(KINDS.values())


SENT = Reaction(
    (Send("a", "t", (Deliver("b", "u", "m"), Deliver("b", "u", "n"))), Mailbox("b", "u", ("k",))),
    (Send("a", "t", (Deliver("b", "u", "n"),)), Mailbox("b", "u", ("k", "m"))),
)


def test_a_reaction_that_names_make_of_the_notation_agrees_with_it() -> None:
    assert agrees(form_of(RULES["send"]), SENT)


@pytest.mark.parametrize(
    "box",
    [Mailbox("a", "u", ("k", "m")), Mailbox("b", "t", ("k", "m")), Mailbox("b", "u", ("m", "k")),
     Mailbox("b", "u", ("k", "n")), Mailbox("b", "u", ("k",)), Mailbox("b", "u", ())],
    ids=["whose", "where", "order", "what", "nothing", "lost"],
)  # fmt: skip
def test_a_reaction_does_not_agree_with_a_notation_that_says_another_agent_thread_or_message(box: Mailbox) -> None:
    assert not agrees(form_of(RULES["send"]), Reaction(SENT.consumed, (SENT.produced[0], box)))


@pytest.mark.parametrize(
    "name, shape",
    [
        ("wake", "Idle_A(t) ‖ Mailbox_A(t, m:rs) → Run(B, t, m) ‖ Mailbox_A(t, rs)"),
        ("wake", "Idle_A(t) ‖ Mailbox_A(t, m:rs) → Run(A, t, m) ‖ Mailbox_A(t', rs)"),
        ("wake", "Idle_A(t) ‖ Mailbox_A(t, rs ++ [m]) → Run(A, t, m) ‖ Mailbox_A(t, rs ++ [x])"),
        ("ask", "AskQuestion(A, t, xs, π) → Idle_A(t) ‖ Proxy(t, x, π, post-human)+"),
        ("respond", "Proxy(t, x, π, h) ‖ Mailbox_A(t', as) → Mailbox_A(t, as ++ [ans])"),
    ],
)
def test_a_notation_that_is_wrong_about_whose_a_molecule_is_or_what_it_holds_is_found(name: str, shape: str) -> None:
    found = lies(planted(name, shape=shape))
    assert [problem for problem in found if problem.startswith(f"[{name}] does something else with its molecules")]


def lies(changed: RuleSet, bounds: Bounds = ASKED_TWICE) -> list[str]:
    """What is found about rules that are not what they say, of those that a small search fires."""
    witness = Witness()
    report = explore(bounds, witness.watch(changed))
    return [problem for problem in witness.problems(changed) if problem.partition("]")[0][1:] in report.fired]


def planted(name: str, **fields: str) -> RuleSet:
    return {**RULES, name: replace(RULES[name], **fields)}


def test_a_notation_that_leaves_a_molecule_out_is_found() -> None:
    changed = planted("hold", shape="ε → ε")
    assert "[hold] gives Hold, which its notation does not name" in lies(changed, Bounds(holds=1))
    changed = planted("ask-step", besides="")
    assert "[ask-step] gives Tally, which its notation does not name" in lies(changed)


def test_a_notation_that_names_what_never_comes_is_found() -> None:
    changed = planted("wake", besides="Tally_A(t)? → ε")
    assert "[wake] takes no Tally, which its notation names" in lies(changed)


def test_a_notation_that_is_wrong_about_how_many_there_are_is_found() -> None:
    changed = planted("ask", shape="AskQuestion(A, t, xs, π) → Idle_A(t) ‖ Proxy(t, x, π, fresh)")
    assert "[ask] gives 2 of Proxy at most, and its notation says 1" in lies(changed)
    changed = planted("wake", shape="Idle_A(t) ‖ Mailbox_A(t, m:rs)? → Run(A, t, m) ‖ Mailbox_A(t, rs)")
    assert "[wake] takes 1 of Mailbox at least, and its notation says 0" in lies(changed)
    changed = planted("wake", shape="Idle_A(t)+ ‖ Mailbox_A(t, m:rs) → Run(A, t, m) ‖ Mailbox_A(t, rs)")
    assert "[wake] takes 1 of Idle at most, and its notation says any number" in lies(changed)


def test_a_rule_that_no_search_fires_is_told() -> None:
    witness = Witness()
    assert list(witness.problems({"wake": RULES["wake"]})) == ["[wake] never fired"]


def with_its_surface(soup: Soup, firing: Firing) -> Reaction:
    """[wake] takes and gives back what its notation does not name: nothing else in the soup shows that."""
    reaction = RULES["wake"].react(soup, firing)
    surface = soup.need(Surface, firing.at[1])
    return Reaction((*reaction.consumed, surface), (*reaction.produced, surface))


def test_a_reaction_that_does_more_than_its_notation_says_is_found_by_a_law() -> None:
    report = explore(ASKED, {**RULES, "wake": replace(RULES["wake"], react=with_its_surface)})
    assert report.finding is not None
    assert report.finding.name == "the_rule_does_what_it_says"
    assert "takes 1 of Surface, which its notation does not name" in report.finding.problem


def silently(soup: Soup, firing: Firing) -> Reaction:
    """[escalate] that keeps the proxy's molecule as well."""
    reaction = RULES["escalate"].react(soup, firing)
    return Reaction((), reaction.produced)


def test_a_reaction_that_does_less_is_found() -> None:
    changed = {**RULES, "escalate": replace(RULES["escalate"], react=silently)}
    witness = Witness()
    explore(ASKED, witness.watch(changed))
    assert f"[escalate] takes no {Proxy.__name__}, which its notation names" in list(witness.problems(changed))
