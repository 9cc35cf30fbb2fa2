"""Tool calls in mid-turn. A call is refused at once or will take effect: nothing in between.

A call is checked, then taken into the turn by its tool. The tools of conversations are here; a feature brings its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from parley.base.text import check_value, fit
from parley.base.wording import count
from parley.engine import protocol_messages
from parley.engine.hooks import Reply, Tool
from parley.engine.owned_job import OwnedJob
from parley.engine.protocol_messages import TEXT_LIMIT, key_of
from parley.engine.turn import sending
from parley.engine.turn.finish import commit_note, left_at_gate
from parley.engine.turn.gate import gate_of, refuse_unready
from parley.engine.turn.running_turn import CallNote, Turn, TurnQuestion
from parley.engine.values import unfinished_work
from parley.engine.world import World
from parley.ports.turns import Called
from parley.ports.workspaces import WorkspaceError
from parley.protocol.bounds import counted
from parley.protocol.conversation import enclosing, refuse_unless_askable
from parley.protocol.errors import Refused
from parley.protocol.escalation import goes_straight, policy_for
from parley.protocol.molecules import Close, Deliver, Kind, Payload, Policy, Question, Surface, dispatch_thread
from parley.protocol.soup import Soup

MAX_NOTES = 100  # of one turn
MAX_ASSERTS = 3  # of one artifact in one turn: each looks through the whole workspace
NAME_LIMIT = 200  # characters of a tool's, an agent's, a thread's or an artifact's name
DEEPEST_ARGUMENT = 16  # levels of a call's arguments
ARGUMENT_LIMIT = 16 * TEXT_LIMIT  # characters of one text; each tool has its own limit, and says what to do instead
ARGUMENT_VALUES = 20_000  # of one call, keys included


def call(job: OwnedJob, world: World, turn: Turn, event: Called) -> Reply:
    """Take a call into the turn. Raises Refused, or BadText where the arguments are more than a call may hold."""
    check_value(event.arguments, ARGUMENT_LIMIT, deepest=DEEPEST_ARGUMENT, values=ARGUMENT_VALUES)
    _refuse_unless_due(job, turn, event)
    for hook in job.guests.before_call:
        hook(job, turn, event)
    tool = job.guests.tools.get(event.tool) or TOOLS.get(event.tool) or note
    reply = tool(job, world, turn, event.arguments)
    if event.tool == "AskQuestion":
        turn.asked_in = event.batch
    return reply


def _refuse_unless_due(job: OwnedJob, turn: Turn, event: Called) -> None:
    """An agent calls the tools that its role has, and nothing after its question but in the same message of its own."""
    tools = job.tools(job.soup.need(Surface, turn.thread, turn.agent))
    if event.tool not in tools and event.tool != "Note":
        raise Refused(f"{turn.agent} has no tool {fit(event.tool, NAME_LIMIT)!r}; it has: {', '.join(tools)}")
    with_question = event.batch and event.batch == turn.asked_in
    if turn.questions and event.tool not in ("AskQuestion", "Note") and not with_question:
        raise Refused("you have asked, so your turn ends; the answer comes as your next message")


# ---- what arguments hold ---------------------------------------------------------------------------


def text_of(arguments: Mapping[str, Any], key: str = "text", most: int = TEXT_LIMIT) -> str:
    """A text among the arguments. Raises Refused."""
    text = arguments.get(key, "")
    if not isinstance(text, str):
        raise Refused(f"{key} must be a string")
    if len(text) > most:
        raise Refused(f"the {key} has {len(text)} characters, {most} at most; put it into a file")
    return text


def _name(arguments: Mapping[str, Any], key: str) -> str:
    name = arguments.get(key)
    if not isinstance(name, str) or not 0 < len(name) <= NAME_LIMIT or not name.isprintable() or " " in name:
        raise Refused(f"{key} must be a name")
    return name


# ---- notes -----------------------------------------------------------------------------------------


def note(job: OwnedJob, world: World, turn: Turn, arguments: Mapping[str, Any]) -> Reply:
    """Note: something that the record keeps with the turn's end."""
    if len(json.dumps(dict(arguments))) > TEXT_LIMIT:
        raise Refused("the note is too long; put it into a file")
    if len(turn.notes) >= MAX_NOTES:
        raise Refused(f"a turn may leave {MAX_NOTES} notes; put the rest into a file")
    turn.notes.append(dict(arguments))
    turn.calls.append(CallNote("Note"))
    return Reply("noted")


# ---- conversations ---------------------------------------------------------------------------------


def _send_call(arguments: Mapping[str, Any]) -> sending.SendCall:
    """Read a call of Send from what an agent gave. Raises Refused."""
    text = text_of(arguments)
    if ("to" in arguments) == ("thread" in arguments):
        raise Refused("Send takes either `to` (opens a conversation) or `thread` (goes on with one)")
    files = sending.paths_in(arguments["files"]) if arguments.get("files") else ()
    if "to" in arguments:
        return sending.SendCall(text, to=_name(arguments, "to"), files=files)
    return sending.SendCall(text, thread=_name(arguments, "thread"), files=files)


def _send(job: OwnedJob, world: World, turn: Turn, arguments: Mapping[str, Any]) -> Reply:
    """Send: a message to another agent, which is delivered when the turn ends."""
    said = _send_call(arguments)
    if len(said.text) > job.roles.sending.message:
        sending.refuse_long(job, said.text, sending.in_a_file(job, turn, said))
    if said.to:
        for hook in job.guests.before_spark:
            hook(job, turn)
        agent, thread = said.to, dispatch_thread(world.ids.new())
    else:
        thread = _thread(job.soup, turn, said.thread)
        agent = _agent_on(job.soup, turn, thread)
    provisional = f"?{len(turn.texts)}"
    files = sending.files_of(job, world, turn, said, thread) if said.files else ()
    _admit(job, turn, Deliver(agent, thread, provisional))
    turn.texts[provisional], turn.files[provisional] = said.text, files
    along = f" with {count(len(files), 'file')}" if files else ""
    turn.calls.append(CallNote("Send", f"to {agent} on {thread}{along}", said.text))
    return Reply(f"will be sent to {agent} on {thread} when your turn ends", {"thread": thread})


def _admit(job: OwnedJob, turn: Turn, payload: Payload) -> None:
    """Take a letter or a close into the turn, if the rules will let it happen. Raises Refused."""
    if isinstance(payload, Deliver) and job.soup.dying(payload.thread):
        raise Refused(f"{payload.thread} is closed")
    counted(job.soup, turn.agent, turn.thread, [*turn.payloads, payload], [one.question for one in turn.questions])
    turn.admission.admit(job.soup, payload)
    turn.payloads.append(payload)


def _thread(soup: Soup, turn: Turn, name: str) -> str:
    if name != "dispatcher":
        return name
    parent = soup.parent(turn.thread)
    if parent is None:
        raise Refused("no agent dispatched you")
    return parent


def _agent_on(soup: Soup, turn: Turn, thread: str) -> str:
    opened = turn.admission.sparked.get(thread)
    if opened is not None:
        return opened
    surface = soup.get(Surface, thread)
    if surface is None:
        raise Refused(f"there is no open conversation {thread}")
    return surface.agent


def _close(job: OwnedJob, world: World, turn: Turn, arguments: Mapping[str, Any]) -> Reply:
    """CloseConversation: with an agent that this one dispatched, when the turn ends."""
    thread = _name(arguments, "thread")
    if job.soup.dying(thread):
        raise Refused(f"{thread} is closed already")
    _admit(job, turn, Close(thread))
    turn.calls.append(CallNote("CloseConversation", thread))
    return Reply(f"{thread} will be closed when your turn ends")


# ---- questions -------------------------------------------------------------------------------------


def _ask(job: OwnedJob, world: World, turn: Turn, arguments: Mapping[str, Any]) -> Reply:
    """AskQuestion: a plain question, or an assert of an artifact, which ends the turn."""
    text = text_of(arguments)
    sending.refuse_long(job, text, "write it to a file of your workspace, and name that in the question")
    kind = arguments.get("kind", "question")
    if kind not in (Kind.QUESTION, Kind.ASSERT):
        raise Refused("kind is `question` or `assert`")
    artifact = _name(arguments, "artifact") if kind == Kind.ASSERT else ""
    key = "" if artifact else key_of(text)
    question = Question(
        id=world.ids.new(), message="?", kind=Kind(kind), artifact=artifact, digest="?" if artifact else "", key=key
    )
    counted(job.soup, turn.agent, turn.thread, turn.payloads, [*(one.question for one in turn.questions), question])
    refuse_unless_askable(job.soup, turn.agent, turn.thread, (question,))
    if artifact:
        question = _asserted(job, world, turn, question)
    turn.questions.append(TurnQuestion(question, text))
    turn.calls.append(CallNote("AskQuestion", artifact or question.id, text))
    who = _answerer(job, question, policy_for(job.soup, turn.thread))
    left = unfinished_work.lines(left_at_gate(job, turn)) if artifact else []
    out = f" {protocol_messages.not_in_this(left)}" if left else ""
    told = f"asked: question {question.id}. {who} Your turn ends, and the answer comes as your next message.{out}"
    return Reply(told, {"question": question.id})


def _asserted(job: OwnedJob, world: World, turn: Turn, question: Question) -> Question:
    """An assert, bound to what its artifact contains now. Raises Refused where it could not be approved."""
    artifact = question.artifact
    if sum(one.question.artifact == artifact for one in turn.questions) >= MAX_ASSERTS:
        raise Refused(f"{artifact} was asserted {MAX_ASSERTS} times in this turn; the last one counts")
    record = enclosing(job.soup, turn.thread)
    workspace = job.soup.need(Surface, turn.thread, turn.agent).workspace
    try:
        for hook in job.guests.before_tree_read:
            hook(job, record)
        tree = world.workspace.snapshot(job.id, workspace, commit_note(job, turn)).tree
        gate = gate_of(job, world, record, workspace, tree)
    except WorkspaceError as error:
        raise Refused(str(error)) from error
    question = replace(question, digest=gate.contents.get(artifact, ""))
    refuse_unless_askable(job.soup, turn.agent, turn.thread, (question,))
    if not record.depth:
        refuse_unready(job, gate, artifact)
    return question


def _answerer(job: OwnedJob, question: Question, policy: Policy) -> str:
    """Who will answer a question, as its asker is told."""
    human = job.row.decider or "the human"
    if goes_straight(job.soup.charter, question, policy):
        return f"It is put to {human}, who answers it."
    return {
        Policy.ALWAYS: f"The proxy looks at it, then {human} answers it.",
        Policy.WHEN_UNSURE: f"The proxy answers it for {human}, or asks them.",
        Policy.NEVER: f"The proxy answers it for {human}, who is not asked.",
    }[policy]


TOOLS: Mapping[str, Tool] = {"Send": _send, "CloseConversation": _close, "AskQuestion": _ask}
