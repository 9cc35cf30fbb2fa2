"""The finished job that a new one continues: what the new one is told of it, and the tree that it begins with."""

from __future__ import annotations

from dataclasses import dataclass

from parley.bus.rows import JobRow
from parley.cli import CommandError
from parley.cli.common import Workplace
from parley.cli.open_bus import find_job, known_secrets, open_bus
from parley.cli.shared_home import workspaces
from parley.cli.user_homes import own_folders
from parley.features.former_job import FILE_LENGTH, FormerJob
from parley.settings.schema import Settings
from parley.views.job_view import TERMINAL
from parley.workspaces.job_repository import ARTIFACTS, FormerResult


@dataclass(frozen=True, slots=True)
class Continued:
    """A job to continue. `result`: what of its result the user's checkout lacks, if anything."""

    former: FormerJob
    result: FormerResult | None

    def begin_tree(self, place: Workplace, settings: Settings, row: JobRow) -> None:
        """Make the repository of the new job before the job is put on the bus, while the former result is there."""
        if self.result is None:
            return
        title = known_secrets(place).redact(row.request)  # it names a branch of the user's
        trees = workspaces(place.home, place.root, settings.workspace, title=lambda job: title, private=own_folders())
        trees.begin_with(row.job, self.result)


def find_continued(place: Workplace, given: str) -> Continued:
    """The finished job that an id names, read once; refused where there is nothing to continue from."""
    with open_bus(place) as store:
        row = find_job(store.jobs(), given)
    if row.state not in TERMINAL:
        raise CommandError(
            f"{row.job} is not finished ({row.state}); tell it more with `parley intervene {row.job} TEXT`, or "
            f"see how it stands with `parley show {row.job}`"
        )
    trees = workspaces(place.home, place.root, redact=known_secrets(place).redact)
    result = trees.missing_result(row.job)
    tree = trees.committed(row.job, f"job:{row.job}")
    texts = {name: trees.beginning(row.job, tree, name, FILE_LENGTH) for name in ARTIFACTS}
    return Continued(
        FormerJob(
            job=row.job,
            state=row.state,
            request=row.request,
            files={name: text for name, text in texts.items() if text.strip()},
            commit=result.commit if result is not None else "",
        ),
        result,
    )
