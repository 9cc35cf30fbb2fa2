"""`make cluster`: plays a job on three hosts of this machine, kills one of them meanwhile, and tells what came of it.

It starts a PostgreSQL server, a Temporal server and three workers, all in a folder of their own, and ends them again.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from parley.audit.audit import AuditReport, render
from parley.bus.rows import BusError
from parley.cli import FAILED, OK, CommandError, ctrl_c, home_bus
from parley.cli.common import one_line
from parley.cli.looking.audit_command import audited
from parley.cli.machine.boundary_trial import preflight
from parley.cli.machine.trust import settings_of
from parley.cli.starting.demo import FAST, DemoStuck
from parley.machine import stop_signals
from tools.cluster.coordinator import Played, Scene, own_play, play, workflow_demo
from tools.cluster.left_processes import adopt_orphans, left_processes
from tools.cluster.local_cluster import FOREIGN, HOSTS, ClusterTrouble, LocalCluster
from tools.cluster.story import by_host, host_line, wrapped
from tools.postgres_server import programs
from tools.temporal_server import PROGRAM

LEFT_SECONDS = 10.0  # in which a process that was told to end has to have ended
LONGEST_FOLDER = 50  # characters: the path of a socket below it may have 107
PASSING = ("postgresql", "hosts", "tmp", "worker", "remote.git")  # what is of no use once all of it has ended


def main() -> int:
    """Play it; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.cluster", description=__doc__)
    parser.add_argument("--fast", action="store_true", help="without the pauses that let people follow")
    parser.add_argument("--playbook", type=Path, metavar="FILE", help="play this instead of the workflow demo")
    options = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop_signals.stop)
    postgres = programs()
    if postgres is None or not PROGRAM.exists():
        lack = "Temporal is missing: start this by `make cluster`, which installs it"
        if postgres is None:
            lack = "PostgreSQL is missing: install it (on Debian: apt-get install postgresql) and run this again"
        print(f"cluster: {lack}", file=sys.stderr)
        return FAILED
    cluster = LocalCluster(_own_folder(), postgres)
    adopt_orphans()
    code, job = FAILED, ""
    try:
        pace = FAST if options.fast else 1.0
        scene = own_play(options.playbook, pace) if options.playbook else workflow_demo(pace)
        code, job = _run(cluster, scene)
    except KeyboardInterrupt as stop:
        print("cluster: interrupted; ending what runs", file=sys.stderr)
        code = stop.code if isinstance(stop, stop_signals.Stopped) else ctrl_c.CODE
    except (
        ClusterTrouble,
        CommandError,
        DemoStuck,
        BusError,
        OSError,
        RuntimeError,
        subprocess.SubprocessError,
    ) as error:
        print(f"cluster: {one_line(str(error), 400)}; the logs are in {cluster.folder / 'logs'}", file=sys.stderr)
    finally:
        cluster.stop_workers(at_once=True)
        cluster.stop_servers()
    return _end(cluster, code, job)


def _own_folder() -> Path:
    """A new folder, in which all of this takes place; and an environment that has nothing of the user's."""
    for name in [name for name in os.environ if name.startswith(FOREIGN)]:
        del os.environ[name]
    base, root = tempfile.gettempdir(), os.geteuid() == 0
    if root or len(base) > LONGEST_FOLDER:
        base = "/tmp"  # noqa: S108 - a folder of its own is made in it
    folder = Path(tempfile.mkdtemp(prefix="parley-cluster-", dir=base))
    if root:
        folder.chmod(0o711)  # PostgreSQL, which does not run as root, has a folder in it
    return folder


def _run(cluster: LocalCluster, scene: Scene) -> tuple[int, str]:
    """Start all, play the job, and tell of it; the exit code and the job."""
    print(f"PostgreSQL, Temporal and {len(HOSTS)} hosts start on this machine, in {cluster.folder}", flush=True)
    preflight(settings_of(cluster.place).boundary)
    cluster.start_servers()
    cluster.start_workers()
    for host in cluster.hosts():
        print(f"  {host_line(host)}")
    print(f"scripted agents play a job on them: {scene.play.request}", flush=True)
    played = play(cluster, scene)
    report = _told(cluster, played)
    cluster.stop_workers()
    cluster.parley("bus", "copy", "file")
    lost = played.killed is not None and played.story.last_lost(played.killed.host) is not None
    return OK if played.state == "DONE" and report.ok and lost else FAILED, played.job


# ---- what is told afterwards ---------------------------------------------------------------------


def _told(cluster: LocalCluster, played: Played) -> AuditReport:
    """Tell what happened; the audit's report."""
    _print("what ran where", by_host(played.story.ran))
    _print("what was lost", wrapped(_lost_words(played)))
    _print("the hosts now", [f"  {host_line(host)}" for host in cluster.hosts()])
    with closing(home_bus.open_store(cluster.place.home)) as store:
        report = audited(store, cluster.place, played.job)
    _print("the audit", [f"  {line.strip()}" for line in render(report)[:4]])
    return report


def _lost_words(played: Played) -> str:
    killed = played.killed
    if killed is None:
        return "No host was killed: the job was over before one of the agents that were waited for was at work."
    said = f"{killed.host} was killed at {_moment(killed.time)} while {killed.agent} worked on it."
    lost = played.story.last_lost(killed.host)
    if lost is None:
        return f"{said} No turn was lost."
    again = played.story.taken_over(lost)
    if again is None:
        return f"{said} Its turn was lost, and no other host took it over."
    after = again.span.began - killed.time
    return f"{said} That turn was lost with it, and nothing else; {again.host} did it again, {after:.1f} s later."


def _moment(time_: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(time_))


def _print(heading: str, lines: list[str]) -> None:
    print("\n".join(("", heading, *lines)), flush=True)


def _end(cluster: LocalCluster, code: int, job: str) -> int:
    """Look that no process is left, delete what is of no use any more, and say what is there."""
    left = left_processes(LEFT_SECONDS)
    for name in PASSING if code in (OK, FAILED) else ("",):
        shutil.rmtree(cluster.folder / name, ignore_errors=True)
    lines = [f"  {len(left)} processes were left, and were killed: {line}" for line in left] or ["  no process is left"]
    if job:
        program = cluster.write_program()
        lines += [f"  look at it: {program} show {job}", f"  delete it: rm -r {cluster.folder}"]
    _print("all has ended", lines)
    return code or (FAILED if left else OK)


if __name__ == "__main__":
    sys.exit(main())
