"""What the proxy of a question reads: the trees that were committed when the question was put.

They are named in the transaction that puts it, from what the bus knows of the asker's workspace and of those that it
has dispatched. So a clone is the same whenever it is made, and an audit finds the same names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from parley.core.soup import Soup
from parley.core.terms import Surface, thread_kind
from parley.engine.live import LiveJob
from parley.engine.names import clone_slot, tree_slot
from parley.engine.records import dumps
from parley.engine.roster import CODE
from parley.engine.world import World
from parley.ports import Site


def frozen(soup: Soup, kept: Mapping[str, str], agent: str, thread: str, draft: str = "") -> str:
    """What a question of an instance is about, as it is kept: its workspace, the tree there, and its workers' trees.

    An agent that is code names its own tree alone: whom it has dispatched is in what it asks. `draft`: the tree that
    its step names in the place of its own, with what is put forward and holds nowhere yet.
    """
    workspace = soup.need(Surface, thread, agent).workspace
    below = [] if agent in CODE else [child for child in soup.children(thread) if thread_kind(child) == "dispatch"]
    trees = {child: kept[tree_slot(child)] for child in sorted(below) if tree_slot(child) in kept}
    return dumps({"of": workspace, "tree": draft or kept.get(tree_slot(workspace), ""), "children": trees})


def site_of(live: LiveJob, world: World, thread: str) -> Site:
    """Where the proxy of a question works."""
    known = json.loads(live.kept[clone_slot(thread)])
    return world.workspace.clone(live.job, thread, known["of"], known["tree"], known["children"])


def tree_of(live: LiveJob, thread: str) -> str:
    """The tree that a question is about; empty where nothing was committed yet."""
    return str(json.loads(live.kept.get(clone_slot(thread), "{}")).get("tree", ""))
