"""A collector of our own on loopback: it takes OTLP over HTTP, keeps every byte, and decodes what it was sent."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span


@dataclass
class Received:
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Seen:
    """One span, in plain values."""

    trace: str
    id: str
    parent: str
    name: str
    began: int
    ended: int
    failed: bool
    attributes: tuple[tuple[str, Any], ...]

    @property
    def said(self) -> dict[str, Any]:
        """Its attributes."""
        return dict(self.attributes)


@dataclass
class Receiver:
    """What was sent, and how the next requests are answered."""

    address: str
    status: int = 200
    answer: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)  # of the answer
    hold: threading.Event | None = None  # no request is answered before it is set
    received: list[Received] = field(default_factory=list)

    def spans(self) -> list[Seen]:
        """Every span, as often as it was sent."""
        found = []
        for request in list(self.received):
            if request.path == "/v1/traces":
                for resource in ExportTraceServiceRequest.FromString(request.body).resource_spans:
                    for scope in resource.scope_spans:
                        found += [_seen(span) for span in scope.spans]
        return found

    def resource(self) -> dict[str, Any]:
        """What the sender says of itself."""
        first = next(one for one in self.received if one.path == "/v1/traces")
        return values(list(ExportTraceServiceRequest.FromString(first.body).resource_spans[0].resource.attributes))

    def metrics(self) -> dict[str, list[Any]]:
        """The points of every metric, as they were sent last."""
        found: dict[str, list[Any]] = {}
        for request in self.received:
            if request.path == "/v1/metrics":
                for resource in ExportMetricsServiceRequest.FromString(request.body).resource_metrics:
                    for scope in resource.scope_metrics:
                        for metric in scope.metrics:
                            kind = metric.WhichOneof("data")
                            found[metric.name] = list(getattr(metric, str(kind)).data_points)
        return found


def values(attributes: list[KeyValue]) -> dict[str, Any]:
    """Attributes as plain values."""
    return {one.key: getattr(one.value, str(one.value.WhichOneof("value"))) for one in attributes}


def _seen(span: Span) -> Seen:
    return Seen(
        trace=span.trace_id.hex(),
        id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        name=span.name,
        began=span.start_time_unix_nano,
        ended=span.end_time_unix_nano,
        failed=span.status.code == 2,
        attributes=tuple(sorted(values(list(span.attributes)).items())),
    )


@contextmanager
def receiving() -> Iterator[Receiver]:
    """A collector that runs; at the end its port is free again."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            """Take what is sent, and answer as the test wants it."""
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            if made.hold is not None:
                made.hold.wait(60)
            made.received.append(Received(self.path, {key.lower(): value for key, value in self.headers.items()}, body))
            self.send_response(made.status)
            for name, value in made.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(made.answer)))
            self.end_headers()
            self.wfile.write(made.answer)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that the library gives it
            """Say nothing."""

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            """A sender that is gone before its answer is no fault of the collector's."""

    server = Quiet(("127.0.0.1", 0), Handler)
    made = Receiver(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield made
    finally:
        if made.hold is not None:
            made.hold.set()
        server.shutdown()
        server.server_close()
        thread.join()
