"""The orchestrator's own rules: how a job opens, moves, fails, recovers, pauses and takes new roles in.

All of them are added. The model of agents is silent on what the orchestrator does with what it sees on disk; these
rules make that part of the record. [transition] alone moves a job from state to state, and only through its gate.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from parley.protocol.bounds import BACKTRACKS, PENDING, STUCK, VIOLATION, spent
from parley.protocol.conversation import misfit, refuse_untaken, run_sites, surface
from parley.protocol.errors import Disabled, Refused
from parley.protocol.gates import approvals, circles, moved, refuse_passage
from parley.protocol.molecules import (
    ORCHESTRATOR,
    PROXY,
    Assertion,
    Crashed,
    Hold,
    Idle,
    Mailbox,
    MessageKind,
    Molecule,
    Record,
    Run,
    Surface,
    Tally,
    Verdict,
    job_thread,
    state_thread,
    thread_kind,
)
from parley.protocol.rule import Enrolment, Firing, Menu, Opening, Passage, Reaction, Rule, Sites
from parley.protocol.soup import Soup
from parley.protocol.states import APPROVAL
from parley.protocol.transitions import make_initial_state

HOPELESS = "hopeless"  # said of a lost turn that would be lost again: its boundary does not hold


def _open_sites(soup: Soup, menu: Menu) -> Iterator[Firing]:
    for choice in menu("open", soup, None):
        if isinstance(choice, Opening):
            yield Firing("open", (choice.charter.job,), choice)


def _open(soup: Soup, firing: Firing) -> Reaction:
    if len(soup):
        raise Disabled("a job opens in an empty soup")
    opening = firing.chosen(Opening)
    job = opening.charter.job
    role = opening.charter.role(ORCHESTRATOR)
    if role is None or firing.at != (job,):
        raise Disabled("a job needs an orchestrator")
    for each in opening.charter.roles:
        if why := misfit(each):
            raise Disabled(why)
    thread = job_thread(job)
    lead = opening.charter.phases[0].lead
    record = make_initial_state(job, lead, task_id=opening.task_id, team_id=opening.team_id)
    return Reaction(
        (),
        (
            opening.charter,
            replace(record, thread=state_thread(job, record.visit)),
            Mailbox(ORCHESTRATOR, thread, (opening.request,)),
            Idle(ORCHESTRATOR, thread),
            surface(role, thread, thread),
        ),
    )


def _record_sites(name: str) -> Sites:
    def sites(soup: Soup, menu: Menu) -> Iterator[Firing]:
        for record in soup.of(Record):
            for choice in menu(name, soup, record):
                yield Firing(name, (record.id,), choice)

    return sites


def _live_record(soup: Soup, firing: Firing) -> Record:
    record = soup.need(Record, firing.at[0])
    if not record.live:
        raise Disabled(f"{record.id} has ended")
    return record


def _transition(soup: Soup, firing: Firing) -> Reaction:
    record = _live_record(soup, firing)
    passage = firing.chosen(Passage)
    refuse_passage(soup, record, passage)
    after = moved(soup, record, passage)
    if passage.action is APPROVAL[record.state]:
        after = replace(after, approved=approvals(soup, record, passage))
    if circles(soup, record, passage.action):
        after = replace(after, circled=record.circled + 1)
    if not record.depth and after.live:
        after = replace(after, thread=state_thread(record.id, after.visit))
    judged: tuple[Molecule, ...] = (*soup.all(Verdict, record.id), *soup.all(Assertion, record.id))
    return Reaction((record, *judged), (after,))


def _strike(soup: Soup, firing: Firing) -> Reaction:
    record = _live_record(soup, firing)
    kind = firing.choice
    if kind not in (PENDING, VIOLATION) or kind in spent(soup, record):
        raise Disabled("the state's retry budget is spent, or nothing was done against it")
    if kind == PENDING:
        return Reaction((record,), (replace(record, pendings=record.pendings + 1),))
    return Reaction((record,), (replace(record, violations=record.violations + 1),))


def _dialog(soup: Soup, firing: Firing) -> Reaction:
    record = _live_record(soup, firing)
    used_up = [name for name in spent(soup, record) if name != BACKTRACKS or not record.lifted]
    if not used_up or record.dialogs:
        raise Disabled("the human is asked once, when the state has used up one of its bounds")
    lifted = record.lifted + (BACKTRACKS in used_up)
    asked = replace(record, pendings=0, violations=0, dialogs=record.dialogs + 1, lifted=lifted)
    return Reaction((record, *soup.all(Tally, record.thread)), (asked,))


def _pending(soup: Soup, firing: Firing) -> Reaction:
    record = _live_record(soup, firing)
    if record.depth or soup.stirring or soup.of(Hold):
        raise Disabled("something is still under way")
    mailbox = soup.need(Mailbox, job_thread(record.id), ORCHESTRATOR)
    refuse_untaken(soup, mailbox.thread, MessageKind.NOTICE)
    return Reaction((mailbox,), (mailbox.grown(firing.chosen(str)),))


def _observe(soup: Soup, firing: Firing) -> Reaction:
    record = soup.need(Record, firing.at[0])
    mailbox = soup.need(Mailbox, job_thread(soup.charter.job), ORCHESTRATOR)
    if soup.dying(record.thread) or soup.get(Idle, record.thread, record.actor) is None:
        raise Disabled(f"the lead of {record.id} has not ended its turn")
    refuse_untaken(soup, mailbox.thread, MessageKind.OUTCOME)
    return Reaction((mailbox,), (mailbox.grown(firing.chosen(str)),))


def _recover(soup: Soup, firing: Firing) -> Reaction:
    agent, thread = firing.at
    run = soup.need(Run, thread, agent)
    counted: tuple[Molecule, ...] = ()
    crashed = soup.get(Crashed, thread, agent)
    if firing.choice == "agent":
        count = (crashed.count if crashed else 0) + 1
        if count >= soup.charter.crash_budget:
            raise Disabled(f"{agent} has crashed too often on {thread}")
        counted = (Crashed(agent, thread, count),)
    forgotten: tuple[Molecule, ...] = (crashed,) if crashed and counted else ()
    gone, back = _given_back(soup, run)
    return Reaction((*gone, *forgotten), (*back, *counted))


def _given_back(soup: Soup, run: Run) -> tuple[tuple[Molecule, ...], tuple[Molecule, ...]]:
    """A lost turn, and what is left of it: its message at the head of the mail, or its Interrupt."""
    idle = Idle(run.agent, run.thread)
    if run.interrupt is not None:
        return (run,), (idle, run.interrupt)
    mailbox = soup.need(Mailbox, run.thread, run.agent)
    return (run, mailbox), (idle, replace(mailbox, queue=(run.message, *mailbox.queue)))


def _give_up(soup: Soup, firing: Firing) -> Reaction:
    agent, thread, *why = firing.at
    run = soup.need(Run, thread, agent)
    crashed = soup.get(Crashed, thread, agent)
    if why != [HOPELESS] and (crashed.count if crashed else 0) + 1 < soup.charter.crash_budget:
        raise Disabled(f"{agent} may still be tried again on {thread}")
    gone: tuple[Molecule, ...] = (run, crashed) if crashed else (run,)
    if thread_kind(thread) == "escalation":
        return Reaction(gone, (Idle(agent, thread),))  # the question itself goes on, to the human
    parent = soup.parent(thread)
    if parent is None:
        raise Disabled(f"no instance above {thread} could be told of it")
    mailbox = soup.need(Mailbox, parent)
    refuse_untaken(soup, parent, MessageKind.NOTICE)
    told = mailbox.grown(firing.chosen(str))
    if thread_kind(thread) != "state":
        # a subteam has all its tries again, but what it was asked to do it has not done
        undone = (Crashed(agent, thread, 0),) if soup.get(Record, thread) is not None else ()
        return Reaction((*gone, mailbox), (Idle(agent, thread), told, *undone))
    # a lead has no other to take its place: it keeps its message, and waits until it is decided what becomes of it
    lost, back = _given_back(soup, run)
    return Reaction((*lost, *gone[1:], mailbox), (*back, told, Hold(thread, STUCK)))


def _merge_sites(soup: Soup, menu: Menu) -> Iterator[Firing]:
    for idle in soup.of(Idle):
        for choice in menu("merge", soup, idle):
            yield Firing("merge", (idle.agent, idle.thread), choice)


def _merge(soup: Soup, firing: Firing) -> Reaction:
    agent, thread = firing.at
    soup.need(Idle, thread, agent)
    if soup.dying(thread) or thread_kind(thread) not in ("state", "dispatch"):
        raise Disabled(f"nothing is merged into {thread}")
    mailbox = soup.need(Mailbox, thread, agent)
    refuse_untaken(soup, thread, MessageKind.NOTICE)
    return Reaction((mailbox,), (mailbox.grown(firing.chosen(str)),))


def _enrol_sites(soup: Soup, menu: Menu) -> Iterator[Firing]:
    for installed in soup.of(Surface):
        for choice in menu("enrol", soup, installed):
            yield Firing("enrol", (installed.agent, installed.thread), choice)


def _enrol(soup: Soup, firing: Firing) -> Reaction:
    agent, thread = firing.at
    there = soup.need(Surface, thread, agent)
    if soup.dying(thread) or thread_kind(thread) not in ("state", "dispatch"):
        raise Disabled(f"no role joins the team of {agent} on {thread}")
    charter, roles = soup.charter, firing.chosen(Enrolment).roles
    names = [role.name for role in roles]
    barred = {ORCHESTRATOR, PROXY, agent}.intersection(names)
    if barred or len(set(names)) < len(names):
        raise Refused(f"{', '.join(sorted(barred)) or 'the same role twice'} can't join the team of {agent}")
    known = {role.name for role in charter.roles}
    unknown = {member for role in roles for member in role.team} - known.union(names)
    if unknown:
        raise Refused(f"{', '.join(sorted(unknown))} has no role in this job")
    for role in roles:
        if why := misfit(role):
            raise Refused(why)
    # a name stands for one role in a job: whom it knows already joins the team as it is. Who is in the team may be
    # enrolled again, by those who keep beside the soup what a role is told and may use
    added = tuple(role for role in roles if role.name not in known)
    grown = replace(there, team=there.team.union(names))
    return Reaction((charter, there), (replace(charter, roles=(*charter.roles, *added)), grown))


def _hold_sites(soup: Soup, menu: Menu) -> Iterator[Firing]:
    for installed in soup.of(Surface):
        for choice in menu("hold", soup, installed):
            yield Firing("hold", (installed.thread,), choice)


def _hold(soup: Soup, firing: Firing) -> Reaction:
    (thread,) = firing.at
    hold = Hold(thread, firing.chosen(str))
    if hold in soup or soup.dying(thread) or soup.get(Surface, thread) is None:
        raise Disabled(f"{thread} is held already, or gone")
    return Reaction((), (hold,))


def _release_sites(soup: Soup, menu: Menu) -> Iterator[Firing]:
    for hold in soup.of(Hold):
        yield Firing("release", (hold.thread,), hold.cause)


def _release(soup: Soup, firing: Firing) -> Reaction:
    hold = Hold(firing.at[0], firing.chosen(str))
    if hold not in soup:
        raise Disabled(f"{hold.thread} is not held by {hold.cause}")
    return Reaction((hold,), ())


RULES = (
    Rule(
        name="open",
        section="added",
        shape="ε → Charter ‖ Record(j, INTENT) ‖ Mailbox_O(job:j, [request]) ‖ Idle_O(job:j) ‖ Surface_O(job:j)",
        when=(
            "the soup is empty; O is the orchestrator; each role takes notices, O and the proxy what the rules "
            "bring them"
        ),
        sites=_open_sites,
        react=_open,
    ),
    Rule(
        name="transition",
        section="added",
        shape="Record(r, s) → Record(r, s')",
        besides="Verdict(r)* ‖ Assertion(r)* → ε",
        when="the action leaves s, and its gate is open; a backtrack that the human did not order is within its bound",
        sites=_record_sites("transition"),
        react=_transition,
    ),
    Rule(
        name="strike",
        section="added",
        shape="Record(r, s) → Record(r, s)",
        when="one more PENDING, or one more violation, and the state's retry budget for that is not spent",
        sites=_record_sites("strike"),
        react=_strike,
    ),
    Rule(
        name="dialog",
        section="added",
        shape="Record(r, s) → Record(r, s)",
        besides="Tally_L(_)? → ε",
        when="for the first time the state has used up a bound: its lead's tries, PENDINGs, violations, exchanges or "
        "questions; of the record's backtracks once",
        sites=_record_sites("dialog"),
        react=_dialog,
    ),
    Rule(
        name="pending",
        section="added",
        shape="Mailbox_O(job:j, as) → Mailbox_O(job:j, as ++ [PENDING])",
        when="the job's own state is live, nothing in the job is under way, and nothing is held",
        sites=_record_sites("pending"),
        react=_pending,
    ),
    Rule(
        name="observe",
        section="added",
        shape="Mailbox_O(job:j, as) → Mailbox_O(job:j, as ++ [outcome])",
        when="a lead has ended its turn, lives, and left an outcome record",
        sites=_record_sites("observe"),
        react=_observe,
    ),
    Rule(
        name="recover",
        section="added",
        shape="Run(A, t, m) ‖ Mailbox_A(t, as)? → Idle_A(t) ‖ Mailbox_A(t, m:as)? ‖ Interrupt(t, m)?",
        besides="Crashed_A(t)? → Crashed_A(t)?",
        when=(
            "the turn was lost and may be tried again; where an Interrupt brought m, it is the Interrupt that "
            "comes back"
        ),
        sites=run_sites("recover"),
        react=_recover,
    ),
    Rule(
        name="give-up",
        section="added",
        shape="Run(A, t, m) ‖ Mailbox_P(p, as)? ‖ Mailbox_A(t, rs)? → Idle_A(t) ‖ Mailbox_P(p, as ++ [FAILED])?"
        " ‖ Mailbox_A(t, m:rs)? ‖ Interrupt(t, m)?",
        besides="Crashed_A(t)? → Crashed_A(t)? ‖ Hold(t, stuck)?",
        when=(
            "the turn was lost once too often, or is hopeless; t was sparked from P's p; a lead's m goes back to "
            "its head as in [recover], with Hold(t, stuck)"
        ),
        sites=run_sites("give-up"),
        react=_give_up,
    ),
    Rule(
        name="merge",
        section="added",
        shape="Mailbox_A(t, as) → Mailbox_A(t, as ++ [MERGE])",
        when=(
            "A has ended its turn, on a state's thread or a dispatch; the tree of one it closed was brought into "
            "its own"
        ),
        sites=_merge_sites,
        react=_merge,
    ),
    Rule(
        name="enrol",
        section="added",
        shape="Charter ‖ Surface_A(t) → Charter ‖ Surface_A(t)",
        when=(
            "the roles join the charter and the team of A; t is a state's or a dispatch, and lives; neither O, "
            "the proxy nor A itself joins; a role that the charter has stays as it is"
        ),
        sites=_enrol_sites,
        react=_enrol,
    ),
    Rule(
        name="hold",
        section="added",
        shape="ε → Hold(t, cause)",
        when="t lives and is not held for that cause yet; the job's own holds all",
        sites=_hold_sites,
        react=_hold,
    ),
    Rule(
        name="release",
        section="added",
        shape="Hold(t, cause) → ε",
        sites=_release_sites,
        react=_release,
    ),
)
