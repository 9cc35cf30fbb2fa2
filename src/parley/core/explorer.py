"""Every soup within stated bounds: an exhaustive search from [open] that checks all the protocol promises.

The rules leave open what agents, humans and crashes choose. `Choices` offers every kind of choice, and
`Bounds` says how often each may be made; what winds a job down (reading mail, ending a turn without a
word, answering, terminating) is never bounded. Within its bounds the search is complete, breadth first, so
that what it finds comes with a shortest trace.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from itertools import combinations
from typing import cast

from parley.core.conversation import fresh
from parley.core.errors import Disabled, Refused, Violated
from parley.core.invariants import check
from parley.core.laws import judge
from parley.core.rule import (
    Answer,
    Asking,
    Broadcast,
    Choice,
    Ending,
    Firing,
    Opening,
    Passage,
    Reaction,
    Rule,
    RuleSet,
)
from parley.core.rules import RULES, anything, react
from parley.core.soup import Soup
from parley.core.states import LIVE, PHASES, TRANSITIONS, Action, Record
from parley.core.step import Step
from parley.core.terms import (
    HUMAN,
    ORCHESTRATOR,
    PROXY,
    AskHuman,
    AskQuestion,
    Charter,
    Close,
    Deliver,
    Interrupt,
    Kind,
    Molecule,
    Origin,
    Payload,
    Policy,
    Proxy,
    Question,
    Role,
    Ruling,
    Run,
    Send,
    Surface,
    Terminate,
    dispatch_thread,
    job_thread,
    thread_kind,
)

CODER, SQUAD = "coder", "squad"  # a doer, and a subteam's lead: a role with a team of its own

WINDING = frozenset(
    {
        "send", "spark", "dead-letter", "send-terminate", "send-empty", "send-ask", "wake", "wake-int",
        "interrupt", "nosend-step", "ask", "escalate", "human-reply", "respond", "release", "cascade",
        "term-run", "term-idle", "term-mbox", "term-send", "term-ask", "term-proxy", "term-human",
        "term-interrupt", "term-record", "term-again", "term-final",
    }
)  # fmt: skip
"""The rules that carry on what was begun and begin nothing."""

ENDING = frozenset(name for name in WINDING if name.startswith("term-")) | {"cascade"}


@dataclass(frozen=True, slots=True)
class Bounds:
    """How often each kind of choice may be made, and what there is to choose from."""

    sends: int = 0  # letters, those that open a state's thread not counted
    threads: int = 0  # dispatches, among the letters
    closes: int = 0
    questions: int = 0
    escalations: int = 0  # that the proxy asks the human once more, after a reply
    interrupts: int = 0
    withdrawals: int = 0  # the job's own, once its record has ended, not counted
    crashes: int = 0
    holds: int = 0
    transitions: int = 0
    failures: int = 0  # strikes and dialogs
    pendings: int = 0
    observations: int = 0  # outcome records that leads leave
    silences: int = 0  # broadcasts of nothing
    policy: Policy = Policy.WHEN_UNSURE
    rulings: tuple[Ruling, ...] = ()
    kinds: tuple[Kind, ...] = (Kind.QUESTION,)
    several: bool = False  # two payloads, or two questions, in one turn
    nested: bool = False  # there is a subteam to dispatch
    steered: bool = False  # interrupts also for the turn boundary, advisory and authoritative
    fan_out: int = 2
    crash_budget: int = 2
    retry_budget: int = 1
    voices: frozenset[str] | None = None  # who sends and asks; the others end their turns without a word
    prelude: tuple[Firing, ...] = ()  # what happens after [open] and before anything is left open

    @property
    def opening(self) -> Opening:
        """What the explored job is opened with."""
        leads = frozenset(phase.lead for phase in PHASES.values())
        doers = frozenset({CODER, SQUAD} if self.nested else {CODER})
        roles = [
            Role(ORCHESTRATOR, leads),
            Role(PROXY, tools=("Answer", "AskHuman"), messages=("question", "reply")),
            *(Role(lead, doers) for lead in sorted(leads)),
            Role(CODER),
        ]
        if self.nested:
            roles.append(Role(SQUAD, frozenset({CODER})))
        policies = (self.policy, self.policy, self.policy)
        charter = Charter("j", tuple(roles), policies, self.fan_out, self.crash_budget, self.retry_budget)
        return Opening(charter, "request")


COUNTED = tuple(field.name for field in fields(Bounds))[: [field.name for field in fields(Bounds)].index("policy")]
Spent = tuple[int, ...]
NOTHING: Spent = (0,) * len(COUNTED)
PLACE = {name: place for place, name in enumerate(COUNTED)}


# ---- what may be chosen --------------------------------------------------------------------------


class Choices:
    """A menu for the rules at one point of the search: ids are numbered by what was spent before."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.limits: Spent = tuple(getattr(bounds, name) for name in COUNTED)
        self.spent = NOTHING

    def number(self, name: str) -> int:
        """The number of the next choice of a kind."""
        return self.spent[PLACE[name]] + 1

    def left(self, name: str) -> int:
        """How many choices of a kind are left."""
        return self.limits[PLACE[name]] - self.spent[PLACE[name]]

    def pay(self, soup: Soup, firing: Firing) -> Spent | None:
        """What is spent after the firing, or nothing if it is beyond the bounds."""
        price = _price(soup, firing)
        if not price:
            return self.spent
        spent = list(self.spent)
        for name in price:
            spent[PLACE[name]] += 1
        return None if any(s > limit for s, limit in zip(spent, self.limits, strict=True)) else tuple(spent)

    def __call__(self, rule: str, soup: Soup, molecule: Molecule | None) -> Iterator[Choice]:
        """Offer what may be chosen for a rule at a molecule."""
        offer = OFFERS.get(rule)
        return offer(self, soup, molecule) if offer is not None else iter((None,))

    # ---- a turn ------------------------------------------------------------------------------

    def broadcasts(self, soup: Soup, molecule: Molecule | None) -> Iterator[Choice]:
        """What a turn may send: one payload of each kind, some pairs, with and without a question."""
        run = cast("Run", molecule)
        if self.bounds.voices is not None and run.agent not in self.bounds.voices:
            return
        yield Broadcast(())
        singles = list(self._payloads(soup, run, 0))
        for payload in singles:
            yield Broadcast((payload,))
        if self.bounds.several:
            for payload in singles:
                for second in self._payloads(soup, run, isinstance(payload, Deliver)):
                    yield Broadcast((payload, second))
        if self.left("questions") and run.agent != ORCHESTRATOR:
            for payload in singles:
                for questions in self._questions(soup, run):
                    yield Broadcast((payload,), questions)

    def _payloads(self, soup: Soup, run: Run, earlier: int) -> Iterator[Payload]:
        message = f"m{self.number('sends') + earlier}"
        record = soup.charter.job and soup.need(Record, soup.charter.job)
        if run.agent == ORCHESTRATOR and record and record.live and soup.get(Surface, record.thread) is None:
            yield Deliver(PHASES[record.state].lead, record.thread, f"begin {record.visit}")
        parent = soup.parent(run.thread)
        above = soup.get(Surface, parent) if parent is not None else None
        if above is not None and self.left("sends"):
            yield Deliver(above.agent, above.thread, message)
        for child in soup.children(run.thread):
            if thread_kind(child) == "escalation":
                continue
            if self.left("sends"):
                there = soup.get(Surface, child)
                yield Deliver(there.agent if there else CODER, child, message)
            if self.left("closes"):
                yield Close(child)
        team = soup.need(Surface, run.thread, run.agent).team & {CODER, SQUAD}
        if self.left("threads") > earlier:
            for agent in sorted(team):
                yield Deliver(agent, dispatch_thread(str(self.number("threads") + earlier)), message)

    def _questions(self, soup: Soup, run: Run) -> Iterator[tuple[Question, ...]]:
        number = self.number("questions")
        first = [self._question(soup, run, kind, number) for kind in self.bounds.kinds]
        yield from ((question,) for question in first)
        if self.bounds.several:
            second = (self._question(soup, run, kind, number + 1) for kind in self.bounds.kinds)
            yield from ((one, other) for other in second for one in first)

    def _question(self, soup: Soup, run: Run, kind: Kind, number: int) -> Question:
        if kind is not Kind.ASSERT:
            return Question(f"q{number}", f"?{number}", kind)
        state = soup.need(Record, soup.charter.job).state
        artifact = PHASES[state if state in LIVE else LIVE[0]].artifact
        return Question(f"q{number}", f"?{number}", kind, artifact, f"d{number}")

    def askings(self, soup: Soup, molecule: Molecule | None) -> Iterator[Choice]:
        """What a turn may ask."""
        run = cast("Run", molecule)
        heard = self.bounds.voices is None or run.agent in self.bounds.voices
        if self.left("questions") and heard:
            for questions in self._questions(soup, run):
                yield Asking(questions)

    # ---- the proxy and the human -------------------------------------------------------------

    def replies(self, soup: Soup, molecule: Molecule | None) -> Iterator[Choice]:
        """What the human may say."""
        asked = cast("AskHuman", molecule)
        for ruling in (None, *self.bounds.rulings):
            yield Answer(f"h{asked.id}", HUMAN, ruling)

    def answers(self, soup: Soup, molecule: Molecule | None) -> Iterator[Choice]:
        """What the proxy may say: its own word, or the human's; the rules choose which may pass."""
        proxy = cast("Proxy", molecule)
        for ruling in (None, *self.bounds.rulings):
            yield Answer(f"a{proxy.id}", HUMAN if proxy.heard else PROXY, ruling)

    # ---- from outside ------------------------------------------------------------------------

    def redirections(self, soup: Soup, molecule: Molecule | None) -> Iterator[Choice]:
        """Interrupts of every kind."""
        thread = cast("Surface", molecule).thread
        if self.left("interrupts"):
            message = f"i{self.number('interrupts')}"
            yield Interrupt(thread, message, now=True)
            if self.bounds.steered:
                yield Interrupt(thread, message)
                yield Interrupt(thread, message, authoritative=True)

    def endings(self, soup: Soup, molecule: Molecule | None) -> Iterator[Choice]:
        """A withdrawal of any thread; of the job's own when it is over."""
        thread = cast("Surface", molecule).thread
        if thread == job_thread(soup.charter.job):
            yield Ending(Origin.END)
        elif self.left("withdrawals"):
            yield Ending(Origin.WITHDRAWAL, f"gone {thread}")

    def passages(self, soup: Soup, molecule: Molecule | None) -> Iterator[Choice]:
        """Every action, by the lead on each content it might have, by the orchestrator, by the human."""
        record = cast("Record", molecule)
        if not self.left("transitions"):
            return
        yield Passage(Action.WITHDRAW, HUMAN)
        yield Passage(Action.FAILURE, ORCHESTRATOR)
        artifacts = [PHASES[state].artifact for state in LIVE[: LIVE.index(record.state) + 1]] if record.live else []
        for digest in [f"d{number}" for number in range(self.number("questions") + 1)]:
            contents = (*record.approved, *((name, digest) for name in artifacts[-1:]))
            for action in TRANSITIONS[record.state]:
                if action is not Action.FAILURE:
                    yield Passage(action, record.actor, contents=contents)


def _words(text: str) -> Callable[[Choices, Soup, Molecule | None], Iterator[Choice]]:
    return lambda choices, soup, molecule: iter((text,))


def _each_word(*texts: str) -> Callable[[Choices, Soup, Molecule | None], Iterator[Choice]]:
    return lambda choices, soup, molecule: iter(texts)


OFFERS: dict[str, Callable[[Choices, Soup, Molecule | None], Iterator[Choice]]] = {
    "open": lambda choices, soup, molecule: iter((choices.bounds.opening,)),
    "send-step": Choices.broadcasts,
    "ask-step": Choices.askings,
    "human-reply": Choices.replies,
    "respond": Choices.answers,
    "intervene": Choices.redirections,
    "withdraw": Choices.endings,
    "transition": Choices.passages,
    "term-record": lambda choices, soup, molecule: iter((Passage(Action.WITHDRAW, ORCHESTRATOR),)),
    "wake": _words("turn"),
    "wake-int": _words("turn"),
    "interrupt": _words("turn"),
    "escalate": _words("framed"),
    "dead-letter": _words("dead letter"),
    "give-up": _words("failed"),
    "pending": _words("pending"),
    "observe": _words("outcome"),
    "hold": _words("pause"),
    "recover": _each_word("engine", "agent"),
}

ONE_EACH = {
    "intervene": ("interrupts",),
    "recover": ("crashes",),
    "give-up": ("crashes",),
    "hold": ("holds",),
    "transition": ("transitions",),
    "strike": ("failures",),
    "dialog": ("failures",),
    "pending": ("pendings",),
    "observe": ("observations",),
}


def _price(soup: Soup, firing: Firing) -> tuple[str, ...]:
    """What a firing uses up of the bounds, once for each name."""
    choice = firing.choice
    if isinstance(choice, Broadcast):
        letters = [payload for payload in choice.payloads if isinstance(payload, Deliver)]
        opened = {letter.thread for letter in letters if fresh(soup, letter.thread)}
        free = sum(thread_kind(thread) == "state" for thread in opened)
        new = len(opened) - free
        closes = sum(isinstance(p, Close) for p in choice.payloads)
        return (
            *(("silences",) if not choice.payloads else ()),
            *("sends",) * (len(choice.payloads) - closes - free),
            *("threads",) * new,
            *("closes",) * closes,
            *("questions",) * len(choice.questions),
        )
    if isinstance(choice, Asking):
        return ("questions",) * len(choice.questions)
    if isinstance(choice, Ending):
        return ("withdrawals",) if choice.origin is Origin.WITHDRAWAL else ()
    if firing.rule == "escalate":
        heard = any(proxy.heard for proxy in soup.all(Proxy, f"escalation:{firing.at[0]}"))
        return ("escalations",) if heard else ()
    return ONE_EACH.get(firing.rule, ())


# ---- the search ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that the protocol promises and these rules do not keep, with a shortest way to it."""

    name: str
    problem: str
    trace: tuple[Firing, ...]

    def __str__(self) -> str:
        steps = (
            f"  {number}. [{firing.rule}] {', '.join(firing.at)} {_chosen(firing)}".rstrip()
            for number, firing in enumerate(self.trace, 1)
        )
        return "\n".join((f"{self.name}: {self.problem}", *steps))


def _chosen(firing: Firing) -> str:
    plain = firing.choice is None or isinstance(firing.choice, Opening)
    return "" if plain else str(firing.choice)


@dataclass(frozen=True, slots=True)
class Report:
    """What a search has seen. `soups` counts distinct soups; no two are held to be alike."""

    bounds: Bounds
    soups: int
    nodes: int  # distinct soups with what was spent on the way
    steps: int
    fired: frozenset[str]
    met: frozenset[tuple[str, str]]  # pairs of rules, in the rules' order, enabled in one soup
    finding: Finding | None = None


class _Search:
    def __init__(self, bounds: Bounds, rules: RuleSet) -> None:
        self.rules = rules
        self.choices = Choices(bounds)
        self.bounds = bounds
        self.numbers: dict[Molecule, int] = {}
        self.molecules: list[Molecule] = []
        self.found: dict[tuple[tuple[int, ...], Spent], int] = {}
        self.nodes: list[tuple[tuple[int, ...], Spent]] = []
        self.came: list[tuple[int, Firing] | None] = []
        self.prelude: list[Firing] = []
        self.edges: list[list[tuple[str, int]]] = []
        self.checked: set[tuple[int, ...]] = set()
        self.with_rule: dict[str, set[str]] = {name: set() for name in rules}
        self.fired: set[str] = set()
        self.resting: list[bool] = []
        self.asking: list[bool] = []
        self.threads: dict[str, int] = {}
        self.present: list[int] = []  # threads that are there, as bits
        self.doomed: list[int] = []  # threads that are dying, with all below them

    def run(self) -> Report:
        finding: Finding | None = None
        here = 0
        try:
            self._begin()
            while here < len(self.nodes):
                self._expand(here)
                here += 1
            self._judge_graph()
        except _Found as found:
            finding = Finding(found.name, found.problem, self._trace(found.node, found.last))
        steps = sum(len(edges) for edges in self.edges)
        met = {(one, other) for one, other in combinations(self.rules, 2) if other in self.with_rule[one]}
        soups = len({key for key, _ in self.nodes})
        return Report(
            self.bounds, soups, len(self.nodes), steps, frozenset(self.fired), frozenset(met), finding
        )

    def _begin(self) -> None:
        """Go through the prelude, checking every step; the search starts where it ends."""
        soup = Soup()
        opening = self.bounds.opening
        for firing in (Firing("open", (opening.charter.job,), opening), *self.bounds.prelude):
            self._check(soup, -1)
            reaction = react(soup, firing, self.rules)
            self._judge(soup, firing, reaction, -1)
            soup = soup.after(reaction.consumed, reaction.produced)
            self.prelude.append(firing)
            self.fired.add(firing.rule)
        self._arrive_at((tuple(sorted(self._number(molecule) for molecule in soup)), NOTHING), None)

    def _check(self, soup: Soup, here: int) -> None:
        try:
            check(soup, self.rules)
        except Violated as violated:
            raise _Found.by(violated, here) from violated

    def _judge(self, soup: Soup, firing: Firing, reaction: Reaction, here: int) -> None:
        try:
            judge(Step(soup, firing, reaction))
        except Violated as violated:
            raise _Found.by(violated, here, firing) from violated

    def _expand(self, here: int) -> None:
        key, spent = self.nodes[here]
        soup = Soup(self.molecules[number] for number in key)
        new = key not in self.checked
        if new:
            self.checked.add(key)
            self._check(soup, here)
        self._describe(soup)
        self.choices.spent = spent
        out: list[tuple[str, int]] = []
        self.edges.append(out)
        for firing, reaction, paid in self._firings(soup):
            self._judge(soup, firing, reaction, here)
            out.append((firing.rule, self._arrive(here, key, firing, reaction, paid)))
        fired = {rule for rule, _ in out}
        self.fired |= fired
        if new:
            self._meet(fired.union(self._idle_rules(soup, fired)))

    def _firings(self, soup: Soup) -> Iterator[tuple[Firing, Reaction, Spent]]:
        for rule in self.rules.values():
            for firing in rule.sites(soup, self.choices):
                paid = self.choices.pay(soup, firing)
                if paid is None:
                    continue
                try:
                    reaction = rule.react(soup, firing)
                except (Disabled, Refused):
                    continue
                yield firing, reaction, paid

    def _idle_rules(self, soup: Soup, fired: set[str]) -> Iterator[str]:
        """The rules that the soup enables though the bounds leave no choice of them."""
        for name, rule in self.rules.items():
            if name in fired or fired <= self.with_rule[name]:
                continue  # it would meet nobody new
            if any(_fires(rule, soup, firing) for firing in rule.sites(soup, plain)):
                yield name

    def _meet(self, enabled: set[str]) -> None:
        for name in enabled:
            self.with_rule[name] |= enabled

    def _arrive(self, here: int, key: tuple[int, ...], firing: Firing, reaction: Reaction, paid: Spent) -> int:
        left = list(key)
        for molecule in reaction.consumed:
            number = self.numbers.get(molecule, -1)
            if number not in left:
                raise _Found("left_side", f"[{firing.rule}] takes what is not there: {molecule}", here, firing)
            left.remove(number)
        left.extend(self._number(molecule) for molecule in reaction.produced)
        return self._arrive_at((tuple(sorted(left)), paid), (here, firing))

    def _arrive_at(self, node: tuple[tuple[int, ...], Spent], came: tuple[int, Firing] | None) -> int:
        there = self.found.get(node)
        if there is None:
            there = self.found[node] = len(self.nodes)
            self.nodes.append(node)
            self.came.append(came)
        return there

    def _number(self, molecule: Molecule) -> int:
        number = self.numbers.get(molecule)
        if number is None:
            number = self.numbers[molecule] = len(self.molecules)
            self.molecules.append(molecule)
        return number

    def _describe(self, soup: Soup) -> None:
        """Remember of the soup what the graph is judged by."""
        self.resting.append(not soup.stirring)
        sending = any(send.questions for send in soup.of(Send))
        self.asking.append(sending or any(soup.of(kind) for kind in (AskQuestion, Proxy, AskHuman)))
        present = 0
        for surface in soup.of(Surface):
            present |= self._bit(surface.thread)
        doomed = 0
        dying = [terminate.thread for terminate in soup.of(Terminate)]
        while dying:
            thread = dying.pop()
            doomed |= self._bit(thread)
            dying.extend(soup.children(thread))
        self.present.append(present)
        self.doomed.append(doomed)

    def _bit(self, thread: str) -> int:
        return 1 << self.threads.setdefault(thread, len(self.threads))

    def _trace(self, node: int, last: Firing | None) -> tuple[Firing, ...]:
        trace = [last] if last else []
        came = self.came[node] if node >= 0 else None
        while came is not None:
            node, firing = came
            trace.append(firing)
            came = self.came[node]
        return (*self.prelude, *reversed(trace))

    # ---- what is judged by the whole graph ---------------------------------------------------

    def _judge_graph(self) -> None:
        self._reaches("quiescence", "nothing brings this job to rest", self.resting)
        answered = [not asking for asking in self.asking]
        self._reaches("escalation_reaches_respond", "a question here is never answered", answered)
        self._cascades()

    def _reaches(self, name: str, problem: str, goals: list[bool]) -> None:
        """From every node a goal can be reached by winding down."""
        back: list[list[int]] = [[] for _ in self.nodes]
        for here, edges in enumerate(self.edges):
            for rule, there in edges:
                if rule in WINDING:
                    back[there].append(here)
        reached = list(goals)
        todo = deque(node for node, goal in enumerate(goals) if goal)
        while todo:
            for node in back[todo.popleft()]:
                if not reached[node]:
                    reached[node] = True
                    todo.append(node)
        if not all(reached):
            raise _Found(name, problem, reached.index(False))

    def _cascades(self) -> None:
        """In whatever order a withdrawal goes on, it ends, and nothing of what was doomed is left."""
        out = [[there for rule, there in edges if rule in ENDING] for edges in self.edges]
        back: list[list[int]] = [[] for _ in self.nodes]
        for here, targets in enumerate(out):
            for there in targets:
                back[there].append(here)
        pending = [len(targets) for targets in out]
        left = [0] * len(out)  # what may be there when the withdrawal has come to its end
        todo = deque(node for node, count in enumerate(pending) if not count)
        judged = 0
        while todo:
            node = todo.popleft()
            judged += 1
            left[node] |= 0 if out[node] else self.present[node]
            if left[node] & self.doomed[node]:
                raise _Found("cascade_completeness", "something outlives its withdrawal", node)
            for before in back[node]:
                left[before] |= left[node]
                pending[before] -= 1
                if not pending[before]:
                    todo.append(before)
        if judged < len(out):
            raise _Found("cascade_completeness", "a withdrawal goes round in circles", 0)


def plain(rule: str, soup: Soup, molecule: Molecule | None) -> Iterable[Choice]:
    """The plainest choice for each rule, to see whether it is enabled at all."""
    if rule == "transition":
        return (Passage(Action.WITHDRAW, HUMAN),)
    if rule == "term-record":
        return (Passage(Action.WITHDRAW, ORCHESTRATOR),)
    return anything(rule, soup, molecule)


def _fires(rule: Rule, soup: Soup, firing: Firing) -> bool:
    try:
        rule.react(soup, firing)
    except (Disabled, Refused):
        return False
    return True


class _Found(Exception):
    def __init__(self, name: str, problem: str, node: int, last: Firing | None = None) -> None:
        super().__init__(problem)
        self.name, self.problem, self.node, self.last = name, problem, node, last

    @classmethod
    def by(cls, violated: Violated, node: int, last: Firing | None = None) -> _Found:
        name, _, problem = str(violated).partition(": ")
        return cls(name, problem, node, last)


def explore(bounds: Bounds, rules: RuleSet = RULES) -> Report:
    """Visit every soup that the rules reach within the bounds; stop at the first that breaks a promise."""
    return _Search(bounds, rules).run()
