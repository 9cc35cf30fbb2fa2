"""The engine put together with its features. The engine names none of them; here, and only here, all are named."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from parley.engine.hooks import Feature
from parley.engine.loop import Engine
from parley.engine.values import job_roles
from parley.engine.world import World
from parley.features.auto_answer import AutoAnswer
from parley.features.budgets.spending import Budgets
from parley.features.former_job import FormerJobFeature
from parley.features.lead_engineer import LeadEngineer
from parley.features.liveness.provider_waits import ProviderWaits
from parley.features.liveness.silence import Silence
from parley.features.notices.notifications import Notifications
from parley.features.proxy.proxy_guest import ProxyFeature
from parley.features.telemetry.telemetry_guest import TelemetryFeature
from parley.protocol.rule import RuleSet
from parley.protocol.rules import RULES
from parley.roles.role_snapshot import RoleSnapshot
from parley.views.questions.need_notices import need_notices
from parley.workflow.host.role_traits import TRAITS
from parley.workflow.host.workflow_guest import WorkflowFeature


def features(world: World) -> tuple[Feature, ...]:
    """All features, in the order in which their hooks are called."""
    return (
        AutoAnswer(world),
        Notifications(world, partial(need_notices, world.store, world.files)),
        Silence(world),
        ProviderWaits(world),
        Budgets(world),
        ProxyFeature(world),
        LeadEngineer(),
        FormerJobFeature(),
        WorkflowFeature(world),
        TelemetryFeature(world),
    )


def make_engine(world: World, rules: RuleSet = RULES) -> Engine:
    """An engine with all features."""
    return Engine(world, rules, features(world))


def roles(defined: Mapping[str, RoleSnapshot], sends: Mapping[str, frozenset[str]]) -> tuple[RoleSnapshot, ...]:
    """The roles of a job, as its snapshot keeps them: with what features know of those that they bring along."""
    return job_roles.roles(defined, sends, TRAITS)
