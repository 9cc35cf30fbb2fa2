"""What an instance is given of its role: its system prompt, and a `.claude` folder that it can only read.

The folder is made from the role and its skills alone, the same bytes each time. It is a plugin folder of Claude
Code's as well, so that its skills can be loaded without trusting any settings in the workspace.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

PLUGIN = "parley"
PROTOCOLS = ".claude/protocols"  # in an instance's home
CONTRACT = "orchestration_agent_contract.md"
# Skills that a phase's lead has at hand besides its own, and takes up by itself where they apply.
AT_HAND: Mapping[str, tuple[str, ...]] = {"planning": ("persona-lead-engineer",), "execute": ("persona-lead-engineer",)}
_MEMBER = (
    f"# Your contract\nYou work in a workflow. Before anything else read ~/{PROTOCOLS}/{CONTRACT}: it says what you"
    " read and write, what you note, what you must not decide, and how your turns end. It holds for every agent here."
)


@cache
def shared_text() -> str:
    """How everybody works here."""
    return files("parley").joinpath("roles/_shared.md").read_text(encoding="utf-8").strip()


@cache
def skill_text(name: str) -> str:
    """A skill's file."""
    return files("parley").joinpath("skills", name, "SKILL.md").read_text(encoding="utf-8")


def protocols() -> Path:
    """The folder of the protocols that every instance finds in its home."""
    return Path(str(files("parley").joinpath("protocols")))


def from_text(text: str) -> dict[str, Any]:
    """A role as an order carries it."""
    role: dict[str, Any] = json.loads(text or "{}")
    return role


def system_prompt(role: Mapping[str, Any], skill: str = "") -> str:
    """All that an instance of a role is told before its first message. `role` is as the job's snapshot has it."""
    parts = [str(role.get("prompt", ""))]
    members: Mapping[str, str] = role.get("members") or {}
    if members:
        lines = [f"- {name}: {text}" if text else f"- {name}" for name, text in sorted(members.items())]
        parts.append("\n".join(("# Your team", *lines)))
    parts.append(shared_text())
    if "Note" in (role.get("bus") or ()):  # doers and verifiers, and nobody else
        parts.append(_MEMBER)
    parts.extend(skill_text(name).split("---\n", 2)[2].strip() for name in (*AT_HAND.get(skill, ()), skill) if name)
    return "\n\n".join(part for part in parts if part)


def dress(folder: Path, role: Mapping[str, Any], skills: Iterable[str] = ()) -> Path:
    """Make `folder` the `.claude` of a role, whatever was there. Every file and folder in it is read-only.

    It must lie where no agent can write: the instance sees it bound over its own.
    """
    wanted = _contents(role, skills)
    if _holds(folder) == wanted:
        return folder
    draft = folder.with_name(f".{folder.name}.{os.getpid()}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    _remove(draft)
    for name, data in wanted.items():
        path = draft / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(0o444)
    for here, _, _ in os.walk(draft, topdown=False):
        Path(here).chmod(0o555)
    _remove(folder)
    draft.rename(folder)
    return folder


def _contents(role: Mapping[str, Any], skills: Iterable[str]) -> dict[str, bytes]:
    name = str(role["name"])
    about = json.dumps(
        {"name": PLUGIN, "version": "1.0.0", "description": "The role and the skills of this instance."}, indent=2
    )
    found = {".claude-plugin/plugin.json": f"{about}\n".encode(), f"agents/{name}.md": _agent(role).encode()}
    given = [name for skill in skills if skill for name in (skill, *AT_HAND.get(skill, ()))]
    found.update({f"skills/{name}/SKILL.md": skill_text(name).encode() for name in given})
    return found


def _agent(role: Mapping[str, Any]) -> str:
    """The role in Claude Code's own format."""
    matter = [
        f"name: {role['name']}",
        f"description: {json.dumps(role.get('description', ''), ensure_ascii=False)}",
        f"tools: {', '.join(role.get('tools', ()))}",
        f"model: {role.get('model') or 'inherit'}",
    ]
    return "\n".join(("---", *matter, "---", system_prompt(role), ""))


def _holds(folder: Path) -> dict[str, bytes] | None:
    """What a folder holds, if it is one that `dress` made; None where anything about it is odd."""
    if folder.is_symlink() or not folder.is_dir():
        return None
    found: dict[str, bytes] = {}
    for path in folder.rglob("*"):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            return None
        if path.stat().st_mode & 0o222:
            return None
        if path.is_file():
            found[path.relative_to(folder).as_posix()] = path.read_bytes()
    return found


def _remove(path: Path) -> None:
    """Take away whatever is there, also what is read-only; a link's target is left alone."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        for here, _, _ in os.walk(path):
            Path(here).chmod(0o700)
        shutil.rmtree(path)
