"""Hooks: where features hang on the engine. The engine names no feature; a feature overrides the hooks that it needs.

A `Feature` is made once for an engine and gives each job its `Guest`, which keeps what the feature knows of that job. A
feature that few jobs need is `dormant`: its guest comes with the first sign that the job needs it (an agent of its own
is woken, the bus has a slot of its own, a setting asks for it, or its folder is in the tree), and until then none of
its code runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from parley.bus.rows import InputRow, MessageRow
from parley.engine.outbox import Effect, Perform
from parley.engine.turn.running_turn import Turn
from parley.engine.turn.stages import AnsweredQuestion, Gate, Start, TurnEnd, Waking
from parley.engine.values.human_inputs import ResumeInput
from parley.engine.world import World
from parley.ports.turns import Called, Ended, Progress, Waiting
from parley.protocol.molecules import Origin, Proxy, Record, Surface
from parley.protocol.rule import Passage

if TYPE_CHECKING:  # a job holds its guests, and a guest is given its job
    from parley.engine.agents.code_agent import CodeAgent
    from parley.engine.owned_job import OwnedJob

G = TypeVar("G", bound="Guest")


class Reply(Struct, frozen=True):
    """What an agent is told of its call, with data for its program."""

    text: str
    data: dict[str, Any] = {}


Tool = Callable[["OwnedJob", World, Turn, Mapping[str, Any]], Reply]
"""Takes a call into the turn. Raises Refused."""


class Guest:
    """A feature's part in one job: it overrides the hooks that it needs, and every hook here does nothing.

    `before_…` is called ahead of something and may prepare it; a hook whose docstring says so may raise Refused, which
    its agent reads. `turn_ended`, `state_left` and the like are called once it has happened, in the transaction that
    records it. Of what a hook is given, it changes only what the docstring names.
    """

    tools: Mapping[str, Tool] = MappingProxyType({})  # of the protocol's, those that this feature carries out
    alone: bool = False  # whether the job's turns may start only while no other process writes

    # ---- before a start ------------------------------------------------------------------------

    def before_start(self, job: OwnedJob, waking: Waking) -> bool:
        """Whether a turn may start now. A guest that says no has to start it later: by `job.queue` or a hold."""
        return True

    def has_room(self, job: OwnedJob) -> bool:
        """Whether an instance that waits in the job's queue may start now; every guest has to agree."""
        return True

    def turn_started(self, job: OwnedJob, turn: Turn) -> None:
        """A turn is in the transaction. It is submitted to its runner after the commit."""

    def before_workspace(self, job: OwnedJob, start: Start) -> None:
        """The turn's workspace is about to be made ready: may change `start.base`, which a new one is copied from."""

    def prepare(self, job: OwnedJob, start: Start) -> None:
        """The workspace is ready, the turn about to be submitted: may write files, and change `site` and `remarks`."""

    def prepare_lead(self, job: OwnedJob, start: Start) -> None:
        """The same, after `prepare`, where the agent leads a record: may also change `skills`."""

    def brief_proxy(self, job: OwnedJob, start: Start) -> None:
        """The same, instead of `prepare`, where the agent is the proxy: may also change `briefing`."""

    # ---- while it runs -------------------------------------------------------------------------

    def turn_heard(self, job: OwnedJob, turn: Turn, event: Called | Progress | Waiting) -> None:
        """A turn shows life. A call does so only while an instance of the job is held; see `before_call`."""

    def before_call(self, job: OwnedJob, turn: Turn, event: Called) -> None:
        """An agent calls a tool that its role has; its arguments are not checked yet. May raise Refused."""

    def call_answered(self, job: OwnedJob, turn: Turn, event: Called, taken: bool) -> None:
        """An agent's call was taken into its turn, or refused; its agent is told next. `turn.heard`: when it came."""

    def before_spark(self, job: OwnedJob, turn: Turn) -> None:
        """An agent opens a conversation with another by Send. May raise Refused."""

    # ---- at a gate -----------------------------------------------------------------------------

    def before_tree_read(self, job: OwnedJob, record: Record) -> None:
        """The tree of a record's lead is about to be kept: may write files into it."""

    def add_contents(self, job: OwnedJob, gate: Gate) -> None:
        """The artifacts of a kept tree have their digests: may change `gate.contents`, to bind one to more files."""

    def at_gate(self, job: OwnedJob, gate: Gate) -> None:
        """A lead asserts an artifact of the job's; `gate.counts`: its approval is to count. May raise Refused."""

    def describe_gate(self, job: OwnedJob, gate: Gate) -> None:
        """The human will be asked about an artifact: may change `gate.outline` and `gate.excerpt`."""

    def before_outcome(self, job: OwnedJob, record: Record, contents: dict[str, str]) -> None:
        """The orchestrator weighs a lead's outcome record: may add to the contents that the rule compares."""

    # ---- after an end --------------------------------------------------------------------------

    def usage_reported(self, job: OwnedJob, turn: Turn, event: Ended) -> None:
        """A turn is over, ended or lost, and its runner has told what it used. Called before `turn_over`."""

    def turn_over(self, job: OwnedJob, turn: Turn, event: Ended) -> None:
        """A turn is over, ended or lost: nothing of it has been looked at yet."""

    def read_left_files(self, job: OwnedJob, ending: TurnEnd) -> None:
        """An agent ended its turn, and its workspace is as the agent left it. The turn may still be lost."""

    def before_merge(self, job: OwnedJob, ending: TurnEnd) -> None:
        """Other trees are about to come into the workspace: may change `leaving`, `opaque` and `scope_for`."""

    def before_keep(self, job: OwnedJob, ending: TurnEnd) -> None:
        """Merges are done, and the tree is about to be kept: may write files, and change `put_back` and `scope`."""

    def tree_kept(self, job: OwnedJob, ending: TurnEnd) -> None:
        """The tree is kept as `ending.kept`: may set `ending.left`. The turn may still be lost."""

    def turn_ended(self, job: OwnedJob, ending: TurnEnd) -> None:
        """The turn of an agent other than the proxy has ended and is not lost; what it sent is delivered."""

    # ---- what the rules do ---------------------------------------------------------------------

    def thread_closed(self, job: OwnedJob, surface: Surface, origin: Origin, time: float) -> None:
        """A thread is terminated, and the instance on it with its children."""

    def state_left(self, job: OwnedJob, record: Record, passage: Passage) -> None:
        """The job has gone from one live state to another; `record` is as it was. Not called when the job ends."""

    def state_remark(self, job: OwnedJob, record: Record) -> str:
        """What the lead of a state is told with the message that the state begins with; empty: nothing."""
        return ""

    # ---- questions -----------------------------------------------------------------------------

    def proxy_ended(self, job: OwnedJob, turn: Turn, question: str) -> bool:
        """The proxy's turn has ended: whether this guest has settled the question. Else the human is asked."""
        return False

    def question_remark(self, job: OwnedJob, proxy: Proxy) -> str:
        """What the human is told beside a question that is put to them, on one line; empty: nothing."""
        return ""

    def proxy_answered(self, job: OwnedJob, asked: MessageRow, answer: MessageRow) -> None:
        """The proxy has answered a question by itself."""

    def human_answered(self, job: OwnedJob, answer: AnsweredQuestion) -> None:
        """The human has answered a question."""

    def human_resumed(self, job: OwnedJob, row: InputRow, given: ResumeInput) -> str:
        """The human resumes a held job: what became of what they ask of this guest; empty: they ask nothing of it."""
        return ""

    # ---- on a tick, and at both ends -----------------------------------------------------------

    def tick(self, job: OwnedJob) -> bool:
        """Twice a second at least, while nothing waits to be committed. Whether this guest left an input on the bus."""
        return False

    def release_holds(self, job: OwnedJob) -> None:
        """An instance is held, and the job is about to be reduced: release the holds of this guest that are over."""

    def at_rest(self, job: OwnedJob) -> bool:
        """Nothing is under way in a live state: whether this guest has done something about it."""
        return False

    def before_commit(self, job: OwnedJob) -> None:
        """The job is reduced as far as it goes. What it came to is committed next, if it came to anything."""

    def workspace_put_back(self, job: OwnedJob, workspace: str) -> None:
        """A workspace was put back to the tree that the bus names: what this guest wrote there since is gone."""

    def restored(self, job: OwnedJob) -> None:
        """This process took the job over: ask again for the effects that the last owner may not have performed.

        Called once, before anything else of the job happens. What the guest counts, it counts again from the bus.
        """

    def job_released(self, job: OwnedJob) -> None:
        """This process lets go of the job, which may have ended."""


class Feature:
    """Something that hangs on the engine. `agents` are agents of the soup whose turns are its code."""

    def __init__(
        self,
        *,
        agents: Mapping[str, type[CodeAgent]] = MappingProxyType({}),
        effects: Mapping[type[Effect], Perform] = MappingProxyType({}),
        dormant: bool = False,
        slots: tuple[str, ...] = (),
        setting: type[Struct] | None = None,
        folder: str = "",
    ) -> None:
        self.agents = agents
        self.effects = effects  # how its own effects are performed
        self.dormant = dormant
        self.slots = slots  # how the slots begin that a dormant feature's guest keeps on the bus
        self.setting = setting  # its part of the settings: a job asks for a dormant feature by saying something there
        self.folder = folder  # whose files in a lead's tree ask for it

    def guests(self, job: OwnedJob) -> Iterable[Guest]:
        """The feature's part in a job. Hooks that few jobs need are those of a guest of their own."""
        return ()


_HOOKS = tuple(name for name in vars(Guest) if not name.startswith("_") and callable(getattr(Guest, name)))


class Guests:
    """The guests of one job, by the hooks that each of them overrides: a hook that no guest needs costs nothing."""

    before_start: tuple[Callable[[OwnedJob, Waking], bool], ...]
    has_room: tuple[Callable[[OwnedJob], bool], ...]
    turn_started: tuple[Callable[[OwnedJob, Turn], None], ...]
    before_workspace: tuple[Callable[[OwnedJob, Start], None], ...]
    prepare: tuple[Callable[[OwnedJob, Start], None], ...]
    prepare_lead: tuple[Callable[[OwnedJob, Start], None], ...]
    brief_proxy: tuple[Callable[[OwnedJob, Start], None], ...]
    turn_heard: tuple[Callable[[OwnedJob, Turn, Called | Progress | Waiting], None], ...]
    before_call: tuple[Callable[[OwnedJob, Turn, Called], None], ...]
    call_answered: tuple[Callable[[OwnedJob, Turn, Called, bool], None], ...]
    before_spark: tuple[Callable[[OwnedJob, Turn], None], ...]
    before_tree_read: tuple[Callable[[OwnedJob, Record], None], ...]
    add_contents: tuple[Callable[[OwnedJob, Gate], None], ...]
    at_gate: tuple[Callable[[OwnedJob, Gate], None], ...]
    describe_gate: tuple[Callable[[OwnedJob, Gate], None], ...]
    usage_reported: tuple[Callable[[OwnedJob, Turn, Ended], None], ...]
    turn_over: tuple[Callable[[OwnedJob, Turn, Ended], None], ...]
    read_left_files: tuple[Callable[[OwnedJob, TurnEnd], None], ...]
    before_keep: tuple[Callable[[OwnedJob, TurnEnd], None], ...]
    tree_kept: tuple[Callable[[OwnedJob, TurnEnd], None], ...]
    before_merge: tuple[Callable[[OwnedJob, TurnEnd], None], ...]
    turn_ended: tuple[Callable[[OwnedJob, TurnEnd], None], ...]
    thread_closed: tuple[Callable[[OwnedJob, Surface, Origin, float], None], ...]
    state_left: tuple[Callable[[OwnedJob, Record, Passage], None], ...]
    before_outcome: tuple[Callable[[OwnedJob, Record, dict[str, str]], None], ...]
    state_remark: tuple[Callable[[OwnedJob, Record], str], ...]
    proxy_ended: tuple[Callable[[OwnedJob, Turn, str], bool], ...]
    question_remark: tuple[Callable[[OwnedJob, Proxy], str], ...]
    proxy_answered: tuple[Callable[[OwnedJob, MessageRow, MessageRow], None], ...]
    human_answered: tuple[Callable[[OwnedJob, AnsweredQuestion], None], ...]
    human_resumed: tuple[Callable[[OwnedJob, InputRow, ResumeInput], str], ...]
    tick: tuple[Callable[[OwnedJob], bool], ...]
    release_holds: tuple[Callable[[OwnedJob], None], ...]
    at_rest: tuple[Callable[[OwnedJob], bool], ...]
    before_commit: tuple[Callable[[OwnedJob], None], ...]
    workspace_put_back: tuple[Callable[[OwnedJob, str], None], ...]
    restored: tuple[Callable[[OwnedJob], None], ...]
    job_released: tuple[Callable[[OwnedJob], None], ...]

    def __init__(self, features: Features | None = None) -> None:
        self._features = features if features is not None else Features()
        self._guests: dict[type[Guest], Guest] = {}
        self._attended: set[Feature] = set()
        self.tools: dict[str, Tool] = {}
        self.alone = False
        for hook in _HOOKS:
            setattr(self, hook, ())

    def find(self, kind: type[G]) -> G | None:
        """The guest of a kind, if the job has it."""
        return self._guests.get(kind)  # type: ignore[return-value] # filed by its own type

    # ---- who comes -----------------------------------------------------------------------------

    def begin(self, job: OwnedJob) -> None:
        """The job is taken on: every feature that it needs gives it a guest."""
        for feature in self._features.all:
            if not feature.dormant or _is_asked_for(feature, job):
                self._attend(feature, job)

    def wake_agent(self, job: OwnedJob, agent: str) -> None:
        """An agent whose turns are code is woken: its feature's guest is there from now on."""
        feature = self._features.of_agent.get(agent)
        if feature is not None:
            self._attend(feature, job)

    def look_at(self, job: OwnedJob, has: Callable[[str], bool]) -> None:
        """A lead's tree is looked at; `has` says whether there are files below a folder of it."""
        for feature in self._features.with_folder:
            if feature not in self._attended and has(feature.folder):
                self._attend(feature, job)

    def _attend(self, feature: Feature, job: OwnedJob) -> None:
        if feature in self._attended:
            return
        self._attended.add(feature)
        for guest in feature.guests(job):
            self.add(guest)

    def add(self, guest: Guest) -> None:
        """Take one more guest in."""
        self._guests[type(guest)] = guest
        self.tools.update(guest.tools)
        self.alone = self.alone or guest.alone
        for hook in _HOOKS:
            if getattr(type(guest), hook) is not getattr(Guest, hook):
                setattr(self, hook, (*getattr(self, hook), getattr(guest, hook)))


def _is_asked_for(feature: Feature, job: OwnedJob) -> bool:
    if feature.setting is not None and job.settings_of(feature.setting) != feature.setting():
        return True
    return bool(feature.slots) and any(slot.startswith(feature.slots) for slot in job.kept)


class Features:
    """The features of one engine."""

    def __init__(self, features: Iterable[Feature] = ()) -> None:
        self.all = tuple(features)
        self.with_folder = tuple(feature for feature in self.all if feature.folder)
        self.of_agent = {agent: feature for feature in self.all for agent in feature.agents}
        self.agents = {agent: kind for feature in self.all for agent, kind in feature.agents.items()}
        self.effects = {effect: perform for feature in self.all for effect, perform in feature.effects.items()}
