"""Where telemetry goes is the user's to say, and nothing of it is loaded where they do not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from parley.base.documents.node import DocumentError
from parley.base.redaction import Secrets
from parley.cli.common import place_of
from parley.cli.machine import doctor
from parley.cli.running import bootstrap
from parley.features.secrets.secret_sources import secrets_of
from parley.features.telemetry.collector import shown, where_to
from parley.features.telemetry.destination import Destination, NotSendable, destination
from parley.machine.faults import FaultLog
from parley.machine.job_files import JobFiles
from parley.settings import load
from parley.settings.schema import Settings, TelemetrySettings
from tests.cli.home import Home

ENDPOINT, TRACES = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
AT = "http://127.0.0.1:4318"
BOTH = Destination(f"{AT}/v1/traces", f"{AT}/v1/metrics")


@pytest.mark.parametrize(
    "settings, environment, found",
    [
        (TelemetrySettings(), {}, None),
        (TelemetrySettings(), {ENDPOINT: ""}, None),
        (TelemetrySettings(), {"OTEL_SERVICE_NAME": "x", "OTEL_TRACES_EXPORTER": "otlp"}, None),
        (TelemetrySettings(endpoint=AT), {}, BOTH),
        (TelemetrySettings(endpoint=f"{AT}/"), {}, BOTH),
        (TelemetrySettings(), {ENDPOINT: AT}, BOTH),
        (TelemetrySettings(endpoint="http://other"), {ENDPOINT: AT}, BOTH),
        (TelemetrySettings(), {TRACES: "http://a/x"}, Destination("http://a/x", None)),
        (TelemetrySettings(endpoint=AT), {TRACES: "http://a/x"}, Destination("http://a/x", f"{AT}/v1/metrics")),
        (TelemetrySettings(), {ENDPOINT: AT, "OTEL_METRICS_EXPORTER": "none"}, Destination(f"{AT}/v1/traces", None)),
        (TelemetrySettings(), {ENDPOINT: AT, "OTEL_SDK_DISABLED": "TRUE"}, None),
        (TelemetrySettings(enabled=False, endpoint=AT), {ENDPOINT: AT}, None),
        (TelemetrySettings(), {ENDPOINT: AT, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, BOTH),
    ],
)
def test_where_it_goes(settings: TelemetrySettings, environment: dict[str, str], found: Destination | None) -> None:
    assert destination(settings, environment) == found


def test_another_protocol_is_refused_with_its_variable() -> None:
    with pytest.raises(NotSendable, match="OTEL_EXPORTER_OTLP_PROTOCOL asks for another protocol"):
        destination(TelemetrySettings(), {ENDPOINT: AT, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"})


@pytest.mark.parametrize(
    "address, words",
    [
        ("https://user:word@collector.test:4318/v1/traces?key=word", "https://collector.test:4318"),
        ("collector.test", "an address that is none"),
        ("http://[::1/", "an address that is none"),
    ],
)
def test_people_are_shown_no_key_of_an_address(address: str, words: str) -> None:
    assert shown(address) == words


def test_what_is_told_of_it_names_both_signals() -> None:
    assert where_to(BOTH) == f"traces to {AT}, metrics to {AT}"


# ---- settings --------------------------------------------------------------------------------------


def test_no_repository_says_who_is_told(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write("parley.toml", f'[telemetry]\nendpoint = "{AT}"\n')

    said = home.refuses("run", "x")
    assert "parley.toml:1:2: telemetry: no repository says who is told of your jobs" in said


@pytest.mark.parametrize(
    "written", ['"ftp://x"', '"localhost:4318"', '"http://user:word@host"', '"http://host/?key=word"', "4318", '""']
)
def test_an_address_that_is_none_is_refused(tmp_path: Path, written: str) -> None:
    own = tmp_path / "own.toml"
    own.write_text(f"[telemetry]\nendpoint = {written}\n", encoding="utf-8")

    with pytest.raises(DocumentError, match=r"\[telemetry\] endpoint: it must be the address of a collector"):
        load.read(tmp_path, own)


def test_the_users_own_settings_are_read(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text('[telemetry]\nenabled = false\nendpoint = "https://[::1]:4318/otlp"\n', encoding="utf-8")

    assert load.read(tmp_path, own).telemetry == TelemetrySettings(enabled=False, endpoint="https://[::1]:4318/otlp")


def test_the_doctor_tells_where_it_goes_and_what_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = place_of(str(tmp_path))
    assert doctor._telemetry(place) == []
    monkeypatch.setenv(ENDPOINT, AT)
    assert doctor.line_of(doctor._telemetry(place)[0]) == f"ok    telemetry    traces to {AT}, metrics to {AT}"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    said = "asks for another protocol; Parley sends http/protobuf: set it to that; until then none is sent"
    assert said in doctor._telemetry(place)[0].words


def test_a_collectors_key_is_a_secret(tmp_path: Path) -> None:
    key = "0123456789abcdef-key"
    secrets = secrets_of(tmp_path, {"OTEL_EXPORTER_OTLP_TRACES_HEADERS": f"a=b, x-key={key}"})

    assert key not in secrets.redact(f"it said {key}")


# ---- where it is off -------------------------------------------------------------------------------

LOADED = """
import os, sys
from parley.cli.running import bootstrap
from parley.features.telemetry.destination import destination
from parley.settings.schema import Settings, TelemetrySettings
assert destination(TelemetrySettings(), os.environ) is None
print(*sorted(name for name in sys.modules if name.startswith(("opentelemetry", "requests", "parley.features.tele"))))
"""


def test_where_it_is_off_nothing_of_it_is_loaded() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)

    assert done.stdout.split() == [
        "parley.features.telemetry",
        "parley.features.telemetry.destination",
        "parley.features.telemetry.telemetry_guest",
    ]


def test_where_it_is_not_installed_one_line_says_so_and_jobs_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(ENDPOINT, AT)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    place, files = place_of(str(tmp_path)), JobFiles(tmp_path)

    assert bootstrap._telemetry(place, Settings(), files, FaultLog(tmp_path), Secrets()) is None
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("parley: telemetry is asked for, but OpenTelemetry is not installed; install it: ")
    assert "otel" in said.partition("install it: ")[2]
    assert said.endswith("; until then none is sent")
