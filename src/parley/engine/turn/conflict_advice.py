"""What an agent is told to do about each conflict of a merge: an agent that does it to the letter has settled it."""

from __future__ import annotations

import os
import re
import shlex

from parley.ports.workspaces import Clash, Conflict

MORE = (
    "in a file with markers, delete the lines with `<<<<<<<`, `=======` and `>>>>>>>`; where a file lies beside it,"
    " named like it with .theirs, .theirs-deleted or .parent behind, move that file over it or delete it"
)


def settling(conflict: Conflict, agent: str) -> str:
    """How a conflict lies in the tree, and what to do to settle it one way or the other."""
    path, beside = shell_word(conflict.path), shell_word(conflict.beside)
    drop, take = f"`rm -f {beside}`", f"`mv -fT {beside} {path}`"
    match conflict.how:
        case Clash.MARKED:
            ours, theirs = conflict.labels or ("", "")
            return (
                f"{path}: both sides are in it, between markers. Write it as it should be, without the lines"
                f" `{f'<<<<<<< {ours}'.rstrip()}`, `=======` and `{f'>>>>>>> {theirs}'.rstrip()}`."
            )
        case Clash.BOTH:
            return (
                f"{path} can't be merged line by line: it is binary, a link, or too large. Yours is in place, that of"
                f" {agent} is beside it: {beside}. Keep yours: {drop}."
                f" Take the other: {take}. Or write {path} anew from both, then {drop}."
            )
        case Clash.DELETED_HERE:
            return (
                f"{path}: you deleted it, {agent} changed it: {beside}. Leave it deleted: {drop}."
                f" Take what {agent} made of it: {take}."
            )
        case Clash.DELETED_THERE:
            return (
                f"{path}: you changed it, {agent} deleted it, as the note {beside} says. Keep yours: {drop}."
                f" Delete it: `rm -rf {path} {beside}`."
            )
        case Clash.RENAMED:
            return (
                f"{path}: you and {agent} gave one file two names. Yours is in place under your name, that of {agent}"
                f" is {beside}. Keep yours: {drop}. Take the other, too: {take}; then delete yours if one is enough."
            )
        case Clash.FILE_HERE | Clash.FILE_THERE:
            place = shell_word(place_of(conflict))
            whose = "yours" if conflict.how is Clash.FILE_HERE else f"that of {agent}"
            return (
                f"{place} is a folder on one side and a file on the other. The folder is in place, the file, {whose},"
                f" is {beside}. Keep the folder: {drop}, or move the file to another name. Keep the file:"
                f" `rm -rf {place} && mv -fT {beside} {place}`."
            )
        case _:
            return f"{path}: {agent} left it open; what is to be decided is {beside}. Decide, then {drop}."


def place_of(conflict: Conflict) -> str:
    """The name that a file and a folder both claim, where that is the conflict."""
    return re.sub(r"\.(?:theirs|parent|yours)(?:-\d+)?$", "", conflict.beside)


def shell_word(path: str) -> str:
    """A path as a shell takes it."""
    if not path.isprintable():
        plain = re.compile(rb"[A-Za-z0-9._/-]")
        escaped = (chr(byte) if plain.match(bytes([byte])) else f"\\x{byte:02x}" for byte in os.fsencode(path))
        return f"$'{''.join(escaped)}'"
    return shlex.quote(f"./{path}" if path.startswith("-") else path)
