"""What the protocol promises of every soup, and what it promises of every step.

An invariant looks at one soup, and uses the rules only to see that nothing in it is stuck. A law (`laws`)
looks at one step and knows the rules by name only, so that a rule which does something else than its
name promises is seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from parley.protocol.codec import decode_molecule, encode_term
from parley.protocol.errors import Disabled, ProtocolError, Refused, Violated
from parley.protocol.molecules import (
    HUMAN,
    ORCHESTRATOR,
    PROXY,
    AskHuman,
    AskQuestion,
    Assertion,
    Charter,
    Close,
    Crashed,
    Deliver,
    Escalation,
    Hold,
    Idle,
    Interrupt,
    Mailbox,
    Molecule,
    Origin,
    Parent,
    Policy,
    Proxy,
    Record,
    Rounds,
    Run,
    Send,
    Surface,
    Tally,
    Terminate,
    Tombstone,
    Verdict,
    escalation_thread,
    job_thread,
    state_thread,
    thread_kind,
)
from parley.protocol.rule import Answer, Choice, Ending, Firing, Passage, Reaction, RuleSet
from parley.protocol.rules import RULES
from parley.protocol.soup import Soup
from parley.protocol.states import APPROVAL, LIVE, TRANSITIONS, Action, State, is_backtrack
from parley.verify.laws import LAWS, judge
from parley.verify.step import Step

__all__ = ["INVARIANTS", "LAWS", "Invariant", "check", "lawful", "problems"]

Invariant = Callable[[Soup, RuleSet], Iterator[str]]

INSTANCE: tuple[type[Any], ...] = (Idle, Run, Send, AskQuestion)

ENDS: Mapping[type[Any], str] = MappingProxyType(
    {
        Run: "term-run",
        Idle: "term-idle",
        Mailbox: "term-mbox",
        Send: "term-send",
        AskQuestion: "term-ask",
        Proxy: "term-proxy",
        AskHuman: "term-human",
        Interrupt: "term-interrupt",
    }
)
"""What may be left on a dying thread, and the rule that ends it."""


def _tried(soup: Soup, rules: RuleSet, name: str, at: tuple[str, ...], choice: Choice = None) -> Reaction | None:
    """What a firing would do, or nothing where it can't."""
    try:
        return rules[name].react(soup, Firing(name, at, choice))
    except (Disabled, Refused):
        return None


def _can(soup: Soup, rules: RuleSet, name: str, at: tuple[str, ...], choice: Choice = None) -> bool:
    return _tried(soup, rules, name, at, choice) is not None


# ---- the state machine ---------------------------------------------------------------------------


def deterministic_transitions(soup: Soup, rules: RuleSet) -> Iterator[str]:
    """An action names one target: a record's state is where the table leads its history."""
    for record in soup.of(Record):
        here: State | None = State.INTENT
        for entry in record.history:
            here = TRANSITIONS[here].get(entry.action) if here is entry.state else None
            if here is None:
                break
        if here is not record.state:
            yield f"the history of {record.id} does not lead to {record.state}"


def termination_guaranteed(soup: Soup, rules: RuleSet) -> Iterator[str]:
    """A live record has a way out: the human may withdraw it, failures use up budgets, no count exceeds its bound."""
    for record in soup.of(Record):
        if not record.live:
            continue
        if not _can(soup, rules, "transition", (record.id,), Passage(Action.WITHDRAW, HUMAN)):
            yield f"the human can't withdraw {record.id}"
        if max(record.pendings, record.violations) > soup.charter.retry_budget or record.dialogs > 1:
            yield f"{record.id} has failed more often than its budget allows"
        if record.circled > soup.charter.backtracks * (1 + record.lifted) or record.lifted > 1:
            yield f"{record.id} went back more often than its bound allows"
        at = (record.id,)
        if not (
            _can(soup, rules, "strike", at, "pending")
            or _can(soup, rules, "dialog", at)
            or _can(soup, rules, "transition", at, Passage(Action.FAILURE, ORCHESTRATOR))
            or _can(soup, rules, "transition", at, Passage(Action.WITHDRAW, ORCHESTRATOR))  # it was given up
        ):
            yield f"{record.id} can fail no more and does not end"
    for tally in soup.of(Tally):
        limit = soup.charter.exchanges
        surface = soup.get(Surface, tally.thread, tally.agent)
        spoken = tally.vain if surface is None or surface.rounds is not Rounds.TEAM else 0
        if spoken > limit or any(times > soup.charter.repeats for _, times in tally.asked):
            yield f"{tally.agent} on {tally.thread} has sent and asked more often than its bound allows"


# ---- the soup is linear --------------------------------------------------------------------------


def single_instance(soup: Soup, rules: RuleSet) -> Iterator[str]:
    """A living (agent, thread) has one of Idle, Run, Send, AskQuestion and one mailbox; a dying one at most."""
    lives = Counter((m.agent, m.thread) for m in _each(soup, INSTANCE))
    boxes = Counter((m.agent, m.thread) for m in _each(soup, (Mailbox,)))
    installed = {(surface.agent, surface.thread) for surface in soup.of(Surface)}
    for agent, thread in installed | lives.keys() | boxes.keys():
        who = (agent, thread)
        if who not in installed:
            yield f"{agent} acts on {thread}, where it was never installed"
        for count, what in ((lives[who], "instances"), (boxes[who], "mailboxes")):
            if count > 1 or (count < 1 and not soup.dying(thread)):
                yield f"{agent} has {count} {what} on {thread}"


def _each(soup: Soup, kinds: tuple[type[Any], ...]) -> list[Any]:
    """The molecules of some kinds, each as often as it is there."""
    return [molecule for molecule in soup if type(molecule) in kinds]


def tree_shape(soup: Soup, rules: RuleSet) -> Iterator[str]:
    """Edges form a tree rooted at the job: every live instance was sparked from one thread that is still there."""
    above: dict[str, str] = {}
    for edge in _each(soup, (Parent,)):
        if edge.child in above:
            yield f"{edge.child} has two parents"
        above[edge.child] = edge.thread
        if soup.get(Surface, edge.thread) is None:
            yield f"{edge.child} hangs on {edge.thread}, which is gone"
        if soup.get(Surface, edge.child) is None and not soup.dying(edge.child):
            yield f"an edge leads to {edge.child}, which never was"
    for surface in soup.of(Surface):
        thread = surface.thread
        if thread not in above and thread_kind(thread) != "job" and not soup.dying(thread):
            yield f"{thread} hangs on nothing"
        walked: set[str] = set()
        while thread in above and thread not in walked:
            walked.add(thread)
            thread = above[thread]
        if thread in walked:
            yield f"{surface.thread} is its own ancestor"


def fan_out_cap(soup: Soup, rules: RuleSet) -> Iterator[str]:
    """No instance has more dispatches open than its fan-out allows; the job itself has no limit."""
    opened = Counter(
        edge.thread for edge in soup.of(Parent) if thread_kind(edge.child) == "dispatch" and not soup.dying(edge.child)
    )
    for thread, count in opened.items():
        if count != soup.open_dispatches(thread):
            yield f"{thread} is said to have {soup.open_dispatches(thread)} dispatches open, and has {count}"
        if count > soup.charter.fan_out and thread_kind(thread) != "job":
            yield f"{thread} has {count} dispatches open, of {soup.charter.fan_out}"


def spark_exclusivity(soup: Soup, rules: RuleSet) -> Iterator[str]:
    """A thread's surface is installed once, as its agent's role has it; only roles of the job join its team."""
    threads = Counter(surface.thread for surface in _each(soup, (Surface,)))
    for surface in soup.of(Surface):
        thread = surface.thread
        if threads[thread] > 1:
            yield f"{thread} has {threads[thread]} surfaces"
        role = soup.charter.role(surface.agent)
        own = (surface.tools, surface.messages, surface.asserts, surface.rounds)
        if role is None or (role.tools, role.takes, role.asserts, role.rounds) != own:
            yield f"the surface of {surface.agent} on {thread} is not its role's"
        elif not role.team <= surface.team or any(soup.charter.role(name) is None for name in surface.team - role.team):
            yield f"the team of {surface.agent} on {thread} is not its role's, and who joined it"


def routing_locality(soup: Soup, rules: RuleSet) -> Iterator[str]:
    """A letter under way goes along an edge, or to a new thread for an agent of the sender's team."""
    for send in soup.of(Send):
        surface = soup.get(Surface, send.thread, send.agent)
        for letter in send.payloads:
            if not isinstance(letter, Deliver) or soup.dying(letter.thread) or soup.dying(send.thread):
                continue
            there = soup.get(Surface, letter.thread)
            if there is None:
                if surface is None or letter.agent not in surface.team:
                    yield f"{send.agent} on {send.thread} sparks {letter.agent}, who is not in its team"
            elif there.agent != letter.agent or not _linked(soup, send, letter.thread):
                yield f"{send.agent} on {send.thread} writes to {letter.thread}, which it does not see"


def _linked(soup: Soup, send: Send, other: str) -> bool:
    return send.agent == ORCHESTRATOR or other in (soup.parent(send.thread), *soup.children(send.thread))


def sends_get_out(soup: Soup, rules: RuleSet) -> Iterator[str]:
    """What was accepted reduces: a Send's next payload can go, or waits only for its recipient's end."""
    for send in soup.of(Send):
        at = (send.agent, send.thread)
        if soup.dying(send.thread):
            continue
        head = send.payloads[0] if send.payloads else None
        out: tuple[str, ...]
        if isinstance(head, Deliver):
            out = ("send", "spark", "dead-letter")
            if soup.get(Terminate, head.thread):
                continue
        else:
            out = ("send-terminate",) if isinstance(head, Close) else ("send-empty", "send-ask")
        if not any(_can(soup, rules, name, at, "notice") for name in out):
            yield f"the Send of {send.agent} on {send.thread} is stuck"


# ---- the workspace -------------------------------------------------------------------------------


def sandbox_integrity(soup: Soup, rules: RuleSet) -> Iterator[str]:
    """An instance has a workspace of its own; only the orchestrator and the leads of its states share their job's."""
    for surface in soup.of(Surface):
        thread = surface.thread
        due = job_thread(soup.charter.job) if thread_kind(thread) in ("job", "state") else thread
        if surface.workspace != due:
            yield f"{thread} works in {surface.workspace or 'no workspace'}, and not in {due}"


# ---- escalation ----------------------------------------------------------------------------------


def escalation_reaches_respond(soup: Soup, rules: RuleSet) -> Iterator[str]:
    """Every question goes on: to the proxy, to the human where the policy lets it, and to its answer."""
    for asked in soup.of(AskQuestion):
        if not soup.dying(asked.thread) and not _can(soup, rules, "ask", (asked.agent, asked.thread)):
            yield f"the question of {asked.agent} on {asked.thread} is never put"
    for proxy in soup.of(Proxy):
        answer = Answer("answer", HUMAN if proxy.heard else PROXY, proxy.said, proxy.words)
        if _ends(soup, proxy):
            continue
        if proxy.policy is not Policy.ALWAYS or proxy.heard:
            ready = _can(soup, rules, "respond", (proxy.id,), answer)
        else:
            ready = _can(soup, rules, "escalate", (proxy.id,), "framing")
        if not ready:
            yield f"question {proxy.id} of {proxy.thread} can't be answered"
    for waiting in soup.of(AskHuman):
        if not _ends(soup, waiting) and not _can(soup, rules, "human-reply", (waiting.id,), Answer("reply", HUMAN)):
            yield f"the human can't reply to question {waiting.id} of {waiting.thread}"


def _ends(soup: Soup, question: Escalation) -> bool:
    return soup.dying(question.thread) or soup.dying(escalation_thread(question.id))


# ---- withdrawal ----------------------------------------------------------------------------------


def cascade_completeness(soup: Soup, rules: RuleSet) -> Iterator[str]:
    """A Terminate can consume all that is on its thread and reach every child; then it ends."""
    for terminate in soup.of(Terminate):
        thread = terminate.thread
        left = [(name, m) for kind, name in ENDS.items() for m in soup.all(kind, thread)]
        for name, molecule in left:
            which = getattr(molecule, "id", "") or getattr(molecule, "agent", "") or molecule.message
            if not _can(soup, rules, name, (thread, which)):
                yield f"{type(molecule).__name__} {which} outlives the Terminate on {thread}"
        for child in soup.children(thread):
            if not _can(soup, rules, "cascade", (thread, child)):
                yield f"the Terminate on {thread} does not reach {child}"
        record = soup.get(Record, thread)
        live = record is not None and record.live
        ends = (_can(soup, rules, "term-record", (thread,), Passage(action, ORCHESTRATOR)) for action in Action)
        if live and not any(ends):
            yield f"the record of {thread} outlives its Terminate"
        if left or live or soup.has_children(thread):
            continue
        if not _can(soup, rules, "term-final", (thread,)) and not _can(soup, rules, "term-again", (thread,)):
            yield f"the Terminate on {thread} never ends"


def the_dead_stay_dead(soup: Soup, rules: RuleSet) -> Iterator[str]:
    """Nothing is left on a dead thread, or comes to it, but a Terminate that passes."""
    kinds: tuple[type[Any], ...] = (*ENDS, Surface, Crashed, Tally, Hold)
    for grave in soup.of(Tombstone):
        thread = grave.thread
        for kind in kinds:
            if soup.get(kind, thread) is not None:
                yield f"{thread} is dead and has a {kind.__name__}"
        if soup.has_children(thread):
            yield f"{thread} is dead and has children"
        record = soup.get(Record, thread)
        if record is not None and record.live:
            yield f"{thread} is dead and its record lives"


def no_instance_waits_for_the_dead(soup: Soup, rules: RuleSet) -> Iterator[str]:
    """An open question has its asker and its proxy; a parent that lives hears of a withdrawal."""
    questions: tuple[Escalation, ...] = (*soup.of(Proxy), *soup.of(AskHuman))
    for question in questions:
        esc = escalation_thread(question.id)
        for thread in (question.thread, esc):
            if soup.get(Surface, thread) is None:
                yield f"question {question.id} waits for {thread}, which is gone"
    for surface in soup.of(Surface):
        thread = surface.thread
        parent = soup.parent(thread)
        if parent is None or soup.dying(thread) or soup.dying(parent):
            continue
        told = _tried(soup, rules, "withdraw", (thread,), Ending(Origin.WITHDRAWAL, "notice"))
        if told is None or not any(
            isinstance(m, Mailbox) and m.thread == parent and m.queue[-1:] == ("notice",) for m in told.produced
        ):
            yield f"{parent} would not hear of the withdrawal of {thread}"


# ---- persistence and recovery --------------------------------------------------------------------


def bus_durability(soup: Soup, rules: RuleSet) -> Iterator[str]:
    """After a crash all of it is there: each molecule is read as it was written, and a lost turn takes nothing else."""
    if not len(soup):
        return
    charters = soup.of(Charter)
    if len(charters) != 1:
        yield f"the job has {len(charters)} charters"
        return
    job = charters[0].job
    ids = Counter(record.id for record in _each(soup, (Record,)))
    if ids[job] != 1:
        yield f"{job} has {ids[job]} records"
    yield from (f"{name} has {count} records" for name, count in ids.items() if count > 1 and name != job)
    root = job_thread(job)
    if soup.get(Surface, root) is None and not soup.dying(root):
        yield f"{root} is gone without having been terminated"
    yield from (f"{molecule!r} is not read as it was written" for molecule in soup if not _is_read_back(molecule))
    yield from (problem for run in soup.of(Run) for problem in _lost_with(soup, rules, run))


@lru_cache(maxsize=1 << 14)  # most molecules of a soup were in the soup before it
def _is_read_back(molecule: Molecule) -> bool:
    try:
        return decode_molecule(encode_term(molecule)) == molecule
    except ProtocolError:
        return False


def _lost_with(soup: Soup, rules: RuleSet, run: Run) -> Iterator[str]:
    """What does not survive when the process of a turn dies."""
    back = _tried(soup, rules, "recover", (run.agent, run.thread), "engine")
    if back is None:
        return
    # its mailbox, with its message before all others, takes the place of the one that it took the message from
    kept = [replace(m, queue=m.queue[1:]) for m in back.produced if isinstance(m, Mailbox)]
    for molecule in back.consumed:
        if molecule != run and molecule not in back.produced and molecule not in kept:
            yield f"{molecule.brief()} is lost when the turn of {run.agent} on {run.thread} crashes"


def bounded_crash_loss(soup: Soup, rules: RuleSet) -> Iterator[str]:
    """A lost turn loses only itself: its message, or its Interrupt, can come back to an idle instance."""
    for run in soup.of(Run):
        if soup.dying(run.thread):
            continue
        back = _tried(soup, rules, "recover", (run.agent, run.thread), "engine")
        if back is None:
            yield f"the turn of {run.agent} on {run.thread} can't be recovered"
            continue
        box = next((m for m in back.produced if isinstance(m, Mailbox)), None)
        returned = (
            run.interrupt in back.produced
            if run.interrupt is not None
            else box is not None and box.thread == run.thread and box.queue[:1] == (run.message,)
        )
        if not returned or Idle(run.agent, run.thread) not in back.produced:
            yield f"{run.message} is lost when the turn of {run.agent} on {run.thread} crashes"


def audit_append_only(soup: Soup, rules: RuleSet) -> Iterator[str]:
    """A record can be made again from its history: its counts, who leads it and where, and what stands approved."""
    for record in soup.of(Record):
        phases, approved, back = soup.charter.phases, set[State](), 0
        for entry in record.history:
            target = TRANSITIONS[entry.state].get(entry.action, entry.state)
            if is_backtrack(entry.state, entry.action):
                back += 1
                approved = {state for state in approved if LIVE.index(state) < LIVE.index(target)}
            elif entry.action is APPROVAL.get(entry.state):
                approved.add(entry.state)
        visit = len(record.history) + 1
        if (record.backtrack_count, record.visit) != (back, visit) or record.circled > back:
            yield f"the counts of {record.id} are not those of its history"
        lead = "" if not record.live else record.team_id if record.depth else soup.charter.phase(record.state).lead
        thread = record.id if record.depth else state_thread(record.id, visit if record.live else visit - 1)
        if (record.actor, record.thread) != (lead, thread):
            led = f"{record.id} is led by {record.actor or '-'} on {record.thread}"
            yield f"{led}, and its history has it led by {lead or '-'} on {thread}"
        own = {phases[LIVE.index(state)].artifact for state in approved}
        given = {phases[0].artifact} if record.depth else set[str]()  # its intent is approved above it, or not yet
        there = {name for name, _ in record.approved}
        for artifact in there - own - given:
            yield f"{artifact} stands approved in {record.id}, and its history shows no approval of it"
        ends = not record.live or soup.all(Terminate, record.id)  # [term-record] passes its last gates for it
        for artifact in () if ends else own - there - given:
            yield f"{artifact} was approved in {record.id}, and does not stand approved any more"


def live_gates(soup: Soup, rules: RuleSet) -> Iterator[str]:
    """Assertions and verdicts belong to a live record; an artifact has one of each at most; leads hear of theirs."""
    live = {record.id for record in soup.of(Record) if record.state in LIVE}
    named: Counter[tuple[type[Any], str, str]] = Counter()
    for gate in _each(soup, (Assertion, Verdict)):
        named[type(gate), gate.record, gate.artifact] += 1
        if gate.record not in live:
            yield f"{gate.record} has ended and has a {type(gate).__name__}"
        elif isinstance(gate, Verdict) and not gate.told and not _relayed(soup, rules, gate):
            yield f"the lead of {gate.record} never hears of the verdict on {gate.question}"
    for (kind, record, artifact), count in named.items():
        if count > 1:
            yield f"{record} has {count} of {kind.__name__} on {artifact or 'no artifact'}"


def _relayed(soup: Soup, rules: RuleSet, verdict: Verdict) -> bool:
    dying = soup.dying(soup.need(Record, verdict.record).thread)
    return dying or _can(soup, rules, "relay", (verdict.record, verdict.question), "notice")


INVARIANTS: Mapping[str, Invariant] = MappingProxyType(
    {
        invariant.__name__: invariant
        for invariant in (
            deterministic_transitions,
            termination_guaranteed,
            single_instance,
            tree_shape,
            fan_out_cap,
            spark_exclusivity,
            routing_locality,
            sends_get_out,
            sandbox_integrity,
            escalation_reaches_respond,
            cascade_completeness,
            the_dead_stay_dead,
            no_instance_waits_for_the_dead,
            bus_durability,
            bounded_crash_loss,
            audit_append_only,
            live_gates,
        )
    }
)


ELSEWHERE: Mapping[str, str] = MappingProxyType(
    {
        "sandbox_integrity": "by the audit, of every turn: the verdict on the boundary that its agent ran behind",
        "bus_durability": "by the audit, of every row that the next owner goes on from, and of the outcome record"
        " behind every transition; by the simulator, of what a crash leaves",
        "audit_append_only": "as a law, of every step; by the audit, of the numbers and the chain of all rows, and of"
        " what the anchor and every turn's snapshot have seen; by the simulator, of all rows before and after a crash",
    }
)
"""What is checked under the same name where more can be seen than a soup."""


def problems(soup: Soup, rules: RuleSet = RULES) -> Iterator[tuple[str, str]]:
    """What is wrong with a soup: the invariant's name, and the problem."""
    for name, invariant in INVARIANTS.items():
        for problem in invariant(soup, rules):
            yield name, problem


def check(soup: Soup, rules: RuleSet = RULES) -> None:
    """Raise Violated, with the invariant's name and the thread, unless all of them hold."""
    for name, problem in problems(soup, rules):
        raise Violated(name, problem)


def lawful(before: Soup, firing: Firing, after: Soup, rules: RuleSet = RULES) -> None:
    """Raise Violated unless the step is what the rule does, and every law of steps holds for it."""
    reaction = _tried(before, rules, firing.rule, firing.at, firing.choice)
    if reaction is None:
        raise Violated("enabled", f"[{firing.rule}] at {', '.join(firing.at)} is not enabled")
    if before.after(reaction.consumed, reaction.produced) != after:
        raise Violated("enabled", f"[{firing.rule}] at {', '.join(firing.at)} does something else")
    judge(Step(before, firing, reaction))
