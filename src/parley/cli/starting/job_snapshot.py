"""The settings of a job that begins, as its row keeps them: all of them, with the keys that each reader's part has."""

from __future__ import annotations

from typing import Any

from msgspec import field

from parley.features.former_job import FormerJob
from parley.features.proxy.remembering import MemorySettings
from parley.roles.role_snapshot import RoleSnapshot
from parley.settings.schema import BudgetSettings, JobLimits, SendingSettings, WorkflowSettings
from parley.workflow.design.activation import Activation


class JobSnapshot(JobLimits, frozen=True, kw_only=True):
    """What holds for a job from its beginning to its end. `engine/values/job_settings.py` and features read it."""

    roles: tuple[RoleSnapshot, ...]
    policies: tuple[str, str, str]
    brief_human: bool
    sending: SendingSettings
    time_limit_seconds: float
    stall_seconds: float
    budget: BudgetSettings
    model: str = ""  # from the command line, for all roles without one of their own
    usual_model: str = ""  # from the settings, shown until a turn reports one
    human: list[dict[str, Any]] | None = None  # the playbook's rules, for the human, the proxy and each agent
    proxy: list[dict[str, Any]] | None = None
    agents: dict[str, list[dict[str, Any]]]
    yes: bool = False
    notes: str = ""
    memory: MemorySettings
    workflow: WorkflowSettings
    activation: Activation | None = None
    continues: FormerJob | None = None
    people: dict[str, str] = field(default_factory=dict)  # who answers or decides besides who starts it
    widenings: tuple[dict[str, str], ...] = ()  # what is wider than the default, and where that is said
