"""`parley workflow restore`: make an archived session an agent's current one again."""

from __future__ import annotations

import time
from pathlib import Path

from parley.cli import OK, CommandError
from parley.cli.common import place_of, print_json
from parley.cli.open_bus import find_job, open_bus
from parley.cli.shared_home import workspaces
from parley.views.job_view import TERMINAL
from parley.workflow.host.archiving import NotRestored, Shelf, Tree, restore
from parley.workflow.model.terms import FOLDER, session_of
from parley.workspaces.checkout.users_workflow_files import UsersWorkflowFiles as Folder


def run_restore(
    where: str, agent: str, session: str, *, repo: str | None = None, replacing: bool = False, json: bool = False
) -> int:
    """Restore it, or say why not. `where` is a job that has ended, or a folder with `orchestration/` in it."""
    try:
        path = restore(_shelf(where, repo), agent, session, int(time.time()), replacing=replacing)
    except NotRestored as error:
        raise CommandError(str(error)) from error
    if json:
        print_json({"agent": agent, "archive": path, "session": session_of(agent)})
    else:
        print(f"{session_of(agent)} is {path.rsplit('/', 1)[1]} again")
    return OK


def _shelf(where: str, repo: str | None) -> Shelf:
    folder = Path(where)
    if (folder / FOLDER).is_dir():
        return Folder(folder.resolve())
    if folder.name == FOLDER and (folder / "agents").is_dir():
        return Folder(folder.resolve().parent)
    place = place_of(repo)
    with open_bus(place) as store:
        row = find_job(store.jobs(), where)
        if row.state not in TERMINAL or store.owner_lives(row.job):
            raise CommandError(f"{row.job} has not ended: its sessions are on the bus; wait for it, or name a folder")
    trees = workspaces(place.home, place.root)
    if not trees.repository(row.job).exists:
        raise CommandError(f"{row.job} has no files any more; name a folder that holds {FOLDER}/")
    return Tree(trees, row.job, f"job:{row.job}")
