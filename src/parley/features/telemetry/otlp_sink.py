"""Sends spans and metrics by OTLP over HTTP, with OpenTelemetry's own SDK. Imported only where telemetry is on.

The exporters read the OTEL_… variables. Retries are the caller's, and no redirection is followed: telemetry goes to
the address that the user named and to no other. Of an answer only the status is read.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import requests
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.metrics import Counter, Histogram
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, MetricExportResult
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from parley import __version__
from parley.features.telemetry import vocabulary
from parley.features.telemetry.collector import shown
from parley.features.telemetry.destination import Destination
from parley.features.telemetry.export_thread import METRIC_SECONDS, NotSent
from parley.features.telemetry.span_values import Measurement, SpanValue
from parley.features.telemetry.vocabulary import COUNTER, GAUGE, HISTOGRAM, METRICS, FewNames

NANOS = 1_000_000_000
_AGAIN = frozenset((408, 429, 500, 502, 503, 504))
_LOGGERS = ("opentelemetry", "urllib3", "requests")  # what they say is told once, in the log of faults


class OtlpSink:
    """Sends to one collector, or to one for each signal."""

    def __init__(self, to: Destination) -> None:
        for name in _LOGGERS:
            logger = logging.getLogger(name)
            logger.addHandler(logging.NullHandler())
            logger.propagate = False
        self.metric_seconds = _interval()
        self._resource = _resource()
        self._scope = InstrumentationScope(vocabulary.SCOPE, __version__, vocabulary.SCHEMA)
        self._spans: OTLPSpanExporter | None = None
        self._metrics: _Metrics | None = None
        if to.traces is not None:
            self._spans = OTLPSpanExporter(endpoint=to.traces, session=_Session(shown(to.traces)))
        if to.metrics is not None:
            exporter = OTLPMetricExporter(endpoint=to.metrics, session=_Session(shown(to.metrics)))
            self._metrics = _Metrics(exporter, self._resource)

    def send_spans(self, spans: Sequence[SpanValue]) -> None:
        """Send spans, and wait until they are taken. Raises NotSent."""
        if self._spans is None:
            return
        if self._spans.export([self._span(one) for one in spans]) is not SpanExportResult.SUCCESS:
            raise NotSent("the spans were not taken", again=True)

    def measure(self, one: Measurement) -> None:
        """Count or measure something."""
        if self._metrics is not None:
            self._metrics.measure(one)

    def send_metrics(self, jobs: Mapping[str, int], working: int) -> None:
        """Send all metrics as they stand. Raises NotSent."""
        if self._metrics is not None:
            self._metrics.send(jobs, working)

    def _span(self, one: SpanValue) -> ReadableSpan:
        return ReadableSpan(
            name=one.name,
            context=_context(one.trace, one.id),
            parent=_context(one.trace, one.parent) if one.parent else None,
            resource=self._resource,
            attributes=one.attributes,
            kind=SpanKind.INTERNAL,
            status=Status(StatusCode.ERROR if one.failed else StatusCode.UNSET),
            start_time=int(one.began * NANOS),
            end_time=int(one.ended * NANOS),
            instrumentation_scope=self._scope,
        )


class _Metrics:
    """The instruments, and how their values are sent."""

    def __init__(self, exporter: OTLPMetricExporter, resource: Resource) -> None:
        self._exporter = exporter
        self._reader = InMemoryMetricReader(
            exporter._preferred_temporality,  # noqa: SLF001 - as the SDK's own reader does: variables may set it
            exporter._preferred_aggregation,  # noqa: SLF001 - the same
        )
        provider = MeterProvider([self._reader], resource, shutdown_on_exit=False)
        meter = provider.get_meter(vocabulary.SCOPE, __version__, vocabulary.SCHEMA)
        self._few = FewNames()
        self._counters: dict[str, Counter] = {}
        self._histograms: dict[str, Histogram] = {}
        self._gauges = {}
        for name, metric in METRICS.items():
            if metric.kind == COUNTER:
                self._counters[name] = meter.create_counter(name, metric.unit, metric.description)
            elif metric.kind == HISTOGRAM:
                self._histograms[name] = meter.create_histogram(
                    name, metric.unit, metric.description, explicit_bucket_boundaries_advisory=metric.buckets
                )
            elif metric.kind == GAUGE:
                self._gauges[name] = meter.create_gauge(name, metric.unit, metric.description)

    def measure(self, one: Measurement) -> None:
        """Count or measure something; its attributes have few values."""
        said = {
            key: self._few.of(key, value) if isinstance(value, str) else value for key, value in one.attributes.items()
        }
        if one.metric in self._counters:
            self._counters[one.metric].add(one.amount, said)
        else:
            self._histograms[one.metric].record(one.amount, said)

    def send(self, jobs: Mapping[str, int], working: int) -> None:
        """Send all metrics as they stand. Raises NotSent."""
        for state, count in jobs.items():
            self._gauges[vocabulary.OPEN_JOBS].set(count, {"parley.state": state})
        self._gauges[vocabulary.WORKING].set(working)
        found = self._reader.get_metrics_data()
        if found is not None and self._exporter.export(found) is not MetricExportResult.SUCCESS:
            raise NotSent("the metrics were not taken", again=True)


class _Session(requests.Session):
    """One try of one request, to one address. Nothing of the answer is read but its status."""

    def __init__(self, shown_as: str) -> None:
        super().__init__()
        self._shown_as = shown_as
        self.auth = _as_it_is  # else a password for that host would be looked up in ~/.netrc, and go before the headers

    def request(self, method: str | bytes, url: str | bytes, *given: Any, **more: Any) -> requests.Response:
        """Send it. Raises NotSent."""
        more |= {"allow_redirects": False, "stream": True}
        try:
            with super().request(method, url, *given, **more) as answer:
                status = answer.status_code
        except requests.RequestException as error:
            why = f"{self._shown_as} can't be reached ({type(error).__name__})"
            raise NotSent(f"{why}; what is on the bus is sent when it answers", again=True) from error
        if not 200 <= status < 300:  # noqa: PLR2004 - what HTTP calls success
            raise NotSent(f"{self._shown_as} answers with the status {status}", again=status in _AGAIN)
        taken = requests.Response()
        taken.status_code = status
        return taken


def _as_it_is(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request


def _context(trace: int, span: int) -> SpanContext:
    return SpanContext(trace, span, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def _resource() -> Resource:
    """What sends: by the variables, and by no other detector; one that looks at the process would tell its words."""
    own = Resource(
        {"service.name": "parley", "service.version": __version__, "service.instance.id": str(uuid.uuid4())},
        vocabulary.SCHEMA,
    )
    return own.merge(OTELResourceDetector().detect())


def _interval() -> float:
    """Seconds between two sendings of metrics, as the variable has it in thousandths."""
    said = os.environ.get("OTEL_METRIC_EXPORT_INTERVAL", "")
    return max(1.0, int(said) / 1000) if said.isdecimal() else METRIC_SECONDS
