"""`parley continue`: starts a job that goes on from the result of a finished one."""

from __future__ import annotations

import argparse

from parley.cli.common import place_of
from parley.cli.starting.continued import find_continued
from parley.cli.starting.request_text import read_request
from parley.cli.starting.run import begin
from parley.cli.typed_commands import typed


def run(words: argparse.Namespace) -> int:
    """Start a job from what another has left."""
    place = place_of(words.repo)
    continued = find_continued(place, words.job)
    former = continued.former
    about = (f"It continues {former.job} ({former.state}), which was asked: {former.request}",)
    request = read_request(words, about)
    with request.kept(typed(f"parley continue {former.job}", place)):
        return begin(words, place, request, continued=continued)
