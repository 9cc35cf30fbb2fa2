"""What a worker answers those who watch it, with the real servers going away and coming back."""

import signal
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.home import APPROVES, LEADS, Home, wait_for
from tests.hosts.many_hosts import ManyHosts, TemporalServer
from tests.postgres_server import Server


@pytest.fixture
def scene(tmp_path: Path, server: Server) -> Iterator[ManyHosts]:
    (tmp_path / "scene").mkdir()
    temporal = TemporalServer(tmp_path)
    temporal.start()
    try:
        with closing(ManyHosts(tmp_path / "scene", server, temporal)) as found:
            yield found
    finally:
        temporal.kill()


def get(port: int, path: str) -> tuple[int, str]:
    """The answer to a request; 0 where none came."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()
    except OSError:
        return 0, ""


def figures(port: int) -> dict[str, float]:
    code, text = get(port, "/metrics")
    assert code == 200
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_a_worker_says_whether_it_can_take_turns_and_why_not(scene: ManyHosts, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(str(tmp_path / "notify"))
    manager.settimeout(60)
    scene.hosts()  # makes the board
    worker = scene.start_worker(
        "one", "--slots", "2", "--health", f"127.0.0.1:{port}",
        NOTIFY_SOCKET=str(tmp_path / "notify"), WATCHDOG_USEC="5000000",
    )  # fmt: skip

    wait_for(lambda: get(port, "/readyz") == (200, "ok\n"))
    assert get(port, "/healthz") == (200, "ok\n")
    assert get(port, "/elsewhere")[0] == 404
    assert (manager.recv(100), manager.recv(100)) == (b"READY=1", b"WATCHDOG=1")

    assert scene.run_job(LEADS + APPROVES).code == 0
    wait_for(lambda: figures(port)["parley_worker_slots_used"] == 0)
    found = figures(port)
    assert found["parley_worker_slots"] == 2
    assert found["parley_worker_ready"] == 1
    assert found['parley_worker_turns_total{outcome="ended"}'] >= 6
    assert found['parley_worker_turns_total{outcome="failed"}'] == 0
    assert found["parley_worker_last_sign_timestamp_seconds"] > 0
    assert found["process_resident_memory_bytes"] > 0

    scene.temporal.kill()
    wait_for(lambda: get(port, "/readyz") == (503, "not ready: Temporal can't be reached\n"))
    assert get(port, "/healthz")[0] == 200
    scene.temporal.start()
    wait_for(lambda: get(port, "/readyz")[0] == 200)

    scene.server.kill()
    wait_for(lambda: get(port, "/readyz") == (503, "not ready: the board can't be reached\n"))
    scene.server.start()
    wait_for(lambda: get(port, "/readyz")[0] == 200)

    worker.signal(signal.SIGTERM)
    while manager.recv(100) != b"STOPPING=1":
        pass
    assert worker.process.wait() == 0, worker.said()
    manager.close()


@pytest.mark.parametrize("address", ["7328", "127.0.0.1", "example.org:80", "127.0.0.1:99999", "127.0.0.1:x"])
def test_an_address_that_is_none_is_refused_in_one_line(tmp_path: Path, address: str) -> None:
    said = Home(tmp_path).refuses("worker", "--health", address)

    assert said.endswith(f"such as 127.0.0.1:7328, not '{address}'")
