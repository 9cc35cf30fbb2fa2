"""Roles and skills: what an agent is told to be, where that comes from, and the folder that it finds it in."""

from parley.adapters.roles.dress import (
    CONTRACT,
    PROTOCOLS,
    dress,
    from_text,
    protocols,
    skill_folder,
    skill_text,
    system_prompt,
)
from parley.adapters.roles.files import FOLDER, RoleError, RoleFile, not_given, parse, to_json
from parley.adapters.roles.sources import defined, gather, lacking_tools, read, shipped, skipped

__all__ = [
    "CONTRACT",
    "FOLDER",
    "PROTOCOLS",
    "RoleError",
    "RoleFile",
    "defined",
    "dress",
    "from_text",
    "gather",
    "lacking_tools",
    "not_given",
    "parse",
    "protocols",
    "read",
    "shipped",
    "skill_folder",
    "skill_text",
    "skipped",
    "system_prompt",
    "to_json",
]
