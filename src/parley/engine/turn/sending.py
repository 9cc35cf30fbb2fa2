"""How much a message carries: bounded words, files that go along with a task, a file for what is too long."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from parley.base.json_codec import decode, encode
from parley.bus.slots import sent_slot
from parley.engine.owned_job import OwnedJob
from parley.engine.reduction import message
from parley.engine.turn.running_turn import Turn
from parley.engine.turn.stages import LastWords
from parley.engine.values.message_meta import SentFiles
from parley.engine.world import World
from parley.ports.workspaces import CHILDREN, REPORTS, SentFile, WorkspaceError
from parley.protocol.errors import Refused
from parley.protocol.molecules import Proxy, Surface, thread_kind, thread_name

SHARE_SHOWN = 4  # of a report that is too long, a message shows this part of what it may hold
PATH_LIMIT = 1000  # characters


# ---- words -----------------------------------------------------------------------------------------


class SendCall(Struct, frozen=True):
    """A call of Send: it opens a conversation, or goes on with one."""

    text: str
    to: str = ""  # the agent with which it opens one
    thread: str = ""  # the one that it goes on with
    files: tuple[str, ...] = ()  # that go along, by their paths in the sender's workspace


def refuse_long(job: OwnedJob, text: str, remedy: str, room: int = 0) -> None:
    """Refuse a message that would fill its reader's context; `remedy` says where the rest belongs.

    `room` is for what it may quote: the question and the human's words are as long as they are.
    """
    most = job.roles.sending.message + room
    if len(text) > most:
        raise Refused(f"the text has {len(text)} characters, {most} at most ([limits] message); {remedy}")


def in_a_file(job: OwnedJob, turn: Turn, said: SendCall) -> str:
    """How a sender gets more across than a message holds."""
    if said.to:
        return 'write it to a file and name that: Send(…, files=["notes.md"])'
    if said.thread in ("dispatcher", job.soup.parent(turn.thread)):
        name = thread_name(turn.thread)
        return f"write it to a file, and say here what it is called: your dispatcher finds it below {CHILDREN}/{name}/"
    return 'write it to a file, and open another conversation with it: Send(to=…, files=["notes.md"])'


def moved(job: OwnedJob, world: World, turn: Turn, workspace: str, text: str) -> LastWords:
    """A final text as its dispatcher gets it, and what the protocol adds: where all of one that is too long lies.

    The turn is over, so it can't be refused. The file is committed with the turn: the step that ends it names the tree.
    """
    most = job.roles.sending.message
    if len(text) <= most or thread_kind(turn.thread) != "dispatch":
        return LastWords(text)
    above = job.above(turn.thread)
    if above is None or above.agent in job.roles.code:
        return LastWords(text)
    path = f"{REPORTS}/{turn.turn}.md"
    world.workspace.write(job.id, workspace, {path: text})
    place = f"{CHILDREN}/{thread_name(turn.thread)}/{path}"
    own = f"[LONG] That was the beginning. All {len(text)} characters: {place} (until you close this)"
    return LastWords(f"{text[: most // SHARE_SHOWN]}…", own)


def quotable(job: OwnedJob, world: World, proxy: Proxy) -> int:
    """How much the proxy may quote: its question, and all that the human has said to it."""
    return sum(len(message(job, world, name).body) for name in (proxy.question.message, *proxy.words))


# ---- files -----------------------------------------------------------------------------------------


def paths_in(given: Any) -> tuple[str, ...]:
    """The paths that an agent has named, each once. Raises Refused."""
    if not isinstance(given, list) or not all(isinstance(path, str) and 0 < len(path) <= PATH_LIMIT for path in given):
        raise Refused('files must be a list of paths in your workspace, as ["notes.md"]')
    if not all(path.isprintable() for path in given):
        raise Refused("a file that is sent needs a name that can be printed; rename it")
    return tuple(dict.fromkeys(given))


def files_of(job: OwnedJob, world: World, turn: Turn, said: SendCall, to: str) -> tuple[SentFile, ...]:
    """The files that a Send names, kept as they are now. Raises Refused."""
    bounds = job.roles.sending
    if not said.to:
        raise Refused("files go along with a task, which opens a conversation: use `to`, or name them in the text")
    if said.to in job.roles.code:
        raise Refused(f"{said.to} takes no files: it reads what is committed in your tree")
    paths = said.files
    if len(paths) > bounds.sent_files:
        most = f"{bounds.sent_files} at most ([limits] sent_files)"
        raise Refused(f"too many files are named ({len(paths)}), {most}; send an archive")
    workspace = job.soup.need(Surface, turn.thread, turn.agent).workspace
    try:
        return world.workspace.pick(job.id, workspace, to, paths, bounds.sent_mb << 20)
    except WorkspaceError as error:
        raise Refused(str(error)) from error


def with_files(text: str, files: Sequence[SentFile]) -> str:
    """A task as its worker reads it, with the files that came along."""
    if not files:
        return text
    listed = ", ".join(one.path for one in files)
    replaced = "in the place of what your tree had under such a name"
    return f"{text}\n\n[FILES] Copied into your workspace as they were when this was sent, {replaced}: {listed}"


def keep_files(job: OwnedJob, thread: str, files: Sequence[SentFile]) -> SentFiles:
    """Remember what goes along with a task; what its message says of it."""
    job.keep(sent_slot(thread), encode(files))
    return SentFiles(tuple(files))


def sent_to(job: OwnedJob, workspace: str) -> tuple[SentFile, ...]:
    """What came along with the task of the agent that works in a workspace."""
    kept = job.kept.get(sent_slot(workspace))
    return decode(kept, tuple[SentFile, ...]) if kept else ()
