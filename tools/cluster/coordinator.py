"""Plays a job with scripted agents on the cluster's hosts; this process is its coordinator."""

from __future__ import annotations

from contextlib import closing
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from parley.actions.drive import drive
from parley.cli import home_bus
from parley.cli.machine.trust import settings_of
from parley.cli.running.bootstrap import CompositeView, engine_of
from parley.cli.starting.demo import HUMAN, SERVICE, Direction, Director, Play, paced
from parley.cli.starting.run import new_row, snapshot_of
from parley.engine.values.job_roles import charter_of
from parley.ports.turns import SCRIPTED
from parley.runners.scripted.playbook import parse
from parley.settings.schema import WorkflowSettings
from tools.cluster.killer import Killed, Killer
from tools.cluster.local_cluster import LocalCluster
from tools.cluster.story import Story


class Scene(NamedTuple):
    """What is played, how fast, and whose host is killed: one of these agents', or any agent's below a lead."""

    play: Play
    text: str  # of the playbook
    pace: float
    victims: tuple[str, ...] = ()


class Played(NamedTuple):
    """A job that was played, and what happened to it."""

    job: str
    state: str
    story: Story
    killed: Killed | None


def workflow_demo(pace: float) -> Scene:
    """The play of `parley demo --workflow`."""
    text = files("parley").joinpath(SERVICE.book).read_text(encoding="utf-8")
    return Scene(SERVICE, text, pace, ("api_agent", "frontend_agent"))


def own_play(playbook: Path, pace: float) -> Scene:
    """A playbook of the user's."""
    return Scene(Play(playbook.stem, str(playbook)), playbook.read_text(encoding="utf-8"), pace)


def play(cluster: LocalCluster, scene: Scene) -> Played:
    """Play the job, and kill a host meanwhile."""
    place = cluster.place
    settings = replace(
        settings_of(place), fan_out=scene.play.fan_out, workflow=WorkflowSettings(complex_agents=2)
    )  # as `parley demo` has them
    playbook = parse(scene.text, scene.play.book)
    with engine_of(place, settings) as engine, closing(home_bus.open_store(place.home)) as store:
        snapshot = paced(snapshot_of(place.root, settings, playbook), scene.pace)
        row = replace(new_row(engine.world.ids.new(), scene.play.request, SCRIPTED, snapshot), decider=HUMAN)
        engine.start(row, charter_of(row))
        story = Story(store, row.job)
        director = Director(place.home, row.job, Direction(playbook, scene.play, scene.pace))
        with director, Killer(cluster, scene.victims) as killer:
            drive(engine, [row.job], CompositeView(story, director), stay=True)
        story.show()
        return Played(row.job, store.load(row.job).row.state, story, killer.killed)
