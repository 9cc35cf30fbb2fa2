"""Every question of a job, and every version of an artifact that was put forward: its verdict, and which of them count.

An approval counts as long as it is live, or stands in its record; it is superseded by a newer verdict or version, and
void once a backtrack has led to a state before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from parley.bus.rows import MessageRow, StepRow
from parley.engine.values import message_meta
from parley.engine.values.message_meta import Answered, Posed, Put, Replied
from parley.engine.values.step_names import NamedRecord, NamedVerdict, first_named, place_of
from parley.protocol.codec import decode_as
from parley.protocol.molecules import STEERING, Kind, MessageKind, Ruling, thread_name
from parley.protocol.rule import Passage
from parley.protocol.states import APPROVAL, LIVE, State, is_backtrack
from parley.roles.phases import PHASES

OPEN, APPROVED, SENT_BACK, SUPERSEDED, VOID, WORDS, GONE = (
    "open",  # it waits for its verdict
    "approved",  # and that counts
    "sent back",
    "superseded",  # by a newer version, or by a newer verdict
    "void",  # approved once, but a backtrack or the end took that away
    "answered",  # in words, or by a verdict that does not count for an artifact
    "gone",  # it ended without an answer, with its thread
)
RULES = frozenset(("ask", "send-ask", "respond", "transition", "term-record", "term-human", "term-proxy"))
MAIL = frozenset((MessageKind.QUESTION, MessageKind.REPLY, MessageKind.ANSWER))
_ARTIFACTS = tuple(PHASES[state].artifact for state in LIVE)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionVersion:
    """A question as it was put, and what was said to it."""

    question: str
    kind: str  # question, assert, failure
    artifact: str
    digest: str
    time: float
    asker: str
    thread: str
    state: str
    text: str
    number: int  # of its message
    record: str = ""  # whose artifact it is: the job's, or a subteam's
    excerpt: str = ""  # how the artifact begins
    standing: str = OPEN
    framing: int = 0  # the message that put it to the human last; 0: none
    ruling: str = ""
    author: str = ""  # human or proxy
    by: str = ""  # the person, where the human spoke
    words: str = ""
    answered: float = 0.0

    @property
    def live(self) -> bool:
        """Whether it is an approval that counts now."""
        return self.standing == APPROVED


@dataclass(slots=True)
class _RecordState:
    """Which questions a record's live verdicts, newest assertions and carried approvals came from, by artifact."""

    asserted: dict[str, str] = field(default_factory=dict)
    live: dict[str, str] = field(default_factory=dict)
    carried: dict[str, str] = field(default_factory=dict)


class ArtifactHistory:
    """Follows questions, versions and verdicts from row to row; steps and messages may come in either order."""

    def __init__(self) -> None:
        self._asked: dict[str, QuestionVersion] = {}
        self._standing: dict[str, str] = {}
        self._record: dict[str, str] = {}
        self._records: dict[str, _RecordState] = {}
        self._digests: dict[str, str] = {}  # of asserted versions

    def questions(self) -> list[QuestionVersion]:
        """Every question, in the order in which they were asked."""
        return [self._made(one) for one in self._asked.values()]

    def versions(self, artifact: str = "") -> list[QuestionVersion]:
        """Every version of an artifact, or of all, that was put forward, in that order."""
        asserts = (one for one in self.questions() if one.kind == Kind.ASSERT)
        return [one for one in asserts if artifact in ("", one.artifact)]

    def get(self, question: str) -> QuestionVersion | None:
        """One question."""
        found = self._asked.get(question)
        return self._made(found) if found is not None else None

    def _made(self, one: QuestionVersion) -> QuestionVersion:
        name = one.question
        return replace(one, standing=self._standing.get(name, OPEN), record=self._record.get(name, ""))

    # ---- messages

    def hear(self, row: MessageRow) -> None:
        """Take in a message of one of the kinds in MAIL."""
        match message_meta.read(row):
            case Posed() as posed:
                self._pose(row, posed)
            case Put(question=name) as put:
                self._put(row, name, put)
            case Replied() as replied:
                if (one := self._asked.get(thread_name(row.thread))) is not None:
                    self._asked[one.question] = replace(one, by=replied.by)
            case Answered() as answer:
                self._answer(row, answer)
            case _:
                pass

    def _pose(self, row: MessageRow, posed: Posed) -> None:
        self._asked[posed.question] = QuestionVersion(
            question=posed.question,
            kind=str(posed.kind),
            artifact=posed.artifact,
            digest=posed.digest,
            time=row.time,
            asker=row.sender,
            thread=row.sender_thread,
            state=posed.state,
            text=posed.text,
            number=row.number,
            excerpt=posed.excerpt,
        )

    def _put(self, row: MessageRow, name: str, put: Put) -> None:
        """A question to the human. That of a failure is no agent's, and is known by this message alone."""
        if name not in self._asked:
            self._asked[name] = QuestionVersion(
                question=name,
                kind=str(put.kind),
                artifact=put.artifact,
                digest=put.digest,
                time=row.time,
                asker=put.asker,
                thread=put.thread,
                state=put.state,
                text=put.text,
                number=row.number,
            )
        self._asked[name] = replace(self._asked[name], framing=row.number)

    def _answer(self, row: MessageRow, answer: Answered) -> None:
        if (one := self._asked.get(answer.question)) is not None:
            self._asked[one.question] = replace(
                one,
                ruling=str(answer.ruling or answer.choice),
                author=answer.author,
                words=answer.text,
                answered=row.time,
            )

    # ---- steps

    def read(self, step: StepRow) -> None:
        """Take in a step of one of RULES."""
        match step.rule:
            case "ask" | "send-ask":
                for words in _assertions(step.produced):
                    self._assert(*words)
            case "respond":
                self._respond(step)
            case "transition":
                self._pass(step)
            case "term-record":
                self._end_record(self._of(place_of(step).record))
            case _:
                self._standing.setdefault(place_of(step).question, GONE)

    def _of(self, record: str) -> _RecordState:
        return self._records.setdefault(record, _RecordState())

    def _assert(self, record: str, artifact: str, question: str, digest: str) -> None:
        state = self._of(record)
        before = state.asserted.get(artifact, "")
        if before and before not in self._standing:
            self._standing[before] = SUPERSEDED
        state.asserted[artifact] = question
        self._record[question], self._digests[question] = record, digest

    def _respond(self, step: StepRow) -> None:
        name = place_of(step).question
        given = first_named(NamedVerdict, step.produced)
        if given is None:
            if self._standing.get(name) != SUPERSEDED:
                self._standing[name] = WORDS
            return
        state = self._of(given.record)
        replaced = list(state.live) if given.ruling in STEERING else [given.artifact]
        for artifact in replaced:
            older = state.live.pop(artifact, "")
            if self._standing.get(older) == APPROVED and older not in state.carried.values():
                self._standing[older] = SUPERSEDED
        state.live[given.artifact] = name
        approved = given.ruling is Ruling.APPROVE
        self._standing[name] = WORDS if not given.artifact else APPROVED if approved else SENT_BACK

    def _pass(self, step: StepRow) -> None:
        before, passage = first_named(NamedRecord, step.consumed), decode_as(Passage, step.choice)
        if before is None:
            return
        state, record = before.state, self._of(before.id)
        if passage.action is APPROVAL.get(state):
            self._carry(record, state, dict(passage.contents))
        elif is_backtrack(state, passage.action):
            target = first_named(NamedRecord, step.produced)
            after = LIVE.index(target.state) if target is not None and target.state in LIVE else 0
            for artifact in _ARTIFACTS[after:]:
                self._void(record.carried.pop(artifact, ""))
        self._end_record(record)

    def _carry(self, record: _RecordState, state: State, contents: Mapping[str, str]) -> None:
        """What stands approved after a forward passage: of each artifact the content that it has now."""
        for artifact in _ARTIFACTS[: LIVE.index(state) + 1]:
            digest, older = contents.get(artifact, ""), record.carried.get(artifact, "")
            newer = record.live.get(artifact, "")
            if newer and self._digests.get(newer) == digest and self._standing.get(newer) == APPROVED:
                if older and older != newer:
                    self._standing[older] = SUPERSEDED
                record.carried[artifact] = newer
            elif older and self._digests.get(older) != digest:
                self._void(record.carried.pop(artifact))

    def _end_record(self, record: _RecordState) -> None:
        """A transition forgets the verdicts that were live: an approval that it did not carry on counts no more."""
        for question in record.live.values():
            if question not in record.carried.values():
                self._void(question)
        record.live.clear()
        record.asserted.clear()

    def _void(self, question: str) -> None:
        if self._standing.get(question) == APPROVED:
            self._standing[question] = VOID


def _assertions(briefs: str) -> Iterator[tuple[str, str, str, str]]:
    """The assertions that a row names: record, artifact, question, digest."""
    if "Assertion " not in briefs:
        return
    for brief in briefs.split("\n"):
        words = brief.split(" ")
        if words[0] == "Assertion" and len(words) == 5:  # noqa: PLR2004 - as its brief writes it
            yield words[1], words[2], words[3], words[4]
