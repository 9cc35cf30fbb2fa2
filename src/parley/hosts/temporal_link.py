"""The way to Temporal: whom it is spoken with, by TLS where it is on another machine, and what may be said to it."""

from __future__ import annotations

import dataclasses
import ipaddress
import logging
from functools import cache
from pathlib import Path
from typing import NamedTuple

from temporalio.api.failure.v1 import Failure
from temporalio.client import Client
from temporalio.converter import DataConverter, DefaultFailureConverter, PayloadConverter
from temporalio.runtime import Runtime, TelemetryConfig
from temporalio.service import TLSConfig

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


CONVERTER = dataclasses.replace(DataConverter.default, failure_converter_class=CodesOnly)


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
        return await Client.connect(
            at.address,
            namespace=at.namespace,
            identity=IDENTITY,
            data_converter=CONVERTER,
            tls=_tls(at),
            api_key=at.api_key or None,
            runtime=_quiet(),
        )
    except OSError as error:
        raise NoTemporal(f"{error.filename}: {error.strerror}; see [hosts] of your own settings") from error
    except (RuntimeError, ValueError) as error:
        raise NoTemporal(
            f"Temporal can't be reached at {at.address}; see that it runs, and [hosts] temporal"
        ) from error


@cache
def _quiet() -> Runtime:
    """Temporal's own threads, which write no log: what concerns the user is told by Parley."""
    logging.getLogger("temporalio").setLevel(logging.CRITICAL)
    return Runtime(telemetry=TelemetryConfig(logging=None))


def _tls(at: TemporalAddress) -> TLSConfig | bool:
    """TLS, which only a server on this machine may go without."""
    if not at.ca and not at.certificate:
        return not is_local(at.address)
    own = (Path(at.certificate).read_bytes(), Path(at.key).read_bytes()) if at.certificate else (None, None)
    return TLSConfig(
        server_root_ca_cert=Path(at.ca).read_bytes() if at.ca else None, client_cert=own[0], client_private_key=own[1]
    )
