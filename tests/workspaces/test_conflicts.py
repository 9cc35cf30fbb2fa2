"""Conflicts of every kind: whoever does to the letter what the message says has settled them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from parley.engine import protocol_messages
from parley.engine.turn.conflict_advice import settling, shell_word
from parley.ports.workspaces import Clash, Conflict
from tests.workspaces.user_repository import CHILD, JOB, OTHER, ROOT, UserRepository, repository, write

Change = Callable[[Path], object]
MARKER = re.compile(rb"^(?:<{7,} parent|>{7,} dispatch).*", re.MULTILINE)
COMMAND = re.compile(r"`((?:rm|mv) [^`]+)`")


def text(kind: str) -> str:
    """A text that git takes for no other kind's, so that it finds no renames between them."""
    return "".join(f"{kind} line {number}\n" for number in range(20))


def binary(kind: str) -> bytes:
    return b"\0\1" + kind.encode() * 40


def put(name: str, data: str | bytes) -> Change:
    return lambda folder: write(folder, {name: data})


def program(name: str, data: str) -> Change:
    def change(folder: Path) -> None:
        write(folder, {name: data})
        (folder / name).chmod(0o755)

    return change


def move(name: str, to: str, more: str = "") -> Change:
    def change(folder: Path) -> None:
        (folder / name).rename(folder / to)
        with (folder / to).open("a") as file:
            file.write(more)

    return change


def remove(name: str) -> Change:
    return lambda folder: (folder / name).unlink()


def link(name: str, target: str) -> Change:
    def change(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(target)

    return change


def folder(name: str, inside: str) -> Change:
    def change(here: Path) -> None:
        (here / name).unlink(missing_ok=True)
        write(here, {f"{name}/{inside}": "in a folder\n"})

    return change


@dataclass(frozen=True)
class Kind:
    """What both have, what each side does, and how it lies in the tree then."""

    base: dict[str, str | bytes]
    ours: Change
    theirs: Change
    how: Clash


def kinds() -> dict[str, Kind]:
    a, b, c, d, e, g, h, i = (text(f"{letter}{letter}") for letter in "abcdeghi")
    fixture = "<<<<<<< parent\nold\n=======\n>>>>>>> dispatch:c1\n"
    return {
        "text": Kind({"f": "a\n"}, put("f", "ours\n"), put("f", "theirs\n"), Clash.MARKED),
        "add": Kind({}, put("f", "one\n"), put("f", "two\n"), Clash.MARKED),
        "mode": Kind({"f": "a\n"}, program("f", "b\n"), put("f", "c\n"), Clash.MARKED),
        "latin": Kind({"f": b"\xe9\n"}, put("f", b"\xe8\n"), put("f", b"\xea\n"), Clash.MARKED),
        "crlf": Kind({"f": "a\r\nz\r\n"}, put("f", "b\r\nz\r\n"), put("f", "c\r\nz\r\n"), Clash.MARKED),
        "rst": Kind({"f": "T\n=======\na\n"}, put("f", "T\n=======\nb\n"), put("f", "T\n=======\nc\n"), Clash.MARKED),
        "fixture": Kind({"f": f"{fixture}a\n"}, put("f", f"{fixture}b\n"), put("f", f"{fixture}c\n"), Clash.MARKED),
        "renamed over": Kind({"f": a}, move("f", "g"), put("g", "other\n"), Clash.MARKED),
        "two to one": Kind({"f": b, "e": c}, move("f", "g"), move("e", "g"), Clash.MARKED),
        "binary": Kind({"f": binary("bin")}, put("f", b"\0ours"), put("f", b"\0theirs"), Clash.BOTH),
        "binary add": Kind({}, put("f", b"\0one"), put("f", b"\0two"), Clash.BOTH),
        "taken name": Kind(
            {"f": binary("name"), "f.theirs": "mine\n"}, put("f", b"\0one"), put("f", b"\0two"), Clash.BOTH
        ),
        "links": Kind({"l": "x"}, link("l", "one"), link("l", "two"), Clash.BOTH),
        "link and file": Kind({"l": "x\n"}, link("l", "one"), put("l", "y\n"), Clash.BOTH),
        "file and link": Kind({"l": "x\n"}, put("l", "y\n"), link("l", "one"), Clash.BOTH),
        "link to a folder": Kind({"l": "x\n", "in/a": "a"}, link("l", "in"), put("l", "y\n"), Clash.BOTH),
        "deleted there": Kind({"f": d}, put("f", f"{d}x\n"), remove("f"), Clash.DELETED_THERE),
        "deleted here": Kind({"f": e}, remove("f"), put("f", f"{e}x\n"), Clash.DELETED_HERE),
        "-odd $name 'of' it": Kind({"f": binary("odd")}, remove("f"), put("f", b"\0changed"), Clash.DELETED_HERE),
        "renamed twice": Kind({"f": g}, move("f", "g", "1\n"), move("f", "h", "2\n"), Clash.RENAMED),
        "file and folder": Kind({"f": h}, put("f", f"{h}x\n"), folder("f", "g"), Clash.FILE_HERE),
        "folder and file": Kind({"f": i}, folder("f", "g"), put("f", f"{i}x\n"), Clash.FILE_THERE),
    }


def choose(conflict: Conflict, here: Path, choice: int) -> None:
    """Do what the message says, in one of the ways that it names."""
    said = settling(conflict, "coder")
    if conflict.how is Clash.MARKED:
        opens, between, closes = re.findall(r"`([<=>]{7}[^`]*)`", said)
        file, side, kept = here / conflict.path, 0, []
        for line in file.read_bytes().splitlines(keepends=True):
            bare = line.rstrip(b"\r\n").decode("latin-1")
            if bare == opens or bare.startswith(f"{opens}:"):
                side = 1
            elif bare == closes or bare.startswith(f"{closes}:"):
                side = 0
            elif side and bare == between:
                side = 2
            elif not side or choice == 2 or side == choice + 1:
                kept.append(line)
        file.write_bytes(b"".join(kept))
        return
    commands = COMMAND.findall(said)
    words = ["/bin/sh", "-c", commands[choice % len(commands)]]
    done = subprocess.run(words, cwd=here, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b""), said


@pytest.mark.parametrize("choice", [0, 1, 2])
def test_doing_what_the_message_says_settles_every_kind_of_conflict(tmp_path: Path, choice: int) -> None:
    every = kinds()
    base = {f"{name}/{path}": data for name, kind in every.items() for path, data in kind.base.items()}
    place = repository(tmp_path / "repo", base)
    place.prepare()
    place.prepare(CHILD, ROOT)
    work, theirs = place.trees.path(JOB, ROOT), place.trees.path(JOB, CHILD)
    for name, kind in every.items():
        for at, change in ((work, kind.ours), (theirs, kind.theirs)):
            (at / name).mkdir(exist_ok=True)
            change(at / name)
    place.trees.snapshot(JOB, ROOT, "ours")
    place.trees.snapshot(JOB, CHILD, "theirs")

    merged = place.trees.merge(JOB, CHILD, ROOT)
    told = protocol_messages.merged("coder", CHILD, merged)

    assert {conflict.path.split("/")[0]: conflict.how for conflict in merged.conflicts} == {
        name: kind.how for name, kind in every.items()
    }
    assert all(settling(conflict, "coder") in told for conflict in merged.conflicts)
    assert all(shell_word(conflict.beside) in told for conflict in merged.conflicts if conflict.beside)
    assert len(place.trees.unresolved(JOB, ROOT)) == len(every)
    for conflict in merged.conflicts:
        choose(conflict, work, choice)
    assert place.trees.unresolved(JOB, ROOT) == []
    place.trees.snapshot(JOB, ROOT, "settled")
    committed = place.committed()
    left = [path for path in committed if re.search(r"\.(theirs|theirs-deleted|parent)(-\d+)?$", path)]
    assert left == ["taken name/f.theirs"]
    marked = {path: MARKER.findall(data) for path, data in committed.items() if MARKER.search(data)}
    assert marked == {"fixture/f": [b"<<<<<<< parent", b">>>>>>> dispatch:c1"]}
    assert place.trees.merge(JOB, CHILD, ROOT).conflicts == ()


def test_a_conflict_stays_open_until_what_every_merge_left_of_it_is_settled(place: UserRepository) -> None:
    place.prepare()
    place.prepare(CHILD, ROOT)
    place.prepare(OTHER, ROOT)
    place.turn(ROOT, {"bin": b"\0ours", "text": "ours\n"})
    place.turn(CHILD, {"bin": b"\0child", "text": "child\n"})
    place.turn(OTHER, {"bin": b"\0other", "text": "other\n"})
    work = place.trees.path(JOB, ROOT)

    conflicts = [*place.trees.merge(JOB, CHILD, ROOT).conflicts, *place.trees.merge(JOB, OTHER, ROOT).conflicts]

    assert [conflict.beside for conflict in conflicts if conflict.beside] == ["bin.theirs", "bin.theirs-2"]
    (work / "text").write_text("all\n")
    (work / "bin.theirs-2").unlink()
    assert place.trees.unresolved(JOB, ROOT) == ["bin"]
    (work / "bin.theirs").unlink()
    assert place.trees.unresolved(JOB, ROOT) == []


def test_a_message_of_many_conflicts_says_for_each_what_to_do(tmp_path: Path) -> None:
    many = {f"f{number:03}": binary(str(number)) for number in range(60)}
    place = repository(tmp_path / "repo", dict(many))
    place.prepare()
    place.prepare(CHILD, ROOT)
    place.turn(ROOT, {name: data + b"1" for name, data in many.items()})
    place.turn(CHILD, {name: data + b"2" for name, data in many.items()})

    told = protocol_messages.merged("coder", CHILD, place.trees.merge(JOB, CHILD, ROOT))

    assert all(f"`rm -f {name}.theirs`" in told for name in many)


@pytest.mark.parametrize("name", ["a b", "-r", "it's", "$HOME", "näh", "a\nb", "a\udce9b", "`x`"])
def test_a_name_is_told_so_that_a_shell_finds_it(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("x")
    bash = shutil.which("bash")
    assert bash is not None

    done = subprocess.run([bash, "-c", f"rm {shell_word(name)}"], cwd=tmp_path, check=False)

    assert done.returncode == 0
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - names, whatever bytes they have
