"""Roles and skills: where they come from, and what an instance gets of them."""

from parley.roles.instance_files import (
    CONTRACT,
    PROTOCOLS,
    from_text,
    make_claude_folder,
    protocols,
    skill_folder,
    skill_text,
    system_prompt,
)
from parley.roles.role_file import FOLDER, PACKAGE, RoleFile, not_given, parse, to_json
from parley.roles.role_sources import defined, gather, lacking_tools, read, shipped, skipped

__all__ = [
    "CONTRACT",
    "FOLDER",
    "PACKAGE",
    "PROTOCOLS",
    "RoleFile",
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
    "system_prompt",
    "to_json",
]
