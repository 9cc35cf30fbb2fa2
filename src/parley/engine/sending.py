"""How much a message carries: bounded words, files that go along with a task, a file for what is too long."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from parley.config import SendingSettings
from parley.core.errors import Refused
from parley.core.terms import Proxy, Surface, thread_kind
from parley.engine.live import LiveJob
from parley.engine.names import sent_slot
from parley.engine.records import dumps
from parley.engine.reduce import message
from parley.engine.roster import CODE
from parley.engine.turn import Turn
from parley.engine.world import World
from parley.ports import CHILDREN, REPORTS, Sent, WorkspaceError

SHARE_SHOWN = 4  # of a report that is too long, a message shows this part of what it may hold
PATH_LIMIT = 1000  # characters


def bounds_of(live: LiveJob) -> SendingSettings:
    """How much one message of a job may carry."""
    return SendingSettings(**live.settings.get("sending", {}))


# ---- words -----------------------------------------------------------------------------------------


def refuse_long(live: LiveJob, text: str, remedy: str, room: int = 0) -> None:
    """Refuse a message that would fill its reader's context; `remedy` says where the rest belongs.

    `room` is for what it may quote: the question and the human's words are as long as they are.
    """
    most = bounds_of(live).message + room
    if len(text) > most:
        raise Refused(f"the text has {len(text)} characters, {most} at most ([limits] message); {remedy}")


def in_a_file(live: LiveJob, turn: Turn, arguments: Mapping[str, Any]) -> str:
    """How a sender gets more across than a message holds."""
    if "to" in arguments:
        return 'write it to a file and name that: Send(…, files=["notes.md"])'
    if arguments.get("thread") in ("dispatcher", live.soup.parent(turn.thread)):
        name = turn.thread.partition(":")[2]
        return f"write it to a file, and say here what it is called: your dispatcher finds it below {CHILDREN}/{name}/"
    return 'write it to a file, and open another conversation with it: Send(to=…, files=["notes.md"])'


def moved(live: LiveJob, world: World, turn: Turn, workspace: str, text: str) -> tuple[str, str]:
    """A final text as its dispatcher gets it, and what the protocol adds: where all of one that is too long lies.

    The turn is over, so it can't be refused. The file is committed with the turn: the step that ends it names the tree.
    """
    most, parent = bounds_of(live).message, live.soup.parent(turn.thread)
    above = live.soup.get(Surface, parent) if parent else None
    if len(text) <= most or above is None or above.agent in CODE or thread_kind(turn.thread) != "dispatch":
        return text, ""
    path = f"{REPORTS}/{turn.turn}.md"
    world.workspace.write(live.job, workspace, {path: text})
    place = f"{CHILDREN}/{turn.thread.partition(':')[2]}/{path}"
    own = f"[LONG] That was the beginning. All {len(text)} characters: {place} (until you close this)"
    return f"{text[: most // SHARE_SHOWN]}…", own


def quotable(live: LiveJob, world: World, proxy: Proxy) -> int:
    """How much the proxy may quote: its question, and all that the human has said to it."""
    return sum(len(message(live, world, name).body) for name in (proxy.question.message, *proxy.words))


# ---- files -----------------------------------------------------------------------------------------


def files_of(live: LiveJob, world: World, turn: Turn, arguments: Mapping[str, Any], to: str) -> tuple[Sent, ...]:
    """The files that a Send names, kept as they are now. Raises Refused."""
    given = arguments.get("files")
    if given is None or given == []:
        return ()
    bounds = bounds_of(live)
    if not isinstance(given, list) or not all(isinstance(path, str) and 0 < len(path) <= PATH_LIMIT for path in given):
        raise Refused('files must be a list of paths in your workspace, as ["notes.md"]')
    if not all(path.isprintable() for path in given):
        raise Refused("a file that is sent needs a name that can be printed; rename it")
    if "to" not in arguments:
        raise Refused("files go along with a task, which opens a conversation: use `to`, or name them in the text")
    if arguments["to"] in CODE:
        raise Refused(f"{arguments['to']} takes no files: it reads what is committed in your tree")
    paths = list(dict.fromkeys(given))
    if len(paths) > bounds.sent_files:
        most = f"{bounds.sent_files} at most ([limits] sent_files)"
        raise Refused(f"too many files are named ({len(paths)}), {most}; send an archive")
    workspace = live.soup.need(Surface, turn.thread, turn.agent).workspace
    try:
        return world.workspace.pick(live.job, workspace, to, paths, bounds.sent_mb << 20)
    except WorkspaceError as error:
        raise Refused(str(error)) from error


def with_files(text: str, files: Sequence[Sent]) -> str:
    """A task as its worker reads it, with the files that came along."""
    if not files:
        return text
    listed = ", ".join(one.path for one in files)
    replaced = "in the place of what your tree had under such a name"
    return f"{text}\n\n[FILES] Copied into your workspace as they were when this was sent, {replaced}: {listed}"


def keep_files(live: LiveJob, thread: str, files: Sequence[Sent]) -> dict[str, Any] | None:
    """Remember what goes along with a task; the meta of its message."""
    if not files:
        return None
    listed = [list(one) for one in files]
    live.keep(sent_slot(thread), dumps(listed))
    return {"files": listed}


def sent_to(live: LiveJob, workspace: str) -> tuple[Sent, ...]:
    """What came along with the task of whoever works in a workspace."""
    return tuple(Sent(*one) for one in json.loads(live.kept.get(sent_slot(workspace), "[]")))
