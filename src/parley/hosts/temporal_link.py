"""The way to Temporal: whom it is spoken with, by TLS where it is on another machine, and what may be said to it."""

from __future__ import annotations

import asyncio
import dataclasses
import ipaddress
import logging
import re
from collections.abc import Sequence
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.client import Client
from temporalio.converter import DataConverter, DefaultFailureConverter, DefaultPayloadConverter, PayloadConverter
from temporalio.runtime import Runtime, TelemetryConfig
from temporalio.service import KeepAliveConfig, TLSConfig

from parley.hosts.turn_workflow import TurnIds

CONNECT_SECONDS = 5.0
# A network that is silently gone is noticed within twenty seconds. Temporal refuses pings more often than every ten.
_KEPT_ALIVE = KeepAliveConfig(interval_millis=15_000, timeout_millis=5_000)
_CODE = re.compile(r"[a-z ]{1,20}")
IDENTITY = "parley"  # not a process and a machine's name, which Temporal's own default tells


class NoTemporal(Exception):
    """Temporal can't be used: the text says why and what to do."""


class TemporalAddress(NamedTuple):
    """Where Temporal is. All of it is the user's own setting."""

    address: str  # host:port
    namespace: str = "default"
    ca: str = ""  # a file with the certificates that Temporal's is checked by; empty: the system's
    certificate: str = ""  # a file with this machine's own, where Temporal asks for one
    key: str = ""  # the file of its key
    api_key: str = ""


class CodesOnly(DefaultFailureConverter):
    """Failures without words: an exception's text and trace may hold paths, prompts or keys."""

    def to_failure(self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure) -> None:
        """Convert an exception, then leave out all that was written for people."""
        super().to_failure(exception, payload_converter, failure)
        _bare(failure)


def _bare(failure: Failure) -> None:
    failure.message, failure.stack_trace = "", ""
    failure.ClearField("encoded_attributes")
    if failure.HasField("application_failure_info"):
        failure.application_failure_info.ClearField("details")
    if failure.HasField("cause"):
        _bare(failure.cause)


class IdsAndCodes(DefaultPayloadConverter):
    """Values without words: a query for a workflow's stack would be answered with paths of the host that has it."""

    def to_payloads(self, values: Sequence[Any]) -> list[Payload]:
        """Convert values; nothing in the place of any other."""
        return super().to_payloads([value if _passes(value) else None for value in values])


def _passes(value: Any) -> bool:
    if isinstance(value, str):
        return _CODE.fullmatch(value) is not None
    return value is None or isinstance(value, int | TurnIds)


CONVERTER = dataclasses.replace(
    DataConverter.default, payload_converter_class=IdsAndCodes, failure_converter_class=CodesOnly
)


def is_local(address: str) -> bool:
    """Whether an address is of this machine, by its digits: a name may lead anywhere."""
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def connect(at: TemporalAddress) -> Client:
    """A client of Temporal. NoTemporal where it can't be reached."""
    try:
        connecting = Client.connect(
            at.address,
            namespace=at.namespace,
            identity=IDENTITY,
            data_converter=CONVERTER,
            tls=_tls(at),
            api_key=at.api_key or None,
            keep_alive_config=_KEPT_ALIVE,
            connect_timeout=timedelta(seconds=CONNECT_SECONDS),
            runtime=_quiet(),
        )
        return await asyncio.wait_for(connecting, 2 * CONNECT_SECONDS)
    except TimeoutError as error:
        raise _unreachable(at, "") from error
    except OSError as error:
        raise NoTemporal(f"{error.filename}: {error.strerror}; see [hosts] of your own settings") from error
    except (RuntimeError, ValueError) as error:
        raise _unreachable(at, str(error)) from error


# By what Temporal's client says of a failure, what is wrong and what to do. The first that fits counts.
_WHY = (
    ("NotValidForName", "its certificate is another server's; see [hosts] temporal"),
    ("InvalidCertificate", "its certificate is not from an authority that is known here; name its file in temporal_ca"),
    ("InvalidContentType", "what answers there has no TLS, which a server on another machine needs"),
    ("CertificateRequired", "it asks for a certificate; name yours in temporal_certificate and temporal_key"),
    ("Unauthenticated", "it does not know this user; see temporal_certificate, or PARLEY_TEMPORAL_API_KEY"),
    ("PermissionDenied", "this user may not use it; see temporal_certificate, or PARLEY_TEMPORAL_API_KEY"),
    (
        "transport error",
        "it ends the connection: see that it runs, and if it asks for a certificate (temporal_certificate)",
    ),
    ("", "see that it runs, and [hosts] temporal"),
)


def _unreachable(at: TemporalAddress, said: str) -> NoTemporal:
    why = next(remedy for sign, remedy in _WHY if sign in said)
    return NoTemporal(f"Temporal can't be reached at {at.address}: {why}")


@cache
def _quiet() -> Runtime:
    """Temporal's own threads, which write no log: what concerns the user is told by Parley.

    They do not describe this machine to Temporal either, as they would every minute: its name, processes and load.
    """
    logging.getLogger("temporalio").setLevel(logging.CRITICAL)
    return Runtime(telemetry=TelemetryConfig(logging=None), worker_heartbeat_interval=None)


def _tls(at: TemporalAddress) -> TLSConfig | bool:
    """TLS, which only a server on this machine may go without."""
    if not (at.ca or at.certificate or at.key):
        return not is_local(at.address)
    if bool(at.certificate) != bool(at.key):
        raise NoTemporal("[hosts] temporal_certificate and temporal_key belong together: name both files, or neither")
    own = (Path(at.certificate).read_bytes(), Path(at.key).read_bytes()) if at.certificate else (None, None)
    return TLSConfig(
        server_root_ca_cert=Path(at.ca).read_bytes() if at.ca else None, client_cert=own[0], client_private_key=own[1]
    )
