"""How Temporal is reached, what an exception that passes through it keeps, and what it hears of machines."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from temporalio import activity
from temporalio.api.failure.v1 import Failure
from temporalio.api.workflowservice.v1 import ListWorkersRequest
from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.exceptions import ApplicationError
from temporalio.runtime import Runtime, TelemetryConfig
from temporalio.service import TLSConfig
from temporalio.worker import Worker

from parley.hosts import temporal_link
from parley.hosts.temporal_link import CONVERTER, IDENTITY, NoTemporal, TemporalAddress
from parley.hosts.turn_workflow import TurnIds
from tests.hosts.many_hosts import TemporalServer

EVERY_WORKER = ListWorkersRequest(namespace="default")


@pytest.mark.parametrize("address", ["127.0.0.1:7233", "[::1]:7233", "localhost:7233"])
def test_a_server_on_this_machine_may_go_without_tls(address: str) -> None:
    assert temporal_link._tls(TemporalAddress(address)) is False


@pytest.mark.parametrize("address", ["10.0.0.7:7233", "temporal.example.org:7233", "localhost.example.org:7233"])
def test_any_other_server_is_reached_by_tls(address: str) -> None:
    assert temporal_link._tls(TemporalAddress(address)) is True


def test_a_file_of_certificates_that_is_missing_is_named_in_one_line() -> None:
    with pytest.raises(NoTemporal, match=r"/missing\.pem: No such file or directory; see \[hosts\]"):
        asyncio.run(temporal_link.connect(TemporalAddress("10.0.0.7:7233", ca="/missing.pem")))


def test_certificates_of_the_users_own_are_used(tmp_path: Path) -> None:
    for name in ("ca", "own", "key"):
        (tmp_path / name).write_text(name)
    ca, own, key = (str(tmp_path / name) for name in ("ca", "own", "key"))

    found = temporal_link._tls(TemporalAddress("127.0.0.1:7233", ca=ca, certificate=own, key=key))

    assert found == TLSConfig(server_root_ca_cert=b"ca", client_cert=b"own", client_private_key=b"key")


def _raise() -> None:
    try:
        Path("/nowhere/.secret").read_text()
    except OSError as error:
        raise ApplicationError("a prompt", "a detail", type="code") from error


def test_an_exception_passes_without_its_words_its_cause_or_its_trace() -> None:
    failure = Failure()
    with pytest.raises(ApplicationError) as caught:
        _raise()

    CONVERTER.failure_converter.to_failure(caught.value, CONVERTER.payload_converter, failure)

    held = failure.SerializeToString()
    for words in (b"prompt", b"detail", b"secret", b"test_temporal_link"):
        assert words not in held
    assert failure.application_failure_info.type == "code"
    plain = Failure()
    usual = DataConverter.default
    usual.failure_converter.to_failure(caught.value, usual.payload_converter, plain)
    assert b"secret" in plain.SerializeToString(), "else this test could not fail"


def test_only_ids_codes_and_numbers_pass_as_values() -> None:
    ids = TurnIds("bus", "job", "t1", 1, "", "bus/any", 10.0)
    passes = [ids, "handed back", 7, None]
    refused = ['File "/opt/parley/turn_workflow.py", line 7', {"a": "prompt"}, ["x"], "Ended", b"bytes", 1.5j]
    converter = CONVERTER.payload_converter

    assert converter.to_payloads([*passes, *refused]) == [
        *DataConverter.default.payload_converter.to_payloads(passes), *converter.to_payloads([None] * len(refused))
    ]  # fmt: skip


@activity.defn
async def nothing() -> None:
    """It is never run."""


async def workers_known(address: str, chatty: Callable[..., Runtime]) -> str:
    """What Temporal knows of a worker of ours, once it has heard of one that came later and describes its machine."""
    ours = await temporal_link.connect(TemporalAddress(address))
    theirs = await Client.connect(address, runtime=chatty(telemetry=TelemetryConfig(logging=None)), identity="theirs")
    async with (
        Worker(ours, task_queue="ours", activities=[nothing], identity=IDENTITY),
        Worker(theirs, task_queue="theirs", activities=[nothing], identity="theirs"),
    ):
        while "theirs" not in (known := str(await ours.workflow_service.list_workers(EVERY_WORKER))):  # noqa: ASYNC110 - it is another process
            await asyncio.sleep(0.05)
    assert "host_name" in known
    return known


def test_temporal_hears_nothing_of_the_machines_that_workers_are_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chatty = partial(Runtime, worker_heartbeat_interval=timedelta(seconds=1))  # every minute, where nothing is said
    monkeypatch.setattr(temporal_link, "Runtime", chatty)
    monkeypatch.setattr(temporal_link, "_quiet", temporal_link._quiet.__wrapped__)
    temporal = TemporalServer(tmp_path)
    temporal.start()
    try:
        assert IDENTITY not in asyncio.run(workers_known(temporal.address, chatty))
    finally:
        temporal.kill()
