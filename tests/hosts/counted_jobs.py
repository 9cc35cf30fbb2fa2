"""Jobs whose effects are counted outside Parley, and what must be true of them after each fault.

Each agent appends the name of its turn to a file of its own, by a shell and not by Parley. What is in the job's folder
in the end is what has taken effect: one line for each agent, of a turn that the record knows as ended.
"""

import contextlib
import json
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg

from parley.cli import WAITING
from tests.cli.home import Home, turn_processes, wait_for
from tests.hosts.many_hosts import ManyHosts, RunningJob
from tests.hosts.network_hosts import NetworkHosts
from tests.workspaces.user_repository import git

AGENTS = ("researcher", "writer")
STAYS = "{shell: 'until [ -e go ]; do sleep 0.05; done'}"  # at work until it is let go
SLOTS = "3"
END_SECONDS = 180.0  # that a job may take to its end after a fault, on a busy machine


def counted(*agents: str, stays: str = "", first: str = "", pause: str = "") -> str:
    """A playbook: so many agents are at work at once and report; then the lead asks the human.

    `first`: an action of the lead's before it sends; `pause`: one of each agent's before its effect; `stays`: after it.
    """
    more = f", {stays}" if stays else ""
    sends = ", ".join(f'{{send: {{to: {agent}, as: {agent}, text: "look"}}}}' for agent in agents)
    closes = ", ".join(f"{{close: {{thread: {agent}}}}}" for agent in agents)
    waits = "".join("    - {match: 'seen', do: []}\n" for _ in agents[1:])
    text = (
        "agents:\n  intent-lead:\n"
        f"    - {{match: '\\[INTENT\\]', do: [{first}{sends}]}}\n{waits}"
        f"    - {{match: 'seen', do: [{closes}, {{ask: {{text: \"what now?\"}}}}]}}\n"
    )
    for agent in agents:
        effect = f"{pause}, " if pause else ""
        effect += f"""{{shell: 'printf "%s\\n" "$PARLEY_TURN" >> effect-{agent}.txt'}}"""
        text += f"  {agent}:\n    - {{match: 'look', repeat: true, do: [{effect}{more}, {{say: seen}}]}}\n"
    return text


def until(what: Callable[[], Any]) -> Any:
    """Wait until something is so, on a machine with much else to do."""
    return wait_for(what, END_SECONDS)


def second_coordinator(scene: ManyHosts, name: str = "second") -> Home:
    """Another coordinator's home, with folders of its own, on the same bus."""
    folder, own = scene.base / f"{name}-work", scene.base / name
    folder.mkdir()
    (own / "config" / "parley").mkdir(parents=True)
    settings = scene.base / "coordinator" / "config" / "parley" / "parley.toml"
    (own / "config" / "parley" / "parley.toml").write_text(settings.read_text(encoding="utf-8"), encoding="utf-8")
    folders = {f"XDG_{kind.upper()}_HOME": str(own / kind) for kind in ("config", "state", "data")}
    home = Home(folder, {**scene.home.environment, **folders}, scene.home.inside)
    invitation = str(own / "invitation")
    for who, words in ((scene.home, ("invite", invitation)), (home, ("join", invitation))):
        done = who.run("bus", *words)
        assert done.code == 0, done
    return home


@dataclass
class Cluster:
    """Three hosts, and two coordinators that share a bus."""

    scene: NetworkHosts
    second: Home

    def start(self, *names: str) -> None:
        """Start hosts, and wait until they are seen. One that was killed is started again."""
        for name in names:
            self.start_with(name)

    def start_with(self, name: str, *words: str, **more: str) -> None:
        """Start a host with more options or variables."""
        self.scene.start_worker(name, "--slots", SLOTS, *words, **more)
        self.scene.wait_for_host(name)

    def kill(self, *names: str) -> None:
        for name in names:
            self.scene.workers[name].kill()

    def asked(self, running: RunningJob) -> None:
        """Let a job's agents end their turns, and wait until it asks the human: then its owner ends."""
        self._asked(running.process, running.job)

    def _asked(self, owner: subprocess.Popen[str], *jobs: str) -> None:
        deadline = time.monotonic() + END_SECONDS
        while owner.poll() is None and time.monotonic() < deadline:
            for job in jobs:
                self.let_go(job)
            time.sleep(0.1)
        out, err = owner.communicate(timeout=1)
        assert owner.returncode == WAITING, (out, err)
        assert "Traceback" not in out + err

    def let_go(self, job: str) -> None:
        """Let a job's agents end the turns that they have now, wherever they are."""
        for folder in (self.scene.base / "hosts").glob(f"*/jobs/{job}/trees/*"):
            with contextlib.suppress(OSError):
                (folder / "go").touch()

    def take_over(self, *jobs: str) -> None:
        """The second coordinator takes jobs over once their leases have ended, and carries them to their questions."""
        until(lambda: not self._board("SELECT owner FROM {}.leases WHERE expires > clock_timestamp()", bus=True))
        with self.second.started("resume", *(jobs if len(jobs) == 1 else ())) as owner:
            self._asked(owner, *jobs)

    # ---- what is seen of a job from outside --------------------------------------------------------

    def orders(self, job: str, thread: str = "") -> dict[str, str]:
        """The turns of a job that were put out, each with where it stands."""
        asked = "SELECT turn, state FROM {}.board_orders WHERE job = %s AND starts_with(thread, %s)"
        return {str(turn): str(state) for turn, state in self._board(asked, job, thread)}

    def at_work(self, job: str) -> dict[str, str]:
        """The turns below the lead whose agents are at work, each with its host."""
        begun = "SELECT turn, host FROM {}.board_orders WHERE job = %s AND state = 'begun' AND thread LIKE %s"
        return {
            str(turn): str(host)
            for turn, host in self._board(begun, job, "dispatch:%")
            if turn_processes(job, str(turn))
        }

    def calls(self, job: str) -> list[Any]:
        """The calls of a job's turns that wait for a reply."""
        return self._board(
            "SELECT turn, number FROM {0}.board_events e WHERE job = %s AND body LIKE '%%\"called\"%%' AND NOT EXISTS "
            "(SELECT FROM {0}.board_replies r WHERE (r.job, r.turn, r.epoch) = (e.job, e.turn, e.epoch))",
            job,
        )

    def _board(self, statement: str, *given: str, bus: bool = False) -> list[Any]:
        schema = self.scene.schema.removesuffix("_board") if bus else self.scene.schema
        with psycopg.connect(self.scene.server.url) as connection:
            return connection.execute(statement.format(schema), given).fetchall()

    def published(self, job: str) -> str:
        """What the remote has as the job's state."""
        return next((commit for ref, commit in remote_refs(self.scene).items() if ref.endswith(f"/{job}/state")), "")


def check(scene: ManyHosts, home: Home, job: str, *agents: str, lost: int | None = None, most: int = 1) -> None:
    """Every effect once, no turn lost by its agent, no process left, a sound record.

    `lost`: how many turns have to be lost in all, where that is known; `most`: of one instance.
    """
    ran = scene.ran_on(job)
    effects = effects_of(home, job)
    assert sorted(effects) == sorted(agents), effects
    for agent, turns in effects.items():
        assert len(turns) == 1, (agent, turns)
        assert turns[0].removeprefix(f"{job}/") in ran, (turns, ran)
    reports = [row[9].splitlines()[-1] for row in scene.rows(job, "messages") if row[9].startswith("[REPORT]")]
    assert reports == ["seen"] * len(agents), reports
    recovers = [(row[5], row[6]) for row in scene.rows(job, "steps") if row[2] == "recover"]
    assert all(count <= most for count in Counter(at for at, _ in recovers).values()), recovers
    assert all("engine" in choice for _, choice in recovers), recovers
    if lost is not None:
        assert len(recovers) == lost, recovers
    audit = home.run("audit", job)
    assert audit.code == 0, audit
    until(lambda: not turn_processes(job))


def faults(hosts: Cluster, job: str) -> list[str]:
    """Why turns were lost, as the job's streams have it."""
    folder = hosts.scene.home.folder / ".parley" / "jobs" / job
    lines = [json.loads(line) for path in folder.glob("**/*.jsonl") for line in path.read_text().splitlines()]
    return [line["fault"] for line in lines if line["event"] == "lost"]


def effects_of(home: Home, job: str) -> dict[str, list[str]]:
    """What each agent's shell has written, by the agent, as it is in the job's worktree in the end."""
    written = (home.folder / ".parley" / "jobs" / job / "work").glob("effect-*.txt")
    return {path.stem.removeprefix("effect-"): path.read_text(encoding="utf-8").split() for path in written}


@contextlib.contextmanager
def held_table(scene: ManyHosts, table: str) -> Iterator[None]:
    """Nothing is written to a table of the board or, with a dot before its name, of the bus."""
    schema = scene.schema if not table.startswith(".") else scene.schema.removesuffix("_board")
    with psycopg.connect(scene.server.url) as connection:
        connection.execute(f"LOCK TABLE {schema}.{table.lstrip('.')} IN SHARE ROW EXCLUSIVE MODE")
        yield
        connection.execute(  # what a killed process had asked for is not done after its death
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid))"
        )


def killed(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()


def remote_refs(scene: ManyHosts) -> dict[str, str]:
    """What the git remote has."""
    lines = git(scene.remote, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    return {line.split()[0]: line.split()[1] for line in lines}
