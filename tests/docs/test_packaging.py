"""The files that start Parley as a service say what the program takes, and leave bubblewrap what it needs."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from parley.cli.commands import parser
from parley.cli.machine.worker_command import STUCK_SECONDS
from parley.hosts.worker import LAST_SECONDS
from tests.docs.test_docs import ROOT

PARLEY = Path(sys.executable).with_name("parley")
UNITS = sorted((ROOT / "packaging" / "systemd").glob("*.service"))
AGAINST_BUBBLEWRAP = {
    "RestrictNamespaces", "PrivateUsers", "SystemCallFilter", "ProtectKernelTunables", "ProtectKernelLogs",
    "ProtectProc", "ProcSubset", "MemoryDenyWriteExecute",
}  # fmt: skip


def settings(unit: Path) -> dict[str, str]:
    """The settings of a unit; a line without `=` is none."""
    lines = [line for line in unit.read_text(encoding="utf-8").splitlines() if not line.startswith(("#", "[")) and line]
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_starts_parley_with_options_that_it_has_and_holds_no_secret(unit: Path) -> None:
    found = settings(unit)

    program, *words = shlex.split(found["ExecStart"].replace("%i", "oak"))
    assert Path(program).name == "parley"
    parser().parse_args(words)
    assert not AGAINST_BUBBLEWRAP & found.keys()
    assert (found["KillMode"], found["Restart"], found["NoNewPrivileges"]) == ("mixed", "on-failure", "yes")
    assert not re.search(r"(?i)(key|token|password|secret)\w*=", unit.read_text(encoding="utf-8"))


def test_a_worker_has_time_to_drain_before_it_is_killed() -> None:
    found = settings(ROOT / "packaging" / "systemd" / "parley-worker@.service")
    drain = re.search(r"--drain (\d+)", found["ExecStart"])

    assert drain is not None
    assert int(found["TimeoutStopSec"]) > int(drain[1]) + LAST_SECONDS + STUCK_SECONDS


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None and os.environ.get("CI") != "true", reason="systemd-analyze is not here"
)
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    for unit in UNITS:
        text = unit.read_text(encoding="utf-8").replace("/opt/parley/bin/parley", str(PARLEY))
        (tmp_path / unit.name).write_text(text, encoding="utf-8")

    done = subprocess.run(
        ["systemd-analyze", "verify", *map(str, sorted(tmp_path.glob("*.service")))],
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    ours = [line for line in done.stderr.splitlines() if "parley" in line]
    assert ours == []


def test_the_compose_file_says_that_it_is_untested_and_puts_nothing_on_the_network() -> None:
    path = ROOT / "packaging" / "compose" / "compose.yaml"
    text = path.read_text(encoding="utf-8")
    services = yaml.safe_load(text)["services"]

    assert text.startswith("# UNTESTED")
    assert services.keys() == {"postgresql", "temporal"}
    assert all(port.startswith("127.0.0.1:") for one in services.values() for port in one["ports"])
