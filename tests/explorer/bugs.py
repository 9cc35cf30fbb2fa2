"""Bugs, each planted alone in a copy of the rules, and the bounds within which it has to be found."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from parley.protocol.bounds import counted
from parley.protocol.errors import Disabled
from parley.protocol.molecules import (
    EVERYDAY,
    HUMAN,
    PROXY,
    AskHuman,
    AskQuestion,
    Assertion,
    Charter,
    Hold,
    Idle,
    Interrupt,
    Kind,
    Mailbox,
    Molecule,
    Parent,
    Policy,
    Proxy,
    Record,
    Ruling,
    Run,
    Send,
    Surface,
    Tally,
    Terminate,
    Tombstone,
    Verdict,
    escalation_thread,
)
from parley.protocol.rule import Answer, Broadcast, Firing, Passage, Reaction, RuleSet
from parley.protocol.rules import RULES
from parley.protocol.soup import Soup
from parley.verify.exploration_menu import CODER, phases
from parley.verify.explorer import Bounds
from tests.explorer.scenarios import AT_WORK, DOERS, IN_PLAN, LEAD, LED_BACK, NOBODY, PLANNER, TASKS, two_at_work

React = Callable[[Soup, Firing], Reaction]


@dataclass(frozen=True)
class Bug:
    rules: RuleSet
    bounds: Bounds
    seen_by: frozenset[str]  # the invariants or laws that may be the first to see it


def plant(**reacts: React) -> RuleSet:
    """The rules with some of them replaced; an underscore stands for the hyphen in a name."""
    names = {name.replace("_", "-"): react for name, react in reacts.items()}
    return {**RULES, **{name: replace(RULES[name], react=react) for name, react in names.items()}}


def mended(name: str, change: Callable[[Reaction], Reaction]) -> React:
    """The rule as it is, with its reaction changed."""
    return lambda soup, firing: change(RULES[name].react(soup, firing))


def without(kind: type[Molecule], *, consumed: bool = False) -> Callable[[Reaction], Reaction]:
    """The reaction with nothing of a kind produced (or consumed)."""

    def change(reaction: Reaction) -> Reaction:
        if consumed:
            return Reaction(tuple(m for m in reaction.consumed if type(m) is not kind), reaction.produced)
        return Reaction(reaction.consumed, tuple(m for m in reaction.produced if type(m) is not kind))

    return change


def with_queue(change: Callable[[tuple[str, ...]], tuple[str, ...]]) -> Callable[[Reaction], Reaction]:
    """The reaction with the queues of the mailboxes that it makes changed."""
    return lambda reaction: Reaction(
        reaction.consumed,
        tuple(replace(m, queue=change(m.queue)) if isinstance(m, Mailbox) else m for m in reaction.produced),
    )


View = Callable[[Soup, Firing], dict[Molecule, Molecule | None]]
"""What the rule takes for what: another molecule, or nothing."""


def blind(name: str, view: View, believes: Callable[[Firing], tuple[Molecule, ...]] = lambda _: ()) -> React:
    """The rule as it is, on a soup that it sees wrongly."""

    def react(soup: Soup, firing: Firing) -> Reaction:
        seen = {real: taken for real, taken in view(soup, firing).items() if real != taken}
        taken_for = {taken: real for real, taken in seen.items() if taken is not None}
        made_up = tuple(m for m in believes(firing) if m not in soup)
        reaction = RULES[name].react(soup.after(seen, (*taken_for, *made_up)), firing)
        return Reaction(
            tuple(taken_for.get(m, m) for m in reaction.consumed if m not in made_up),
            tuple(taken_for.get(m, m) for m in reaction.produced),
        )

    return react


def never(soup: Soup, firing: Firing) -> Reaction:
    message = "planted"
    raise Disabled(message)


def unless_held(name: str) -> React:
    return lambda soup, firing: never(soup, firing) if soup.of(Hold) else RULES[name].react(soup, firing)


def wide(soup: Soup, firing: Firing) -> dict[Molecule, Molecule | None]:
    return {soup.charter: replace(soup.charter, fan_out=9)}


def hearing(soup: Soup, firing: Firing) -> dict[Molecule, Molecule | None]:
    """Every surface but the proxies' takes whatever may come."""
    return {s: replace(s, messages=EVERYDAY) for s in soup.of(Surface) if s.agent in (LEAD, CODER)}


def boundless(soup: Soup, firing: Firing) -> dict[Molecule, Molecule | None]:
    return {soup.charter: replace(soup.charter, exchanges=99, repeats=99, backtracks=99)}


def heard(soup: Soup, firing: Firing) -> dict[Molecule, Molecule | None]:
    return {proxy: replace(proxy, heard=True) for proxy in soup.of(Proxy)}


def unsure(soup: Soup, firing: Firing) -> dict[Molecule, Molecule | None]:
    return {proxy: replace(proxy, policy=Policy.WHEN_UNSURE) for proxy in soup.of(Proxy)}


def unsure_once_heard(soup: Soup, firing: Firing) -> dict[Molecule, Molecule | None]:
    return {proxy: replace(proxy, policy=Policy.WHEN_UNSURE) for proxy in soup.of(Proxy) if proxy.heard}


def as_answered(*names: str) -> View:
    """The proxy's question with what the answer itself claims for what the human said."""

    def view(soup: Soup, firing: Firing) -> dict[Molecule, Molecule | None]:
        answer = firing.choice
        assert isinstance(answer, Answer)
        claimed: dict[str, Any] = {"said": answer.ruling, "words": answer.words, "heard": answer.author == HUMAN}
        return {proxy: replace(proxy, **{name: claimed[name] for name in names}) for proxy in soup.of(Proxy)}

    return view


def unsaid(soup: Soup, firing: Firing) -> dict[Molecule, Molecule | None]:
    return {proxy: replace(proxy, said=None) for proxy in soup.of(Proxy)}


def briefed(soup: Soup, firing: Firing) -> dict[Molecule, Molecule | None]:
    return {soup.charter: replace(soup.charter, brief_human=True)}


def no(*kinds: type[Molecule]) -> View:
    return lambda soup, firing: {m: None for kind in kinds for m in soup.of(kind)}


def at_once(soup: Soup, firing: Firing) -> dict[Molecule, Molecule | None]:
    return {i: replace(i, now=True) for i in soup.of(Interrupt)}


def approved(firing: Firing) -> tuple[Molecule, ...]:
    assert isinstance(firing.choice, Passage)
    return tuple(
        Verdict(
            record=firing.at[0],
            artifact=artifact,
            ruling=Ruling.APPROVE,
            digest=digest,
            author=PROXY,
            question="nobody",
        )
        for artifact, digest in firing.choice.contents
    )


def unread(soup: Soup, firing: Firing) -> dict[Molecule, Molecule | None]:
    assert isinstance(firing.choice, Passage)
    contents = dict(firing.choice.contents)
    return {v: replace(v, digest=contents.get(v.artifact, v.digest)) for v in soup.of(Verdict)}


def inactive(soup: Soup, firing: Firing) -> dict[Molecule, Molecule | None]:
    return {soup.charter: replace(soup.charter, companions=())}


def newest(soup: Soup, firing: Firing) -> dict[Molecule, Molecule | None]:
    asked = soup.need(Proxy, escalation_thread(firing.at[0])).question
    return {
        a: replace(a, question=asked.id, digest=asked.digest)
        for a in soup.of(Assertion)
        if a.artifact == asked.artifact
    }


def leading(soup: Soup, firing: Firing) -> dict[Molecule, Molecule | None]:
    return {record: replace(record, thread=firing.at[1]) for record in soup.of(Record)}


# ---- reactions that are wrong in a way of their own ----------------------------------------------


def lossy_recover(soup: Soup, firing: Firing) -> Reaction:
    run = soup.need(Run, firing.at[1])
    return Reaction((run,), (Idle(*firing.at),))


def as_mail(soup: Soup, firing: Firing) -> dict[Molecule, Molecule | None]:
    return {run: replace(run, interrupt=None) for run in soup.of(Run)}


def hasty_final(soup: Soup, firing: Firing) -> Reaction:
    (thread,) = firing.at
    return Reaction((soup.need(Terminate, thread), *soup.all(Surface, thread)), (Tombstone(thread),))


def final_beside_children(soup: Soup, firing: Firing) -> Reaction:
    edges = soup.of(Parent)
    return blind("term-final", lambda soup, firing: dict.fromkeys(edges))(soup, firing)


def unchecked_send_step(soup: Soup, firing: Firing) -> Reaction:
    run = soup.need(Run, firing.at[1])
    assert isinstance(firing.choice, Broadcast)
    chosen = firing.choice
    gone, tally = counted(soup, run.agent, run.thread, chosen.payloads, chosen.questions)
    return Reaction((run, *gone), (Send(run.agent, run.thread, chosen.payloads, chosen.questions), *tally))


def idle_twice(reaction: Reaction) -> Reaction:
    idle = next(m for m in reaction.produced if isinstance(m, Idle))
    return Reaction(reaction.consumed, (*reaction.produced, idle))


def idle_for_each(soup: Soup, firing: Firing) -> Reaction:
    asked = soup.need(AskQuestion, firing.at[1])
    reaction = RULES["ask"].react(soup, firing)
    extra = (Idle(asked.agent, asked.thread),) * (len(asked.questions) - 1)
    return Reaction(reaction.consumed, (*reaction.produced, *extra))


def first_question_only(soup: Soup, firing: Firing) -> Reaction:
    asked = soup.need(AskQuestion, firing.at[1])
    one = replace(asked, questions=asked.questions[:1])
    return blind("ask", lambda soup, firing: {asked: one})(soup, firing)


def forgetful_transition(soup: Soup, firing: Firing) -> Reaction:
    reaction = RULES["transition"].react(soup, firing)
    return Reaction(
        reaction.consumed,
        tuple(replace(m, history=()) if isinstance(m, Record) else m for m in reaction.produced),
    )


def untold(reaction: Reaction) -> Reaction:
    return without(Mailbox)(without(Mailbox, consumed=True)(reaction))


def unheard_reply(reaction: Reaction) -> Reaction:
    return Reaction(
        reaction.consumed,
        tuple(replace(m, heard=False) if isinstance(m, Proxy) else m for m in reaction.produced),
    )


def passed_by_the_proxy(soup: Soup, firing: Firing) -> Reaction:
    """The proxy is woken with a verdict of the human's, as if it were to pass it on."""
    answer = firing.choice
    assert isinstance(answer, Answer)
    words = Firing(firing.rule, firing.at, replace(answer, ruling=None))
    return changed(Proxy, lambda proxy: replace(proxy, said=answer.ruling))(RULES["human-reply"].react(soup, words))


def charter_grows(reaction: Reaction) -> Reaction:
    return Reaction(reaction.consumed, (*reaction.produced, Charter("other", (), phases())))


def changed(kind: type[Molecule], change: Callable[[Any], Molecule]) -> Callable[[Reaction], Reaction]:
    """The reaction with what it makes of a kind changed."""
    return lambda reaction: Reaction(
        reaction.consumed, tuple(change(m) if type(m) is kind else m for m in reaction.produced)
    )


def forgiving(soup: Soup, firing: Firing) -> Reaction:
    """Any answer clears its asker's count, also one that the human has no part in."""
    reaction = RULES["respond"].react(soup, firing)
    old = soup.of(Tally)
    return Reaction((*reaction.consumed, *old), (*reaction.produced, *(replace(t, vain=0, asked=()) for t in old)))


def losing(reaction: Reaction) -> Reaction:
    """The reaction with a lead's own mailbox emptied."""
    return Reaction(
        reaction.consumed,
        tuple(replace(m, queue=()) if isinstance(m, Mailbox) and m.agent == LEAD else m for m in reaction.produced),
    )


def undisturbed(soup: Soup, firing: Firing) -> dict[Molecule, Molecule | None]:
    return {record: replace(record, dialogs=0) for record in soup.of(Record)}


def unvoided(reaction: Reaction) -> Reaction:
    """A backtrack after which all that was approved still stands."""
    (old,) = (m for m in reaction.consumed if isinstance(m, Record))

    def kept(record: Record) -> Record:
        back = record.backtrack_count > old.backtrack_count
        return replace(record, approved=old.approved) if back else record

    return changed(Record, kept)(reaction)


def orphaning(soup: Soup, firing: Firing) -> Reaction:
    """A lost turn takes the edge to its instance along."""
    reaction = RULES["recover"].react(soup, firing)
    return Reaction((*reaction.consumed, *soup.all(Parent, firing.at[1])), reaction.produced)


unlimited = changed(Charter, lambda charter: replace(charter, fan_out=9))
without_roles = changed(Charter, lambda charter: replace(charter, roles=charter.roles[:-1]))
shared = changed(Surface, lambda surface: replace(surface, workspace="job:j"))
with_tools = changed(Surface, lambda surface: replace(surface, tools=(*surface.tools, "AskHuman")))


# ---- the list ------------------------------------------------------------------------------------

TALK = Bounds(sends=1, threads=1)
DEAF = Bounds(sends=3, threads=1, deaf=True, voices=TASKS, prelude=AT_WORK)
ENDLESS = Bounds(sends=3, threads=1, exchanges=1, voices=frozenset({LEAD, CODER}), prelude=AT_WORK)
CLOSED = Bounds(sends=1, threads=1, closes=1, several=True)
WITHDRAWN = Bounds(sends=1, threads=1, withdrawals=1)
ASKED = Bounds(questions=1, voices=TASKS, prelude=AT_WORK)
ASKED_TWICE = Bounds(questions=2, several=True, policy=Policy.NEVER, voices=TASKS, prelude=AT_WORK)
CRASHED = Bounds(crashes=1, crash_budget=1)
GATE = Bounds(
    questions=1, kinds=(Kind.ASSERT,), rulings=(Ruling.APPROVE,), transitions=1, policy=Policy.NEVER,
    voices=TASKS, prelude=AT_WORK,
)  # fmt: skip
RULED = replace(
    GATE, rulings=(Ruling.APPROVE, Ruling.REVISE, Ruling.WITHDRAW), transitions=0, policy=Policy.ALWAYS, escalations=1
)
ACCOMPANIED = replace(GATE, accompanied=True, voices=frozenset({PLANNER}), prelude=IN_PLAN)
GATE_TWICE = replace(GATE, questions=2, transitions=0, several=True)


def bug(rules: RuleSet, bounds: Bounds, *seen_by: str) -> Bug:
    return Bug(rules, bounds, frozenset(seen_by))


BUGS: dict[str, Bug] = {
    "a letter is lost": bug(
        plant(send=mended("send", with_queue(lambda queue: queue[:-1]))),
        Bounds(sends=2, threads=1), "conservation_of_mail",
    ),
    "a letter arrives twice": bug(
        plant(send=mended("send", with_queue(lambda queue: (*queue, queue[-1])))),
        Bounds(sends=2, threads=1), "conservation_of_mail",
    ),
    "the last letter is first": bug(
        plant(send=mended("send", with_queue(lambda queue: (queue[-1], *queue[:-1])))),
        Bounds(sends=2, voices=DOERS, prelude=two_at_work()), "first_in_first_out",
    ),
    "a turn ends in two Idles": bug(
        plant(nosend_step=mended("nosend-step", idle_twice)), Bounds(), "one_life_at_its_site"
    ),
    "several questions make several Idles": bug(
        plant(ask=idle_for_each), ASKED_TWICE, "one_life_at_its_site"
    ),
    "the second question is lost": bug(plant(ask=first_question_only), ASKED_TWICE, "conservation_of_mail"),
    "a cascade skips a child": bug(
        plant(cascade=mended("cascade", lambda reaction: Reaction(reaction.consumed, reaction.produced[:1]))),
        WITHDRAWN, "terminates_have_a_cause",
    ),
    "a cascade does not reach a child": bug(plant(cascade=never), WITHDRAWN, "cascade_completeness"),
    "a thread ends before it is empty": bug(
        plant(term_final=hasty_final), WITHDRAWN, "graves_are_final"
    ),
    "a thread ends before its children": bug(
        plant(term_final=final_beside_children), WITHDRAWN, "graves_are_final"
    ),
    "no tombstone is left": bug(
        plant(term_final=mended("term-final", without(Tombstone))), WITHDRAWN, "graves_are_final"
    ),
    "the dead are sparked anew": bug(
        plant(spark=blind("spark", no(Tombstone))), Bounds(sends=2, threads=1, withdrawals=1),
        "the_tree_grows_by_sparks",
    ),
    "a spark draws no edge": bug(
        plant(spark=mended("spark", without(Parent))), Bounds(), "the_tree_grows_by_sparks"
    ),
    "a spark goes over the cap": bug(
        plant(send_step=unchecked_send_step, spark=blind("spark", wide)),
        Bounds(sends=2, threads=2, several=True, fan_out=1), "the_tree_grows_by_sparks",
    ),
    "a spark over the cap is accepted and stuck": bug(
        plant(send_step=unchecked_send_step), Bounds(sends=2, threads=2, several=True, fan_out=1),
        "sends_get_out",
    ),
    "the proxy reads in its asker's workspace": bug(
        plant(ask=mended("ask", shared)), ASKED, "sandbox_integrity", "workspaces_are_apart"
    ),
    "a message reaches one that takes its task alone": bug(
        plant(send_step=unchecked_send_step, send=blind("send", hearing)), DEAF, "surfaces_are_heeded"
    ),
    "a message that is not taken is accepted and stuck": bug(
        plant(send_step=unchecked_send_step), DEAF, "sends_get_out"
    ),
    "one is redirected that takes no intervention": bug(
        plant(intervene=blind("intervene", hearing)), replace(DEAF, sends=1, interrupts=1), "surfaces_are_heeded"
    ),
    "one asks that takes no answer, and is stuck": bug(
        plant(ask_step=blind("ask-step", hearing)), replace(DEAF, sends=1, questions=1, policy=Policy.NEVER),
        "escalation_reaches_respond",
    ),
    "an answer reaches one that takes none": bug(
        plant(ask_step=blind("ask-step", hearing), respond=blind("respond", hearing)),
        replace(DEAF, sends=1, questions=1, policy=Policy.NEVER), "surfaces_are_heeded",
    ),
    "a close cuts the edge": bug(
        plant(send_terminate=mended("send-terminate", without(Parent))), CLOSED, "the_tree_grows_by_sparks"
    ),
    "the proxy answers under always": bug(
        plant(respond=blind("respond", heard)), replace(ASKED, policy=Policy.ALWAYS), "policies_are_kept"
    ),
    "the human is asked under never": bug(
        plant(escalate=blind("escalate", unsure)), replace(ASKED, policy=Policy.NEVER), "policies_are_kept"
    ),
    "the proxy speaks in the human's name": bug(
        plant(respond=blind("respond", as_answered("words"))), RULED, "the_human_is_quoted"
    ),
    "the proxy answers before the human, in the human's name": bug(
        plant(respond=blind("respond", as_answered("heard", "said"))), replace(RULED, policy=Policy.WHEN_UNSURE),
        "policies_are_kept",
    ),
    "the proxy turns the human's verdict round, or gives one for them": bug(
        plant(respond=blind("respond", as_answered("said"))), RULED, "policies_are_kept", "the_human_is_quoted"
    ),
    "the proxy approves under always what the human said in words": bug(
        plant(respond=blind("respond", unsure_once_heard)), replace(RULED, rulings=(Ruling.APPROVE,)),
        "the_human_is_quoted",
    ),
    "the proxy withdraws": bug(
        plant(respond=blind("respond", as_answered("said"))),
        replace(RULED, rulings=(Ruling.WITHDRAW,), policy=Policy.WHEN_UNSURE), "the_human_is_quoted",
    ),
    "the human is asked again for what they have ruled": bug(
        plant(escalate=blind("escalate", unsaid)), RULED, "policies_are_kept"
    ),
    "earlier words of the human are dropped": bug(
        plant(escalate=mended("escalate", changed(AskHuman, lambda asked: replace(asked, words=())))), RULED,
        "policies_are_kept",
    ),
    "the proxy is woken to pass the human's verdict on": bug(
        plant(human_reply=passed_by_the_proxy), RULED, "conservation_of_mail"
    ),
    "the proxy is woken before a human who wants no briefing": bug(
        plant(ask=blind("ask", briefed)), replace(RULED, brief_human=False), "conservation_of_mail"
    ),
    "the human's reply goes unheard": bug(
        plant(human_reply=mended("human-reply", unheard_reply)), ASKED, "policies_are_kept"
    ),
    "an answered question stays open": bug(
        plant(respond=mended("respond", without(Terminate))), ASKED, "terminates_have_a_cause"
    ),
    "a question of the dead is not ended": bug(
        plant(term_proxy=never), replace(ASKED, withdrawals=1), "cascade_completeness"
    ),
    "a crash drops the message": bug(
        plant(recover=lossy_recover), CRASHED, "bounded_crash_loss", "conservation_of_mail"
    ),
    "a crashed Interrupt comes back as mail": bug(
        plant(recover=blind("recover", as_mail)), Bounds(crashes=1, interrupts=1, crash_budget=2),
        "bounded_crash_loss", "interrupts_go_first",
    ),
    "a failure is not told to the dispatcher": bug(
        plant(give_up=mended("give-up", untold)),
        CRASHED, "conservation_of_mail",
    ),
    "a withdrawal is not told to the dispatcher": bug(
        plant(withdraw=mended("withdraw", untold)),
        WITHDRAWN, "no_instance_waits_for_the_dead", "conservation_of_mail",
    ),
    "mail wakes while the job is held": bug(
        plant(wake=blind("wake", no(Hold))), Bounds(holds=1), "holds_stop_only_waking"
    ),
    "a hold stops a withdrawal": bug(
        plant(term_run=unless_held("term-run")), Bounds(holds=1, withdrawals=1, prelude=AT_WORK),
        "cascade_completeness",
    ),
    "mail goes before an Interrupt": bug(
        plant(wake=blind("wake", no(Interrupt))), Bounds(interrupts=1), "interrupts_go_first"
    ),
    "an Interrupt for the boundary preempts": bug(
        plant(interrupt=blind("interrupt", at_once)), Bounds(interrupts=1, steered=True),
        "interrupts_go_first", "what_was_chosen",
    ),
    "an Interrupt works twice": bug(
        plant(wake_int=mended("wake-int", without(Interrupt, consumed=True))), Bounds(interrupts=1),
        "conservation_of_mail",
    ),
    "a second Terminate is stuck": bug(
        plant(term_again=never), replace(ASKED, withdrawals=1), "cascade_completeness"
    ),
    "an approval needs no verdict": bug(
        plant(transition=blind("transition", lambda soup, firing: {}, approved)), replace(GATE, questions=0),
        "gates_are_kept",
    ),
    "a verdict on other content counts": bug(
        plant(transition=blind("transition", unread)), GATE, "gates_are_kept"
    ),
    "a plan without the workflow that was asked for counts": bug(
        plant(transition=blind("transition", inactive)), ACCOMPANIED, "gates_are_kept"
    ),
    "a superseded assert counts": bug(
        plant(respond=blind("respond", newest)), GATE_TWICE, "verdicts_come_from_answers"
    ),
    "anybody asserts": bug(
        plant(ask_step=blind("ask-step", leading), ask=blind("ask", leading)),
        replace(GATE, transitions=0, voices=DOERS, prelude=two_at_work()), "assertions_are_the_newest",
    ),
    "a verdict outlives its state": bug(
        plant(transition=mended("transition", without(Verdict, consumed=True))), GATE,
        "verdicts_come_from_answers",
    ),
    "history is rewritten": bug(
        plant(transition=forgetful_transition), replace(GATE, questions=0), "history_only_grows"
    ),
    "failures are never counted": bug(
        plant(strike=mended("strike", lambda reaction: Reaction(reaction.consumed, reaction.consumed))),
        Bounds(failures=1), "history_only_grows",
    ),
    "a state fails for ever": bug(
        plant(strike=never, dialog=never), Bounds(), "termination_guaranteed"
    ),
    "letters are not counted": bug(
        plant(send_step=mended("send-step", without(Tally))), TALK, "speech_is_counted"
    ),
    "a lead sends for ever": bug(
        plant(send_step=blind("send-step", boundless)), ENDLESS, "speech_is_counted", "termination_guaranteed"
    ),
    "a lead asks the same for ever": bug(
        plant(ask_step=blind("ask-step", boundless), send_step=blind("send-step", boundless)),
        replace(ASKED, questions=2, repeats=1, same=True), "speech_is_counted", "termination_guaranteed",
    ),
    "the proxy asks the human for ever": bug(
        plant(escalate=blind("escalate", boundless)), replace(ASKED, escalations=2, repeats=1), "speech_is_counted"
    ),
    "the proxy's word clears what was asked": bug(
        plant(respond=forgiving), replace(ASKED, policy=Policy.NEVER), "speech_is_counted",
    ),
    "a job goes back for ever": bug(
        plant(transition=blind("transition", boundless)),
        Bounds(transitions=1, policy=Policy.NEVER, backtracks=0, voices=NOBODY, prelude=LED_BACK), "gates_are_kept",
    ),
    "a backtrack is not counted": bug(
        plant(transition=mended("transition", changed(Record, lambda record: replace(record, circled=0)))),
        Bounds(transitions=1, policy=Policy.NEVER, voices=NOBODY, prelude=LED_BACK), "history_only_grows",
    ),
    "a dialog forgets nothing": bug(
        plant(dialog=mended("dialog", without(Tally, consumed=True))),
        replace(ASKED, failures=1, repeats=1, same=True), "speech_is_counted",
    ),
    "the human is asked about a state for ever": bug(
        plant(dialog=blind("dialog", undisturbed)), Bounds(failures=4), "history_only_grows", "termination_guaranteed"
    ),
    "a lead that is given up goes on": bug(
        plant(give_up=mended("give-up", without(Hold))), replace(CRASHED, prelude=AT_WORK), "holds_stop_only_waking"
    ),
    "a lead that is given up loses its message": bug(
        plant(give_up=mended("give-up", losing)), replace(CRASHED, prelude=AT_WORK), "conservation_of_mail",
        "first_in_first_out",
    ),
    "an approval outlives the way back": bug(
        plant(transition=mended("transition", unvoided)),
        Bounds(transitions=1, policy=Policy.NEVER, voices=NOBODY, prelude=LED_BACK), "audit_append_only",
    ),
    "an earlier approval is forgotten on the way forward": bug(
        plant(transition=mended("transition", changed(Record, lambda record: replace(record, approved=())))),
        GATE, "audit_append_only",
    ),
    "a record is handed to another": bug(
        plant(transition=mended("transition", changed(Record, lambda record: replace(record, team_id="other")))),
        replace(GATE, questions=0), "audit_append_only",
    ),
    "a lead is not whom the charter says": bug(
        plant(transition=mended("transition", changed(Record, lambda record: replace(record, actor=LEAD)))),
        replace(GATE, questions=0), "audit_append_only",
    ),
    "a crash takes an edge along": bug(plant(recover=orphaning), Bounds(), "bus_durability"),
    "the charter changes": bug(plant(hold=mended("hold", charter_grows)), Bounds(holds=1), "charter_only_grows"),
    "a role is enrolled for everybody": bug(
        plant(enrol=mended("enrol", unlimited)), Bounds(enrolments=1, voices=TASKS, prelude=AT_WORK),
        "charter_only_grows",
    ),
    "a role joins and is not in the job": bug(
        plant(enrol=mended("enrol", without_roles)), Bounds(enrolments=1, voices=TASKS, prelude=AT_WORK),
        "charter_only_grows",
    ),
    "who joins brings tools along": bug(
        plant(enrol=mended("enrol", with_tools)), Bounds(enrolments=1, voices=TASKS, prelude=AT_WORK),
        "charter_only_grows",
    ),
}  # fmt: skip
