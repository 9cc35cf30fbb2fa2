"""Makes an instance's files from its role: its system prompt, and a read-only `.claude` folder.

The folder is made from the role and its skills alone, the same bytes each time. It is a plugin folder of Claude
Code's as well, so that its skills can be loaded without trusting any settings in the workspace.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

from parley.roles.role_snapshot import RoleSnapshot

PLUGIN = "parley"
PROTOCOLS = ".claude/protocols"  # in an instance's home
CONTRACT = "orchestration_agent_contract.md"
# Further skills of a phase's lead: as files, and in its prompt where they apply.
EXTRA_SKILLS: Mapping[str, tuple[str, ...]] = {
    "planning": ("persona-lead-engineer",),
    "execute": ("persona-lead-engineer", "workflow-execution"),
}
COMMON = ("python3", "pytest", "git", "make", "gcc", "node", "go", "cargo", "java", "rg")
_MINUTE = 60.0


@cache
def shared() -> Mapping[str, str]:
    """What agents are told besides their role, keyed by when it applies."""
    text = files("parley").joinpath("roles/_shared.md").read_text(encoding="utf-8")
    parts = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)
    return {name: part.rstrip("\n") for name, part in zip(parts[1::2], parts[2::2], strict=True)}


@cache
def installed(path: str) -> str:
    """The common programs that are found on a search path, with the Python's version."""
    found = [name for name in COMMON if shutil.which(name, path=path)]
    if "python3" in found:
        python = str(shutil.which("python3", path=path))
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            said = subprocess.run([python, "-V"], capture_output=True, text=True, check=True, timeout=10, env={})
            found[found.index("python3")] = f"Python {said.stdout.split()[-1]}"
    return ", ".join(found) or "a POSIX shell"


@cache
def skill_text(name: str) -> str:
    """A skill's file."""
    return files("parley").joinpath("skills", name, "SKILL.md").read_text(encoding="utf-8")


def skill_folder(name: str) -> Path:
    """Where a skill lies."""
    return Path(str(files("parley").joinpath("skills", name)))


def protocols() -> Path:
    """The folder of the protocols that every instance finds in its home."""
    return Path(str(files("parley").joinpath("agent_protocols")))


def system_prompt(
    role: RoleSnapshot,
    skills: Sequence[str] = (),
    tools: Sequence[str] = (),
    *,
    path: str = os.defpath,
    seconds: float = 0.0,
) -> str:
    """The system prompt of an instance. `role` is as the job's snapshot has it.

    `skills` are the names of those that it follows, the phase's own first, `tools` its protocol tools, `path` the
    search path for programs, and `seconds` its turn's time limit. It is the same for every instance of a role in a
    state.
    """
    parts = [role.prompt]
    if role.members:
        lines = [f"- {name}: {text}" if text else f"- {name}" for name, text in sorted(role.members.items())]
        parts.append("\n".join(("# Your team", *lines)))
    parts.append("\n".join(("# Here", *_here(skills, tools, path, seconds))))
    parts.extend(_page(name) for name in (*skills[1:], *skills[:1]))  # the phase's own last
    return "\n\n".join(part for part in parts if part)


def _here(skills: Sequence[str], tools: Sequence[str], path: str, seconds: float) -> Iterator[str]:
    """The shared lines that apply to an instance."""
    text = shared()
    limit = f"{seconds / _MINUTE:g} minutes" if seconds else "the job's time limit"
    facts = text["facts"].format(installed=installed(path), minutes=limit)
    reader, member = "Answer" in tools, "Note" in tools
    yield text["reader" if reader else "place"].format(facts=facts)
    if member:
        yield text["contract"]
    elif not (reader or skills):
        yield text["task"]
    if "AskQuestion" in tools and not skills:
        yield text["ask"]
    if not reader:
        yield text["data"]


def _page(name: str) -> str:
    """A skill's text without its front matter, or a page of the protocols."""
    page = protocols() / f"{name}.md"
    text = page.read_text(encoding="utf-8") if page.is_file() else skill_text(name).split("---\n", 2)[2]
    return text.strip()


def make_claude_folder(folder: Path, role: RoleSnapshot, skills: Iterable[str] = ()) -> Path:
    """Make `folder` the `.claude` of a role, replacing what was there. Every file and folder in it is read-only.

    It must lie where no agent can write: it is bound over the instance's own.
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


def _contents(role: RoleSnapshot, skills: Iterable[str]) -> dict[str, bytes]:
    about = json.dumps(
        {"name": PLUGIN, "version": "1.0.0", "description": "The role and the skills of this instance."}, indent=2
    )
    found = {".claude-plugin/plugin.json": f"{about}\n".encode(), f"agents/{role.name}.md": _agent(role).encode()}
    given = dict.fromkeys(name for skill in skills for name in (skill, *EXTRA_SKILLS.get(skill, ())))
    found.update({f"skills/{name}/SKILL.md": skill_text(name).encode() for name in given})
    return found


def _agent(role: RoleSnapshot) -> str:
    """The role in Claude Code's own format."""
    matter = [
        f"name: {role.name}",
        f"description: {json.dumps(role.description, ensure_ascii=False)}",
        f"tools: {', '.join(role.tools)}",
        f"model: {role.model or 'inherit'}",
    ]
    return "\n".join(("---", *matter, "---", role.prompt, ""))


def _holds(folder: Path) -> dict[str, bytes] | None:
    """The content of a folder that `make_claude_folder` made; None where anything differs."""
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
    """Delete what is there, read-only files too; a link's target is left alone."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        for here, _, _ in os.walk(path):
            Path(here).chmod(0o700)
        shutil.rmtree(path)
