"""`parley roles`: lists the roles of a new job, or shows one with its prompt."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from parley.assembly import roles as listed
from parley.base.text import safe_lines
from parley.cli import OK
from parley.cli.common import columns, one_line, place_of, print_json
from parley.cli.open_bus import pick
from parley.engine.values.job_roles import role_of
from parley.protocol.molecules import EVERYDAY, OWN
from parley.roles import RoleFile, gather, not_given, skipped, system_prompt
from parley.roles.role_file import snapshot_of
from parley.roles.role_snapshot import RoleSnapshot
from parley.settings import load

LONGEST_LINE = 500  # characters of a warning


def run(words: argparse.Namespace) -> int:
    """List the roles, or show one."""
    root = place_of(words.repo).root
    found = gather(root, load.read(root))
    left_out = skipped(root)
    for line in left_out:
        print(f"parley: {one_line(line, LONGEST_LINE)}", file=sys.stderr)
    crew = {role.name: role for role in listed({name: snapshot_of(role) for name, role in found.items()}, {})}
    if words.name is None:
        entries = [_entry(crew[name], role, root) for name, role in found.items()]
        if words.json:
            print_json({"roles": entries, "skipped": left_out})
        else:
            for entry in entries:
                _print(entry)
        return OK
    name = pick(words.name, found, "role", "`parley roles` lists them")
    entry = {**_entry(crew[name], found[name], root), "prompt": system_prompt(crew[name])}
    if words.json:
        print_json(entry)
    else:
        _print(entry)
        print()
        print(safe_lines(entry["prompt"]))
    return OK


def _entry(kept: RoleSnapshot, role: RoleFile, root: Path) -> dict[str, Any]:
    return {
        "name": kept.name,
        "description": kept.description or None,
        "runner": kept.runner or None,
        "model": kept.model or None,
        "team": list(kept.team),
        "tools": list(kept.tools),
        "limits": to_builtins(kept.limits),
        "messages": list(OWN.get(kept.name) or role_of(kept).takes),
        "not_given": list(not_given(kept.tools)),
        "from": role.origin.removeprefix(f"{root}/"),
    }


def _print(entry: dict[str, Any]) -> None:
    print(f"{entry['name']}  ({entry['from']})")
    limits = {name: f"{value:g}" for name, value in entry["limits"].items()}
    rows = {
        "": entry["description"],
        "runner": entry["runner"],
        "model": entry["model"],
        "team": ", ".join(entry["team"]),
        "tools": ", ".join(f"{tool} (not given)" if tool in entry["not_given"] else tool for tool in entry["tools"]),
        "takes": "" if entry["messages"] == list(EVERYDAY) else ", ".join(entry["messages"]),
        "limits": json.dumps(limits).strip("{}").replace('"', "") if limits else "",
    }
    for name, value in rows.items():
        if value:
            print(f"  {name:<{8 if name else 0}}{one_line(value, max(columns(), 60) * 2)}")
