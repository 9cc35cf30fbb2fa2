"""Roles and skills: where they come from, and what an instance gets of them."""

from parley.roles.instance_files import (
    CONTRACT,
    PROTOCOLS,
    make_claude_folder,
    protocols,
    skill_folder,
    skill_text,
    system_prompt,
)
from parley.roles.role_file import FOLDER, PACKAGE, RoleFile, not_given, parse, snapshot_of
from parley.roles.role_snapshot import OrderedRole, RoleSnapshot, from_text
from parley.roles.role_sources import defined, gather, lacking_tools, read, shipped, skipped

__all__ = [
    "CONTRACT",
    "FOLDER",
    "PACKAGE",
    "PROTOCOLS",
    "OrderedRole",
    "RoleFile",
    "RoleSnapshot",
    "defined",
    "from_text",
    "gather",
    "lacking_tools",
    "make_claude_folder",
    "not_given",
    "parse",
    "protocols",
    "read",
    "shipped",
    "skill_folder",
    "skill_text",
    "skipped",
    "snapshot_of",
    "system_prompt",
]
