"""The names of all spans, attributes and metrics that are sent, and which names of others are sent along.

By OpenTelemetry's conventions for generative AI (`gen_ai.*`); what these have no name for is `parley.*`. The tables of
docs/telemetry.md say the same; a test compares them. A name that an agent could have chosen is sent only if it looks
like a name: what does not may be a sentence of a job's, and becomes OTHER.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

SCHEMA = "https://opentelemetry.io/schemas/1.41.0"  # the version of the conventions that the names are from
SCOPE = "parley"
OTHER = "other"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+\[\]-]{0,99}")

# ---- spans -----------------------------------------------------------------------------------------

JOB, STATE, TURN, TOOL_USE, WAIT = "invoke_workflow", "state", "invoke_agent", "execute_tool", "wait"
_EVERY = ("parley.job.id",)
SPANS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        JOB: (
            *_EVERY,
            "gen_ai.operation.name",
            "gen_ai.workflow.name",
            "parley.outcome",
            "parley.visits",
            "parley.turns",
            "parley.backtracks",
            "parley.cost_usd",
            "error.type",
        ),
        STATE: (*_EVERY, "parley.state", "parley.visit", "parley.outcome", "parley.subteam", "parley.epoch"),
        TURN: (
            *_EVERY,
            "gen_ai.operation.name",
            "gen_ai.provider.name",
            "gen_ai.agent.name",
            "gen_ai.agent.id",
            "gen_ai.conversation.id",
            "gen_ai.request.model",
            "gen_ai.response.model",
            "gen_ai.usage.input_tokens",
            "gen_ai.usage.output_tokens",
            "gen_ai.usage.cache_read.input_tokens",
            "gen_ai.usage.cache_creation.input_tokens",
            "parley.turn.id",
            "parley.thread",
            "parley.parent_thread",
            "parley.state",
            "parley.visit",
            "parley.host",
            "parley.epoch",
            "parley.outcome",
            "parley.cost_usd",
            "parley.refused_calls",
            "error.type",
        ),
        TOOL_USE: (
            *_EVERY,
            "gen_ai.operation.name",
            "gen_ai.tool.name",
            "gen_ai.tool.type",
            "gen_ai.agent.name",
            "parley.turn.id",
            "parley.outcome",
            "error.type",
        ),
        WAIT: (*_EVERY, "parley.wait.cause", "parley.thread", "parley.turn.id", "parley.verdict"),
    }
)
"""The kinds of spans, by the first word of their names, with their attributes."""

PROVIDER, HUMAN, SLOT, STALL, PAUSE, BUDGET, STUCK = "provider", "human", "slot", "stall", "pause", "budget", "stuck"
WAITS = (PROVIDER, HUMAN, SLOT, STALL, PAUSE, BUDGET, STUCK)  # the causes of waits

# ---- metrics ---------------------------------------------------------------------------------------

COUNTER, HISTOGRAM, GAUGE = "counter", "histogram", "gauge"
_SECONDS = (0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0)
_TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)


class Metric(NamedTuple):
    """One metric."""

    kind: str
    unit: str
    description: str
    attributes: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


_AGENT = ("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.agent.name", "gen_ai.response.model")
TOKENS, DURATION = "gen_ai.client.token.usage", "gen_ai.client.operation.duration"
TURNS, COST, WAITED = "parley.turns", "parley.cost", "parley.wait.duration"
BACKTRACKS, CRASHES, QUESTIONS = "parley.backtracks", "parley.crashes", "parley.questions"
OPEN_JOBS, WORKING, DROPPED = "parley.jobs.open", "parley.agents.working", "parley.telemetry.dropped"
METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        TOKENS: Metric(HISTOGRAM, "{token}", "tokens of a turn", (*_AGENT, "gen_ai.token.type"), buckets=_TOKENS),
        DURATION: Metric(
            HISTOGRAM, "s", "how long a turn or a use of a tool took", (*_AGENT, "gen_ai.tool.name"), buckets=_SECONDS
        ),
        TURNS: Metric(COUNTER, "{turn}", "turns that are over", ("gen_ai.agent.name", "parley.outcome")),
        COST: Metric(COUNTER, "USD", "what turns cost, as their providers say", ("gen_ai.agent.name",)),
        WAITED: Metric(HISTOGRAM, "s", "how long something waited", ("parley.wait.cause",), buckets=_SECONDS),
        BACKTRACKS: Metric(COUNTER, "{backtrack}", "transitions to an earlier state", ("parley.state",)),
        CRASHES: Metric(COUNTER, "{crash}", "turns that were lost", ("parley.crash.cause",)),
        QUESTIONS: Metric(COUNTER, "{question}", "questions that were put to the human"),
        OPEN_JOBS: Metric(GAUGE, "{job}", "open jobs that this process owns", ("parley.state",)),
        WORKING: Metric(GAUGE, "{agent}", "agents at work in this process"),
        DROPPED: Metric(COUNTER, "{event}", "tool uses and slot waits that were not sent for want of room"),
    }
)

# ---- the names of others ---------------------------------------------------------------------------


class Names:
    """Which names of agents, tools and models are sent. `redact` hides secrets: what has held one is no name."""

    def __init__(self, redact: Callable[[str], str] = str) -> None:
        self._redact = redact

    def name(self, given: str) -> str:
        """A name of an agent, a tool or a runner."""
        return self._fitting(_NAME, given)

    def model(self, given: str) -> str:
        """A model's name; empty stays empty."""
        return self._fitting(_MODEL, given) if given else ""

    def _fitting(self, shape: re.Pattern[str], given: str) -> str:
        fits = shape.fullmatch(given) is not None and self._redact(given) == given
        return given if fits else OTHER


MOST_NAMES = 100  # values that an attribute of a metric may have


class FewNames:
    """Bounds how many series a metric has: the first values of an attribute count by themselves, all others as one."""

    def __init__(self, most: int = MOST_NAMES) -> None:
        self._most = most
        self._known: dict[str, set[str]] = {}

    def of(self, attribute: str, value: str) -> str:
        """The value, or OTHER where there are too many."""
        known = self._known.setdefault(attribute, set())
        if value not in known and len(known) >= self._most:
            return OTHER
        known.add(value)
        return value
