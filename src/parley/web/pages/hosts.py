"""The hosts that run turns, of each repository whose bus is on a server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.responses import Response

from parley.bus.rows import BusError
from parley.views.host_lines import HostLine
from parley.web.pages.costs import contexts_of
from parley.web.visit import NotHere, Visit, slow


@dataclass(frozen=True, slots=True)
class RepositoryHosts:
    """The hosts of one repository, or why they can't be listed."""

    title: str
    hosts: Sequence[HostLine]
    problem: str = ""


def hosts(visit: Visit) -> Response:
    """The whole page."""
    return visit.show("hosts.html", repositories=_listed(visit))


def hosts_part(visit: Visit) -> Response:
    """The lists alone, as they are now."""
    return visit.show("part_hosts.html", repositories=_listed(visit))


def _listed(visit: Visit) -> list[RepositoryHosts]:
    if not visit.sees_hosts:
        raise NotHere("turns run on this machine: there is no list of hosts")
    found: list[RepositoryHosts] = []
    for context in contexts_of(visit).values():
        if not context.on_server():
            continue
        try:
            found.append(RepositoryHosts(context.title, context.hosts()))
        except BusError as error:
            found.append(RepositoryHosts(context.title, (), context.redact(str(error))))
    return found


PAGES = (("/hosts", ("GET",), slow(hosts)), ("/part/hosts", ("GET",), slow(hosts_part)))
