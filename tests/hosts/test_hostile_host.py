"""A host that does what no worker of Parley's does, with its own database role: it harms no turn but its own."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from parley import __version__
from parley.bus.postgres.postgres_schema import schema_of
from parley.hosts import turn_documents as documents
from parley.hosts.board import PROTOCOL, TurnKey
from parley.hosts.board_link import BoardLink, BoardRefuses
from parley.hosts.host_board import HostBoard
from parley.hosts.turn_documents import NotReadable
from parley.ports.turns import Called, Confined, Ended, Progress, Sign, TurnEvent, Waiting
from tests.cli.home import wait_for
from tests.hosts.many_hosts import ROLE, ManyHosts, RunningJob, TemporalServer
from tests.hosts.test_board import KEY, BoardScene, begin, claim, put, state
from tests.postgres_server import Bus, Server
from tests.stores.rows import job as job_row

LATER = TurnKey("job", "t2", 1)
HELLO = f"board_hello(%s, %s, %s, %s::text[], '{__version__}', {PROTOCOL}, %s)"


@pytest.fixture
def scene(server: Server) -> Iterator[BoardScene]:
    with closing(BoardScene(server)) as found:
        yield found


# ---- what a host says of itself --------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        ("a", "w", 0, [], ""),
        ("a", "w", -1, [], ""),
        ("a", "w", 10**9, [], ""),
        ("a", "w", None, [], ""),
        ("a\n", "w", 1, [], ""),
        ("../a", "w", 1, [], ""),
        ("a", "", 1, [], ""),
        ("a", "w" * 65, 1, [], ""),
        ("a", "w", 1, None, ""),
        ("a", "w", 1, [None], ""),
        ("a", "w", 1, [["x"], ["y"]], ""),
        ("a", "w", 1, ["two words"], ""),
        ("a", "w", 1, ["x"] * 33, ""),
        ("a", "w", 1, [], "b" * 301),
        ("a", "w", 1, [], None),
    ],
    ids=str,
)
def test_a_host_that_describes_itself_oddly_is_not_taken(scene: BoardScene, given: tuple[Any, ...]) -> None:
    before = {host.name for host in scene.board.hosts()}
    with scene.connect(scene.roles[0]) as host:
        found = host.execute(f"SELECT problem FROM {HELLO}", given).fetchone()  # noqa: S608 - our own words

    assert found == ("odd",)
    assert {host.name for host in scene.board.hosts()} == before


@pytest.mark.parametrize("said", [(None, PROTOCOL), (__version__, None)], ids=["no version", "no protocol"])
def test_a_host_that_tells_no_version_is_not_taken(scene: BoardScene, said: tuple[str | None, int | None]) -> None:
    with scene.connect(scene.roles[0]) as host:
        found = host.execute("SELECT problem FROM board_hello('a', 'w', 1, '{}', %s, %s, '')", said).fetchone()

    assert found == (f"version {__version__} {PROTOCOL}",)


def test_a_role_has_a_thousand_names_at_most_and_no_host_uses_more_slots_than_it_has(scene: BoardScene) -> None:
    names = HELLO.replace("%s", "'h' || n", 1)
    with scene.connect(scene.roles[0]) as host:
        query = f"SELECT problem FROM generate_series(1, 1001) n, LATERAL {names}"  # noqa: S608 - our own words
        found = host.execute(query, ("w", 4, [], "")).fetchall()
        used = []
        for said in (-5, 2**31 - 1):
            host.execute("SELECT board_alive('h1', 'w', %s, false)", (said,))
            used.append(scene.board.hosts()[0].used)

    assert found == [("",)] * 1000 + [("many",)]
    assert used == [0, 4]


# ---- turns that are not its own --------------------------------------------------------------------


def test_a_host_claims_no_more_turns_than_it_has_slots_and_none_that_wants_another_label(scene: BoardScene) -> None:
    keys = [KEY._replace(turn=f"t{number}") for number in range(1, 5)]
    for key, label in zip(keys, ("big", "", "gpu", ""), strict=True):
        scene.board.put(key, "coder", "dispatch:1", "the order", "the files", label)
    host = scene.host("a", "w1")  # two slots, and the label gpu

    assert [host.claim(key)[0] for key in keys] == ["busy", "yours", "yours", "busy"]
    assert host.end(keys[1], 1, "handed back")
    assert host.claim(keys[3])[0] == "yours", "a slot is free again"


def test_a_session_that_stays_open_holds_up_no_other_host_and_no_coordinator(scene: BoardScene) -> None:
    """Its transaction keeps what its functions have locked; whatever it calls, that is its own turn at most."""
    put(scene)
    put(scene, LATER)
    victim, hostile = scene.host("a", "w1", 0), scene.host("b", "w2", 1)
    attempt = begin(victim)
    claim(hostile, LATER)
    link = BoardLink(partial(_impatient, scene, "postgres"))
    calls = [
        *(f"board_claim('job', '{key.turn}', 1, 'b', 'w2')" for key in (KEY, LATER)),
        *(f"board_tell('job', '{key.turn}', 1, 1, 'b', 'w2', 1, '{{x}}')" for key in (KEY, LATER)),
        *(f"board_end('job', '{key.turn}', 1, 1, 'b', 'w2', 'ended', 1, 'x')" for key in (KEY, LATER)),
        *(f"board_begin('job', '{key.turn}', 1, 1, 'b', 'w2')" for key in (KEY, LATER)),
        f"board_hello('a', 'w9', 1, '{{}}', '{__version__}', {PROTOCOL}, '')",
        "pg_advisory_lock(123628461154425)",
    ]
    session = scene.connect(scene.roles[1])
    with closing(session), closing(link):
        session.execute("BEGIN")
        for call in calls:
            session.execute(f"SELECT {call}")

        victim._link.rows("SET lock_timeout = '1s'")
        assert victim.alive(1, draining=False)
        assert victim.tell(KEY, attempt, 1, ["said"])
        board = type(scene.board)(link, scene.schema)
        board.install(0.4, scene.roles)
        board.reply(LATER, 1, "an answer")
        assert not board.cancel(LATER), "its own turn, and nothing waits for that either"
        board.let_go([KEY, LATER])
        board.strip(LATER)
        board.rest("job")
        board.forget_all_but([])
        assert victim.end(KEY, attempt, "ended", 2, "the end")
        board.end_sessions(0.0)
        wait_for(lambda: board.cancel(LATER))


def _impatient(scene: BoardScene, role: str) -> psycopg.Connection[tuple[object, ...]]:
    connection = scene.connect(role)
    connection.execute("SET lock_timeout = '1s'")
    return connection


def test_no_advisory_lock_that_a_role_holds_keeps_the_bus_from_being_written(
    scene: BoardScene, server: Server, tmp_path: Path
) -> None:
    bus = Bus(server, tmp_path)
    meta = (
        "SELECT pg_advisory_lock(c.oid::integer, n) FROM pg_class c, generate_series(0, 9) n "
        "WHERE c.relname = 'meta' AND c.relnamespace = %s::regnamespace"
    )
    with closing(scene.connect(scene.roles[0])) as session, closing(bus.open()) as store:
        session.execute(meta, (schema_of(bus.key.id),))
        with pytest.raises(psycopg.errors.InsufficientPrivilege), session.transaction():
            session.execute(f"LOCK TABLE {schema_of(bus.key.id)}.writing IN EXCLUSIVE MODE")

        store.create(job_row("job"))
        assert store.own("job")


def test_a_turn_that_is_claimed_and_handed_back_again_and_again_is_over_in_the_end(scene: BoardScene) -> None:
    put(scene)
    host = scene.host("a", "w1")
    for _ in range(20):
        assert host.end(KEY, claim(host), "handed back")

    assert host.claim(KEY)[0] == "over"
    assert state(scene)[:2] == ("over", "handed back")


# ---- what a host tells of its own turns ------------------------------------------------------------


@pytest.mark.parametrize(
    "first, bodies",
    [(2, ["x"]), (0, ["x", "y"]), (-1, ["x"]), (2**63 - 1, ["x"]), (None, ["x"]), (1, []), (1, [None]), (1, [""]),
     (1, ["x", None]), (1, ["x" * (8 * 2**20 + 1)])],
)  # fmt: skip
def test_events_out_of_order_or_too_long_are_refused(scene: BoardScene, first: int, bodies: list[str]) -> None:
    put(scene)
    host = scene.host("a", "w1")
    attempt = begin(host)

    with suppress(BoardRefuses):
        host.tell(KEY, attempt, first, bodies)
    assert scene.board.events([(KEY, -(2**62))]) == []
    assert host.tell(KEY, attempt, 1, ["x"])


def test_a_turn_tells_no_more_than_the_coordinator_can_hold_and_it_is_read_in_parts(scene: BoardScene) -> None:
    put(scene)
    host = scene.host("a", "w1")
    attempt, told = begin(host), 5
    assert all(host.tell(KEY, attempt, number + 1, ["x" * 2**23]) for number in range(told))
    scene.link.rows("UPDATE board_orders SET weight = 2 * weight")
    with pytest.raises(BoardRefuses, match="more than a turn may tell"):
        host.tell(KEY, attempt, told + 1, ["x" * 2**23] * 3)

    read: list[int] = []
    while found := scene.board.events([(KEY, read[-1] if read else 0)]):
        assert sum(len(event.body) for event in found) <= 40 << 20
        read += [event.number for event in found]
    assert read == list(range(1, told + 1))
    assert host.end(KEY, attempt, "ended", told + 1, "the end"), "it can end all the same"


@pytest.mark.parametrize("body", ["", None])
def test_an_end_that_tells_nothing_is_refused(scene: BoardScene, body: str) -> None:
    put(scene)
    host = scene.host("a", "w1")
    attempt = begin(host)

    with pytest.raises(BoardRefuses):
        host.end(KEY, attempt, "ended", 1, body)
    assert state(scene)[0] == "begun"


def test_a_lone_surrogate_of_an_agents_arrives_as_something_that_is_refused() -> None:
    call = Called("job", "t1", "token", 1, "Send", {"to": "\ud800", "files": ["a", {"b\udfff": [None, 1.5, True]}]})
    event, _ = documents.read_event(documents.event_text(call), "job", "t1")

    assert isinstance(event, Called)
    assert event.arguments == {"to": "\0", "files": ["a", {"b\0": [None, 1.5, True]}]}
    said = Progress("job", "t1", "a\ud800", sign=Sign.WRITING)
    assert documents.read_event(documents.event_text(said), "job", "t1")[0] == Progress(
        "job", "t1", "a\0", sign=Sign.WRITING
    )
    left = Ended("job", "t1", 1, boundary=Confined(ok=True, faults=("\ud800",)))
    assert documents.read_event(documents.event_text(left), "job", "t1")[0].boundary.faults == ("\0",)  # type: ignore[union-attr]


@pytest.mark.parametrize("number", [-1, 2**31, 2**70])
def test_a_call_has_a_number_that_the_board_can_hold(number: int) -> None:
    with pytest.raises(NotReadable, match="no number"):
        documents.read_event(documents.event_text(Called("job", "t1", "token", number, "Send", {})), "job", "t1")


# ---- a job whose turns are run by a liar -----------------------------------------------------------

ASKS = "agents:\n  intent-lead:\n    - {match: 'INTENT', repeat: true, do: [{ask: {text: 'what now?'}}]}\n"


class Liar:
    """A host with the workers' role, which speaks for itself."""

    def __init__(self, scene: ManyHosts) -> None:
        self._scene = scene
        url = scene.server.url.replace("postgres@", f"{ROLE}@")
        options = f"-csearch_path={scene.schema},pg_temp"
        self._link = BoardLink(lambda: psycopg.connect(url, autocommit=True, options=options))
        self.board = HostBoard(self._link, "liar", "w1")
        assert self.board.hello(4, (), __version__, PROTOCOL, "49 of 49 escapes held")[0] == ""

    def turn(self, job: str) -> tuple[TurnKey, int]:
        """A turn of a job, which this host has begun."""
        key = wait_for(lambda: self._open(job))
        code, claimed = self.board.claim(key)
        assert code == "yours"
        assert self.board.begin(key, claimed.attempt)
        return key, claimed.attempt

    def _open(self, job: str) -> TurnKey | None:
        assert self.board.alive(1, draining=False)
        query = sql.SQL("SELECT job, turn, epoch FROM {} WHERE job = %s AND state = 'open'").format(
            sql.Identifier(self._scene.schema, "board_orders")
        )
        with psycopg.connect(self._scene.server.url) as connection:
            found = connection.execute(query, (job,)).fetchone()
        return TurnKey._make(found) if found else None

    def lives(self) -> bool:
        return self.board.alive(1, draining=False)

    def close(self) -> None:
        self._link.close()


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory, server: Server) -> Iterator[ManyHosts]:
    """A coordinator whose Temporal does not answer: the liar takes what it finds."""
    base = tmp_path_factory.mktemp("hostile")
    with closing(ManyHosts(base, server, TemporalServer(base))) as found:
        assert found.hosts() == []
        yield found


@pytest.fixture
def liar(hosts: ManyHosts) -> Iterator[Liar]:
    with closing(Liar(hosts)) as found:
        yield found
        found.board.bye()


def ended(key: TurnKey, **more: Any) -> str:
    return documents.event_text(Ended(key.job, key.turn, key.epoch, **more))


def told(scene: ManyHosts, liar: Liar, job: str) -> list[str]:
    """The faults that a job's streams tell of, once there is one."""

    def look() -> list[str]:
        assert liar.lives()
        return [line["fault"] for line in scene.streamed(job) if line["event"] == "lost"]

    return wait_for(look)  # type: ignore[no-any-return]


def give_up(scene: ManyHosts, running: RunningJob) -> None:
    """The coordinator is well: it takes a withdrawal, and the record is sound."""
    assert scene.home.run("withdraw", running.job, "--yes").code == 0
    running.end()
    assert scene.home.run("audit", running.job).code == 0


def _other(key: TurnKey) -> TurnEvent:
    return Progress("other", key.turn, "said")


LIES: Mapping[str, tuple[Callable[[TurnKey], str], str]] = {
    "an event of another job": (lambda key: documents.event_text(_other(key)), "an event of another turn"),
    "an end before its end": (ended, "told an end that is none"),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_what_can_not_be_is_told_of_the_turn_and_the_job_goes_on(hosts: ManyHosts, liar: Liar, lie: str) -> None:
    said, fault = LIES[lie]
    with hosts.running_job(ASKS) as running:
        key, attempt = liar.turn(running.job)
        assert liar.board.tell(key, attempt, 1, [said(key)])
        wait_for(lambda: liar.lives() and not liar.board.mine()[key][0])
        assert liar.board.end(key, attempt, "dead")

        assert fault in told(hosts, liar, running.job)[0]
        give_up(hosts, running)


def test_a_turn_that_no_host_can_take_says_what_it_waits_for(hosts: ManyHosts) -> None:
    with hosts.running_job(ASKS) as running:
        waits = "waits for a host: Temporal can't be reached"
        wait_for(lambda: any(waits in line.get("text", "") for line in hosts.streamed(running.job)))
        give_up(hosts, running)


def test_an_end_of_no_end_loses_the_turn_alone(hosts: ManyHosts, liar: Liar) -> None:
    with hosts.running_job(ASKS) as running:
        key, attempt = liar.turn(running.job)
        call = documents.event_text(Called(key.job, key.turn, "a guess", 2**31 - 1, "Send", {"text": "\0"}))
        assert liar.board.tell(key, attempt, 1, [call])
        ((_, reply),) = wait_for(lambda: liar.lives() and liar.board.heard(key, attempt, [2**31 - 1]))
        assert not documents.read_reply(reply).ok, "the call has not the turn's token"
        progress = documents.event_text(Progress(key.job, key.turn, "said"))
        assert liar.board.end(key, attempt, "ended", 2, progress)

        assert "told an end that is none" in told(hosts, liar, running.job)[0]
        give_up(hosts, running)


def test_nonsense_in_an_end_is_left_out_of_the_record(hosts: ManyHosts, liar: Liar) -> None:
    with hosts.running_job(ASKS) as running:
        key, attempt = liar.turn(running.job)
        nonsense = Confined(ok=True, held=-1, tried=10**30, faults=("a\0",) * 500, uid=10**30, accepted="\0")
        usage = {"cost": -1.0, "turns\0": 1e308, "input_tokens": 5.0}
        said = ended(
            key, text="\0" * 9, fault="it\0broke", host="another", usage=usage, boundary=nonsense, model="m" * 999
        )
        late = documents.event_text(Waiting(key.job, key.turn, "a limit", 1e300))
        assert liar.board.tell(key, attempt, 1, [late])
        shown = wait_for(lambda: liar.lives() and (found := hosts.home.run("show", running.job)).code == 0 and found)
        assert "Traceback" not in shown.out + shown.err
        assert liar.board.end(key, attempt, "ended", 2, said)

        assert told(hosts, liar, running.job)
        give_up(hosts, running)
    (extra,) = [
        json.loads(row[-1])
        for row in hosts.rows(running.job, "steps")
        if row[-1] and "it" in row[-1] and "broke" in row[-1]
    ]
    assert extra["host"] == "liar"
    assert extra["boundary"]["held"] == 0
    assert extra["boundary"]["tried"] <= 10_000
    assert len(extra["boundary"]["faults"]) <= 100
    assert "cost" not in extra["usage"]


def test_a_host_that_gives_every_turn_back_does_not_keep_a_job_going_for_ever(hosts: ManyHosts, liar: Liar) -> None:
    with hosts.running_job(ASKS) as running:
        for _ in range(30):
            found = wait_for(lambda: running.process.poll() is not None or liar._open(running.job))
            if found is True:
                break
            key, attempt = liar.turn(running.job)
            liar.board.end(key, attempt, "handed back", 1, ended(key, fault="given back"))
        assert running.process.poll() is not None, "its agent counts as failed"


def test_a_session_that_keeps_a_turn_locked_is_ended_when_the_turn_is_to_end(hosts: ManyHosts, liar: Liar) -> None:
    with hosts.running_job(ASKS) as running:
        key, attempt = liar.turn(running.job)
        liar._link.rows("BEGIN")
        assert liar.board.tell(key, attempt, 1, [documents.event_text(Progress(key.job, key.turn, "said"))])

        give_up(hosts, running)


@pytest.mark.parametrize(
    "text",
    ["{", "[" * 100_000, "{}", '{"kind":"called","event":{}}', '{"kind":"x","event":1}', "null", "\ud800"],
    ids=lambda text: ascii(text)[:20],
)
def test_an_event_of_the_wrong_form_is_not_readable(text: str) -> None:
    with pytest.raises(NotReadable):
        documents.read_event(text, "job", "t1")
