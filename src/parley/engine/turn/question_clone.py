"""What the proxy of a question reads: the trees that were committed when the question was put.

They are named in the transaction that puts it, from what the bus knows of the asker's workspace and of those that it
has dispatched. So a clone is the same whenever it is made, and an audit finds the same names.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Struct

from parley.base.json_codec import decode, encode
from parley.bus.slots import clone_slot, tree_slot
from parley.engine.owned_job import OwnedJob
from parley.engine.world import World
from parley.ports.turns import Site
from parley.protocol.molecules import Surface, thread_kind
from parley.protocol.soup import Soup


class Clone(Struct, frozen=True, kw_only=True):
    """What the proxy of a question reads: of which workspace, the tree there, and the trees of its workers."""

    of: str
    tree: str = ""
    children: dict[str, str] = {}


def clone_text(
    soup: Soup, kept: Mapping[str, str], code: Collection[str], agent: str, thread: str, draft: str = ""
) -> str:
    """The Clone of a question that an instance asks, as its slot keeps it.

    An agent that is code names its own tree alone: whom it has dispatched is in what it asks. `draft`: the tree that
    its step names in the place of its own, with what is put forward and holds nowhere yet.
    """
    workspace = soup.need(Surface, thread, agent).workspace
    below = [] if agent in code else [child for child in soup.children(thread) if thread_kind(child) == "dispatch"]
    trees = {child: kept[tree_slot(child)] for child in sorted(below) if tree_slot(child) in kept}
    return encode(Clone(of=workspace, tree=draft or kept.get(tree_slot(workspace), ""), children=trees))


def site_of(job: OwnedJob, world: World, thread: str) -> Site:
    """Where the proxy of a question works."""
    known = decode(job.kept[clone_slot(thread)], Clone)
    return world.workspace.clone(job.id, thread, known.of, known.tree, known.children)


def tree_of(job: OwnedJob, thread: str) -> str:
    """The tree that a question is about; empty where nothing was committed yet."""
    kept = job.kept.get(clone_slot(thread))
    return decode(kept, Clone).tree if kept else ""
