"""What a step may do: the laws that every firing keeps, checked apart from the rules' code.

A law reads the soup before, the firing, and what the step took and gave. It shares no code with the rules:
each law states, rule by rule, what may end and what may begin, and everything else must stay as it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, cast

from msgspec.structs import replace

from parley.protocol.errors import Violated
from parley.protocol.molecules import (
    HUMAN,
    ORCHESTRATOR,
    PROXY,
    AskHuman,
    AskQuestion,
    Charter,
    Close,
    Crashed,
    Hold,
    Idle,
    Interrupt,
    Mailbox,
    MessageKind,
    Molecule,
    Origin,
    Parent,
    Policy,
    Proxy,
    Record,
    Role,
    Ruling,
    Run,
    Send,
    Surface,
    Tally,
    Terminate,
    Tombstone,
    escalation_thread,
    job_thread,
    thread_kind,
)
from parley.protocol.rule import Answer, Asking, Ending, Enrolment, Opening
from parley.protocol.rules import RULES
from parley.protocol.soup import Soup
from parley.protocol.states import State
from parley.verify.bound_laws import speech_is_counted
from parley.verify.gate_laws import (
    assertions_are_the_newest,
    gates_are_kept,
    history_only_grows,
    policy_at,
    verdicts_come_from_answers,
)
from parley.verify.notation import form_of, misfits
from parley.verify.step import Born, Queue, Step, Who, carried

Law = Callable[[Step], Iterator[str]]


# ---- mail and instances ----------------------------------------------------------------------------


def conservation_of_mail(step: Step) -> Iterator[str]:
    """No message is lost and none is doubled: only what the rule ends is gone, only what it begins is new."""
    mail = step.mail
    there = [*mail.ended, *(message for molecule in step.made for message in carried(molecule))]
    due = [*mail.begun, *(message for molecule in step.gone for message in carried(molecule))]
    if sorted(there) != sorted(due):
        change = Counter(there)
        change.subtract(due)
        for message, count in change.items():
            if count:
                yield f"{message} is there {count:+d} times at {step.at[-1]}"


def first_in_first_out(step: Step) -> Iterator[str]:
    """Mailboxes grow at their ends and are read from their heads; a lost turn's message goes back first."""
    mail = step.mail
    expected: dict[Who, Queue | None] = {
        **dict(mail.boxes),
        **{(born.agent, born.thread): born.mail for born in step.born},
    }
    seen: dict[Who, Queue | None] = {(m.agent, m.thread): None for m in step.lost(Mailbox)}
    seen.update({(m.agent, m.thread): m.queue for m in step.new(Mailbox)})
    for who in expected.keys() | seen.keys():
        if expected.get(who, ()) != seen.get(who, ()) or (who in seen) != (who in expected):
            yield f"the mailbox of {who[0]} on {who[1]} became {seen.get(who)}, not {expected.get(who)}"


LIFE: Mapping[str, tuple[type[Any], type[Any] | None]] = MappingProxyType(
    {
        "send": (Send, Send),
        "spark": (Send, Send),
        "send-terminate": (Send, Send),
        "dead-letter": (Send, Send),
        "send-empty": (Send, Idle),
        "send-ask": (Send, Idle),
        "wake": (Idle, Run),
        "wake-int": (Idle, Run),
        "interrupt": (Run, Run),
        "send-step": (Run, Send),
        "nosend-step": (Run, Idle),
        "ask-step": (Run, AskQuestion),
        "recover": (Run, Idle),
        "give-up": (Run, Idle),
        "ask": (AskQuestion, Idle),
        "term-run": (Run, None),
        "term-idle": (Idle, None),
        "term-send": (Send, None),
        "term-ask": (AskQuestion, None),
    }
)
"""What each rule makes of the instance at its site; no other rule, and no other instance, changes."""

INSTANCE: tuple[type[Any], ...] = (Idle, Run, Send, AskQuestion)


def one_life_at_its_site(step: Step) -> Iterator[str]:
    """A rule changes the one instance at its site, as its name says; who comes into being is idle."""
    begun = {(born.agent, born.thread, Idle) for born in step.born}
    ended: set[tuple[str, str, type[Any]]] = set()
    if step.rule in LIFE:
        old, now = LIFE[step.rule]
        who = (step.at[0], step.at[1]) if not step.rule.startswith("term-") else (step.at[1], step.at[0])
        ended.add((*who, old))
        if now is not None:
            begun.add((*who, now))
    for expected, changed, verb in ((ended, step.gone, "ends"), (begun, step.made, "begins")):
        found = [(m.agent, m.thread, type(m)) for m in cast("list[Any]", changed) if type(m) in INSTANCE]
        if len(found) != len(expected) or set(found) != expected:
            yield f"at {step.at[-1]} {verb} {_names(found)}, not {_names(expected)}"


def _names(lives: Iterable[tuple[str, str, type[Any]]]) -> str:
    return ", ".join(f"{kind.__name__} {agent} {thread}" for agent, thread, kind in lives) or "nothing"


def what_was_chosen(step: Step) -> Iterator[str]:
    """A turn works on the message it was woken with, and what its agent chose goes out whole and in order."""
    agent, thread = step.at[0], step.at[1] if len(step.at) > 1 else ""
    for run in step.new(Run):
        by = step.lost(Interrupt)
        if step.rule == "wake":
            due: tuple[str, Interrupt | None] = (step.had(Mailbox, thread, agent).queue[0], None)
        else:
            due = (step.at[2], by[0] if by else None)
        if (run.message, run.interrupt) != due or run.turn != step.choice:
            yield f"{agent} on {thread} runs on {run.message}, not on {due[0]}"
    for send in step.new(Send):
        if step.rule == "send-step":
            whole = Send(agent, thread, step.choice.payloads, step.choice.questions)
        else:
            had = step.had(Send, thread, agent)
            whole = Send(agent, thread, had.payloads[1:], had.questions)
        if send != whole:
            yield f"the Send of {agent} on {thread} is not what is left of it"
    for asked in step.new(AskQuestion):
        if asked.questions != step.chosen(Asking).questions:
            yield f"{agent} on {thread} does not ask what it chose to"
        if asked.policy is not policy_at(step.before, thread):
            yield f"{agent} on {thread} asks under {asked.policy}, which is not its state's policy"


def the_tree_grows_by_sparks(step: Step) -> Iterator[str]:
    """Edges and surfaces come with an instance that comes into being; edges go by cascade alone."""
    born = step.born
    edges = {Parent(b.thread, b.parent) for b in born if b.parent}
    if set(step.new(Parent)) != edges or len(step.new(Parent)) != len(edges):
        yield f"[{step.rule}] at {step.at[-1]} draws {len(step.new(Parent))} edges, not {len(edges)}"
    installed = [(s.agent, s.thread) for s in step.new(Surface)]
    changed = [step.at] if step.rule == "enrol" and installed else []
    if sorted(installed) != sorted([*((b.agent, b.thread) for b in born), *changed]):
        yield f"[{step.rule}] at {step.at[-1]} installs {installed}"
    cut = [Parent(step.at[1], step.at[0])] if step.rule == "cascade" else []
    if step.lost(Parent) != cut:
        yield f"[{step.rule}] at {step.at[-1]} cuts {len(step.lost(Parent))} edges"
    removed = {s.thread for s in step.lost(Surface)}
    if removed != {thread for _, thread in changed} and (step.rule != "term-final" or removed != {step.at[0]}):
        yield f"[{step.rule}] removes the surface of {', '.join(removed)}"
    for b in born:
        if step.before.get(Surface, b.thread) or step.before.get(Mailbox, b.thread) or step.before.dying(b.thread):
            yield f"{b.thread} comes into being a second time"
    if step.rule == "spark":
        yield from _dispatched(step, born[0])


def _dispatched(step: Step, born: Born) -> Iterator[str]:
    sender = step.had(Surface, step.at[1], step.at[0])
    if born.agent not in sender.team:
        yield f"{born.agent} is not in the team of {sender.agent} on {sender.thread}"
    # as the soup counts them; the invariant fan_out_cap counts them anew, at the cost of all there ever were
    open_now = step.before.open_dispatches(sender.thread)
    if thread_kind(sender.thread) != "job" and open_now >= step.before.charter.fan_out:
        yield f"{sender.thread} opens {born.thread} over its fan-out of {step.before.charter.fan_out}"


def workspaces_are_apart(step: Step) -> Iterator[str]:
    """A lead works where the job does. Every other new instance, the proxy of a question too, works apart."""
    for b in step.born:
        above = step.before.get(Surface, b.parent) if b.parent else None
        due = above.workspace if above is not None and thread_kind(b.thread) == "state" else b.thread
        if any(s.workspace != due for s in step.new(Surface) if s.thread == b.thread):
            yield f"{b.agent} on {b.thread} does not work in {due}"


def letters_follow_edges(step: Step) -> Iterator[str]:
    """[send] goes along an edge, unless the orchestrator sends; [dead-letter] is for the dead alone."""
    if step.rule == "send":
        sender, other = step.at[1], step.head().thread
        edges = (Parent(other, sender), Parent(sender, other))
        if step.at[0] != ORCHESTRATOR and not any(edge in step.before for edge in edges):
            yield f"{step.at[0]} on {sender} writes to {other}, which it does not see"
    if step.rule == "dead-letter" and Tombstone(step.head().thread) not in step.before:
        yield f"the letter to {step.head().thread} is not dead"


DELIVERS: Mapping[str, MessageKind] = MappingProxyType(
    {
        "open": MessageKind.REQUEST,
        "spark": MessageKind.TASK,
        "ask": MessageKind.QUESTION,
        "send-ask": MessageKind.QUESTION,
        "human-reply": MessageKind.REPLY,
        "respond": MessageKind.ANSWER,
        "observe": MessageKind.OUTCOME,
        "dead-letter": MessageKind.NOTICE,
        "merge": MessageKind.NOTICE,
        "relay": MessageKind.NOTICE,
        "pending": MessageKind.NOTICE,
        "give-up": MessageKind.NOTICE,
        "withdraw": MessageKind.NOTICE,
    }
)
"""What each rule brings to a mailbox that grows by it; what [send] brings follows from the edge that it goes along."""


def surfaces_are_heeded(step: Step) -> Iterator[str]:
    """Only what a surface lists is delivered to it; a question and a dispatch need one that takes what comes back."""
    there = {surface.thread: surface for surface in step.new(Surface)}
    for (agent, thread), queue in _grown(step):
        surface = there.get(thread) or step.before.get(Surface, thread, agent)
        kind = _sent_as(step, thread) if step.rule == "send" else DELIVERS.get(step.rule)
        if surface is None or kind not in surface.messages:
            what = kind or "message of no kind"
            yield f"[{step.rule}] brings {agent} on {thread} {queue[-1]}, a {what} that it does not take"
    for interrupt in step.new(Interrupt) if step.rule == "intervene" else ():
        if MessageKind.INTERVENTION not in step.had(Surface, interrupt.thread).messages:
            yield f"{interrupt.thread} is redirected, and takes no intervention"
    if step.rule == "spark" and MessageKind.REPORT not in step.had(Surface, step.at[1], step.at[0]).messages:
        yield f"{step.at[0]} on {step.at[1]} dispatches, and takes no report"


def _grown(step: Step) -> Iterator[tuple[Who, Queue]]:
    """The mailboxes that have a message more at their ends, or begin with one; [recover] gives back what was taken."""
    if step.rule == "recover":
        return
    before = {(box.agent, box.thread): box.queue for box in step.lost(Mailbox)}
    for box in step.new(Mailbox):
        was = before.get((box.agent, box.thread), ())
        if len(box.queue) > len(was) and box.queue[: len(was)] == was:
            yield (box.agent, box.thread), box.queue


def _sent_as(step: Step, thread: str) -> MessageKind:
    if step.at[0] == ORCHESTRATOR:
        return MessageKind.NOTICE
    up = Parent(step.at[1], thread) in step.before
    return MessageKind.REPORT if up else MessageKind.MESSAGE


# ---- the end of threads --------------------------------------------------------------------------


def terminates_have_a_cause(step: Step) -> Iterator[str]:
    """Terminate comes by a close, a cascade, a withdrawal or an answer, and goes when its thread is empty."""
    due: list[Terminate] = []
    if step.rule == "send-terminate":
        close = step.payload(Close)
        accepts = close.origin is Origin.CLOSE and _has_finished(step.before, close.thread)
        due = [Terminate(close.thread, Origin.ACCEPT if accepts else close.origin)]
        if Parent(close.thread, step.at[1]) not in step.before:
            yield f"{step.at[1]} closes {close.thread}, which it did not open"
    elif step.rule == "cascade":
        # where a thread is terminated twice, what was abandoned outweighs what was merely ended
        origins = {terminate.origin for terminate in step.before.all(Terminate, step.at[0])}
        weight = (Origin.WITHDRAWAL, Origin.BACKTRACK, Origin.END, Origin.PHASE, Origin.CLOSE, Origin.ACCEPT)
        due = [Terminate(step.at[1], next(origin for origin in weight if origin in origins))] if origins else []
    elif step.rule == "withdraw":
        due = [Terminate(step.at[0], step.chosen(Ending).origin)]
        job = step.had(Record, step.before.charter.job)
        root, given_up = job_thread(job.id), job.state is State.WITHDRAWN
        if step.at[0] == root and (job.live or given_up != (due[0].origin is Origin.WITHDRAWAL)):
            yield f"{root} ends by {due[0].origin}, and its job is in {job.state}"
    elif step.rule == "respond":
        due = [Terminate(escalation_thread(step.at[0]), Origin.CLOSE)]
    if step.new(Terminate) != due:
        yield f"[{step.rule}] at {step.at[-1]} makes {step.new(Terminate)}"
    gone = [t.thread for t in step.lost(Terminate)]
    if gone != ([step.at[0]] if step.rule in ("term-final", "term-again") else []):
        yield f"[{step.rule}] at {step.at[-1]} ends {len(gone)} Terminates"
    if step.rule in ("term-final", "term-again"):
        left = sum(step.before.count(t) for t in step.before.all(Terminate, step.at[0])) - len(gone)
        if left if step.rule == "term-final" else not left:
            yield f"[{step.rule}] leaves {left} Terminates on {step.at[0]}"


def _has_finished(soup: Soup, thread: str) -> bool:
    """Whether a subteam waits for mail, with no turn, mail, question or interrupt on its thread or below it."""
    if soup.get(Record, thread) is None or not soup.all(Idle, thread):
        return False
    below, reached = [thread], list[str]()
    while below:
        reached.append(below.pop())
        below.extend(soup.children(reached[-1]))
    busy: tuple[type[Any], ...] = (Run, Send, AskQuestion, Proxy, AskHuman, Interrupt)
    mail = any(box.queue for here in reached for box in soup.all(Mailbox, here))
    return not mail and not any(soup.all(kind, here) for kind in busy for here in reached)


TAGGED: tuple[type[Any], ...] = (*INSTANCE, Mailbox, Proxy, AskHuman, Interrupt)


def graves_are_final(step: Step) -> Iterator[str]:
    """A tombstone is set by [term-final] on a thread that is empty, and is never taken away."""
    if step.lost(Tombstone):
        yield f"[{step.rule}] takes away the tombstone of {step.lost(Tombstone)[0].thread}"
    due: list[Tombstone] = []
    if step.rule == "term-final":
        thread = step.at[0]
        grave = Tombstone(thread)
        due = [] if grave in step.before else [grave]
        kinds: tuple[type[Any], ...] = (*TAGGED, Surface, Crashed, Tally, Hold)
        left = [kind.__name__ for kind in kinds if step.kept(kind, thread)]
        record = step.before.get(Record, thread)
        if record is not None and record.live:
            left.append("Record")
        if left or step.before.children(thread):
            yield f"{thread} ends with {', '.join(left) or 'children'} left"
    if step.new(Tombstone) != due:
        yield f"[{step.rule}] at {step.at[0]} sets {len(step.new(Tombstone))} tombstones, not {len(due)}"


# ---- escalation, interrupts, holds ---------------------------------------------------------------


CLOSES: Mapping[str, type[Any]] = MappingProxyType(
    {
        "escalate": Proxy,
        "respond": Proxy,
        "term-proxy": Proxy,
        "human-reply": AskHuman,
        "term-human": AskHuman,
    }
)
"""What each rule ends of an escalation."""


def policies_are_kept(step: Step) -> Iterator[str]:
    """Under `always` the human comes before the answer, under `never` not at all; a reply alone is heard."""
    made = step.new(Proxy)
    if step.rule in ("ask", "send-ask"):
        thread = step.at[1]
        policy = step.had(AskQuestion, thread).policy if step.rule == "ask" else policy_at(step.before, thread)
        due = [Proxy(id=q.id, agent=step.at[0], thread=thread, question=q, policy=policy) for q in step.asks()]
        if Counter(made) != Counter(due):
            yield f"{len(made)} fresh proxies stand for the questions on {thread}"
    elif step.rule == "human-reply":
        was = step.had(AskHuman, escalation_thread(step.at[0]))
        words = (*was.words, step.choice.message)
        due = [
            Proxy(
                id=was.id,
                agent=was.agent,
                thread=was.thread,
                question=was.question,
                policy=was.policy,
                heard=True,
                said=step.choice.ruling,
                words=words,
            )
        ]
        if made != due or step.lost(AskHuman) != [was]:
            yield f"the human's reply to question {was.id} is not passed on"
    elif made:
        yield f"[{step.rule}] at {step.at[0]} makes a proxy"
    if step.rule in ("escalate", "respond"):
        yield from _proxy_acts(step, step.had(Proxy, escalation_thread(step.at[0])))
    elif step.new(AskHuman):
        yield f"[{step.rule}] at {step.at[0]} asks the human"
    ended = [type(m) for m in step.gone if isinstance(m, Proxy | AskHuman)]
    if ended != ([CLOSES[step.rule]] if step.rule in CLOSES else []):
        yield f"[{step.rule}] at {step.at[-1]} ends {len(ended)} questions"


def _proxy_acts(step: Step, proxy: Proxy) -> Iterator[str]:
    if step.rule == "escalate":
        if proxy.policy is Policy.NEVER:
            yield f"question {proxy.id} goes to the human under never"
        if proxy.said is not None:
            yield f"question {proxy.id} goes to the human again, who said {proxy.said}"
        due = [
            AskHuman(
                id=proxy.id,
                agent=proxy.agent,
                thread=proxy.thread,
                question=proxy.question,
                policy=proxy.policy,
                framing=step.choice,
                words=proxy.words,
            )
        ]
        if step.new(AskHuman) != due:
            yield f"question {proxy.id} does not reach the human"
        return
    answer = step.chosen(Answer)
    if proxy.policy is Policy.ALWAYS and not proxy.heard:
        yield f"question {proxy.id} is answered under always, and the human was not asked"
    if answer.author == HUMAN and not proxy.heard:
        yield f"question {proxy.id} is answered for the human, who said nothing"
    if proxy.said is not None and answer.ruling is not proxy.said:
        yield f"question {proxy.id} is answered {answer.ruling}, and the human said {proxy.said}"


def the_human_is_quoted(step: Step) -> Iterator[str]:
    """An answer carries the human's words, all and as they are; a verdict that they did not give is the proxy's own."""
    if step.rule != "respond":
        return
    proxy, answer = step.had(Proxy, escalation_thread(step.at[0])), step.chosen(Answer)
    if answer.words != proxy.words:
        yield f"the answer to question {proxy.id} does not carry what the human said, or something else as theirs"
    own = answer.ruling is not proxy.said
    if proxy.heard and answer.author != (PROXY if own else HUMAN):
        yield f"the answer {answer.ruling} to question {proxy.id} is said to be the {answer.author}'s"
    if own and answer.ruling is Ruling.WITHDRAW:
        yield f"question {proxy.id} is answered by a withdrawal, and the human did not withdraw"
    if own and answer.ruling is Ruling.APPROVE and proxy.policy is Policy.ALWAYS:
        yield f"question {proxy.id} is approved under always, and the human did not approve"


def interrupts_go_first(step: Step) -> Iterator[str]:
    """An Interrupt goes before mail, preempts only if sent to act at once, and is used up by one turn."""
    thread = step.at[1] if len(step.at) > 1 else step.at[0]
    due: list[Interrupt] = []
    if step.rule == "wake" and step.before.get(Interrupt, thread) is not None:
        yield f"{step.at[0]} on {thread} is woken by mail before its Interrupt"
    if step.rule == "intervene":
        due = [step.chosen(Interrupt)]
        gone = step.before.dying(thread) or step.before.get(Surface, thread) is None
        if gone or due[0].thread != thread:
            yield f"{thread} is redirected, and is not there"
    elif step.rule == "recover" or (step.rule == "give-up" and thread_kind(thread) == "state"):
        brought = step.had(Run, thread, step.at[0]).interrupt
        due = [brought] if brought else []
    if step.new(Interrupt) != due:
        yield f"[{step.rule}] at {thread} makes {len(step.new(Interrupt))} Interrupts, not {len(due)}"
    used = [i.message for i in step.lost(Interrupt)]
    if used != ([step.at[-1]] if step.rule in ("interrupt", "wake-int", "term-interrupt") else []):
        yield f"[{step.rule}] at {thread} uses up {len(used)} Interrupts"
    if step.rule == "interrupt" and not all(i.now for i in step.lost(Interrupt)):
        yield f"an Interrupt for the turn boundary preempts {step.at[0]} on {thread}"


def holds_stop_only_waking(step: Step) -> Iterator[str]:
    """No instance wakes while the job, or it itself, is held; a lead that was given up is; [hold] does nothing else."""
    if step.rule in ("wake", "wake-int"):
        over = {job_thread(step.before.charter.job), step.at[1]}
        if any(hold.thread in over for hold in step.before.of(Hold)):
            yield f"{step.at[0]} on {step.at[1]} wakes while it is held"
    due = [Hold(step.at[0], step.choice)] if step.rule == "hold" else []
    if step.rule == "give-up" and thread_kind(step.at[1]) == "state":
        due = [Hold(step.at[1], "stuck")]
    if step.new(Hold) != due:
        yield f"[{step.rule}] at {step.at[0]} makes {len(step.new(Hold))} holds"
    if step.lost(Hold) and step.rule not in ("release", "term-final"):
        yield f"[{step.rule}] at {step.at[0]} releases the job"


def crashes_are_counted(step: Step) -> Iterator[str]:
    """A turn that its agent lost is counted; one that ends well clears the count, one that is given up sets it to 0."""
    # a count of 0 is kept for a subteam alone: its dispatcher's close accepts no work that it has not done
    agent, thread = step.at[0], step.at[1] if len(step.at) > 1 else ""
    before = step.before.get(Crashed, thread, agent)
    count = before.count if before else 0
    if step.rule == "recover" and step.choice == "agent":
        due = [Crashed(agent, thread, count + 1)]
        if count + 1 >= step.before.charter.crash_budget:
            yield f"{agent} on {thread} is tried again after {count + 1} crashes"
    else:
        given_up = step.rule == "give-up" and step.before.get(Record, thread) is not None
        due = [Crashed(agent, thread, 0)] if given_up else []
    if due == [before]:
        due, before = [], None  # it stays as it is
    if step.new(Crashed) != due:
        yield f"[{step.rule}] at {step.at[-1]} makes {len(step.new(Crashed))} counts of crashes"
    ends = step.rule in ("send-step", "nosend-step", "ask-step", "give-up") or bool(due)
    if step.rule != "term-final" and step.lost(Crashed) != ([before] if ends and before else []):
        yield f"[{step.rule}] at {step.at[-1]} forgets a count of crashes"


def pending_only_at_rest(step: Step) -> Iterator[str]:
    """PENDING is judged when nothing is under way in the job."""
    if step.rule == "pending":
        stirring = (Run, Send, AskQuestion, Proxy, AskHuman, Interrupt, Terminate, Hold)
        for molecule in step.before:
            if type(molecule) in stirring or (isinstance(molecule, Mailbox) and molecule.queue):
                yield f"{step.at[0]} is pending, and has a {type(molecule).__name__}"


def outcomes_end_turns(step: Step) -> Iterator[str]:
    """An outcome record is read, and a merge told, when the instance that it concerns has ended its turn, and lives."""
    if step.rule == "merge":
        agent, thread = step.at
        if step.before.dying(thread) or Idle(agent, thread) not in step.before:
            yield f"{agent} on {thread} is told of a merge in mid-turn"
    if step.rule == "observe":
        record = step.had(Record, step.at[0])
        if step.before.dying(record.thread) or Idle(record.actor, record.thread) not in step.before:
            yield f"the outcome of {record.id} is read in mid-turn on {record.thread}"


def charter_only_grows(step: Step) -> Iterator[str]:
    """What a job was opened with holds for its whole life; [enrol] adds roles to it, and to one instance's team."""
    if step.rule == "enrol":
        yield from _enrolled(step, step.chosen(Enrolment).roles)
        return
    due = [step.chosen(Opening).charter] if step.rule == "open" else []
    if step.lost(Charter) or step.new(Charter) != due:
        yield f"[{step.rule}] at {step.at[0]} changes the charter"


def _enrolled(step: Step, roles: tuple[Role, ...]) -> Iterator[str]:
    agent, thread = step.at
    before, there = step.before.charter, step.had(Surface, thread, agent)
    added = tuple(role for role in roles if before.role(role.name) is None)
    grown = replace(before, roles=before.roles + added)
    if (step.new(Charter) or [before]) != [grown]:
        yield f"the charter is not what it was with {len(added)} more roles"
    team = there.team | {role.name for role in roles}
    if (step.new(Surface) or [there]) != [replace(there, team=team)]:
        yield f"the surface of {agent} on {thread} changes in more than its team"
    if step.before.dying(thread):
        yield f"{thread} is dying, and its team grows"
    for role in roles:
        known = before.roles + roles
        if role.name in (ORCHESTRATOR, PROXY, agent) or not role.team <= {one.name for one in known}:
            yield f"{role.name} joins the team of {agent} on {thread}"


def audit_append_only(step: Step) -> Iterator[str]:
    """What is kept for good is only added to: a record's history, the charter's roles, graves, the human's words."""
    for old in step.lost(Record):
        grown = [new for new in step.new(Record) if new.history[: len(old.history)] == old.history]
        if [_identity(new) for new in grown if new.id == old.id] != [_identity(old)]:
            yield f"[{step.rule}] rewrites the record of {old.id}"
    for before in step.lost(Charter):
        after = [replace(new, roles=new.roles[: len(before.roles)]) for new in step.new(Charter)]
        if after != [before]:
            yield f"[{step.rule}] rewrites the charter"
    for grave in step.lost(Tombstone):
        yield f"[{step.rule}] takes away the tombstone of {grave.thread}"
    said = {question.id: question.words for question in _questions(step.gone)}
    for question in _questions(step.made):
        words = said.get(question.id, ())
        if question.words[: len(words)] != words:
            yield f"[{step.rule}] rewrites what the human said to question {question.id}"


def _questions(molecules: Iterable[Molecule]) -> Iterator[Proxy | AskHuman]:
    return (molecule for molecule in molecules if isinstance(molecule, Proxy | AskHuman))


def _identity(record: Record) -> tuple[str, str, str, str, int]:
    return record.id, record.parent_id, record.team_id, record.task_id, record.depth


def the_rule_does_what_it_says(step: Step) -> Iterator[str]:
    """A step takes and gives the kinds of molecules, and as many, that its rule's notation names."""
    for problem in misfits(form_of(RULES[step.rule]), step.reaction):
        yield f"[{step.rule}] at {step.at[-1]} {problem}"


LAWS: Mapping[str, Law] = MappingProxyType(
    {
        law.__name__: law
        for law in (
            conservation_of_mail,
            first_in_first_out,
            one_life_at_its_site,
            what_was_chosen,
            the_tree_grows_by_sparks,
            workspaces_are_apart,
            letters_follow_edges,
            surfaces_are_heeded,
            terminates_have_a_cause,
            graves_are_final,
            history_only_grows,
            gates_are_kept,
            verdicts_come_from_answers,
            assertions_are_the_newest,
            policies_are_kept,
            the_human_is_quoted,
            interrupts_go_first,
            holds_stop_only_waking,
            crashes_are_counted,
            speech_is_counted,
            pending_only_at_rest,
            outcomes_end_turns,
            charter_only_grows,
            audit_append_only,
            the_rule_does_what_it_says,
        )
    }
)


def judge(step: Step) -> None:
    """Raise Violated, with the law's name and the thread, unless every law holds for the step."""
    for name, law in LAWS.items():
        for problem in law(step):
            raise Violated(name, problem)
