"""Names that git, a Mac or Windows takes for something else: git itself is asked about each that is kept."""

import os
import subprocess
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.base import unportable
from parley.workspaces.files import odd_names, scan
from parley.workspaces.safe_git import SETTINGS

# The code points that git's utf8.c leaves out of a name on HFS+.
HFS = [0x200C, 0x200D, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF]
EMPTY = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
GITS = (
    ".git", ".GIT", ".Git", "git~1", "GIT~1", "git~2", ".git ", ".git.", ".git. .", ".git::$INDEX_ALLOCATION", ".git:x",
    ".git\\config", "a\\.git\\config", "\uff0egit", ".\uff47it", ".\u24d6it", ".g\u0131t".replace("\u0131", "i"),
    "GIT~1::$DATA", ".git\u200b", ".g\u00adit", ".git\ufe0f", ".g\u3164it", ".\u17b4git",
    ".git\U000e0041", ".\U000e01efgit", "C:.git\\config", ".git\uff3cconfig",
)  # fmt: skip
OTHERS = (
    ".gitmodules", ".GITMODULES", "gitmod~1", "GITMOD~4", "gi7eba~1", "GI7EBA~9", ".gitmodules ", ".gitmod\u200cules",
    ".gitmodules::$DATA", "sub/.gitmodules", "PARLEY.TOML", "parley.toml ", "parley~1.tom", "p\u200carley.toml",
    ".CLAUDE/settings.json", ".claude./settings.json", ".\uff43laude/x", ".Parley/outcome.json", ".MCP.json",
    ".GITATTRIBUTES", "a/.gitAttributes", "gitatt~1", "GI7D29~2", "gi7d2~10", "gi7eb~99", "gi~12345",
    ".git\u200cignore", ".gitignore.", "gitign~1", ".MAILMAP", "maba30~1", "sub/.gitattributes::$DATA",
    "c:parley.toml", "parley\ufe0f.toml", ".c\u3164laude/settings.json", ".git\u115fmodules",
)  # fmt: skip
FINE = (".github/workflows/ci.yml", ".gitignore", ".gitkeep", ".gitattributes", "git", "gitx", "a.git", "x~1",
        "a/.gitignore", ".mailmap", "gi~1", "report~12", "gitatt~123456",
        "CON.txt", "docs/.claude/x", "sub/parley.toml", "parley.toml", "r\u00e9sum\u00e9.txt")  # fmt: skip


@pytest.mark.parametrize("name", [*GITS, *OTHERS], ids=ascii)
def test_a_name_that_is_another_elsewhere_is_not_kept(name: str) -> None:
    with pytest.raises(scan.CannotKeep):
        scan.refuse_name(name)


@pytest.mark.parametrize("code", HFS, ids=hex)
@pytest.mark.parametrize("at", range(5))
def test_a_code_point_that_hfs_ignores_hides_no_git(code: int, at: int) -> None:
    name = ".git"[:at] + chr(code) + ".git"[at:]
    with pytest.raises(scan.CannotKeep, match="git's own on another filesystem"):
        scan.refuse_name(f"sub/{name}/hooks/post-checkout")
    assert scan.leads_outside("link", f"{name}/config")


@pytest.mark.parametrize("name", FINE, ids=ascii)
def test_an_ordinary_name_is_kept(name: str) -> None:
    scan.refuse_name(name)


def test_what_was_in_the_users_repository_stays_but_for_gits_own() -> None:
    scan.refuse_name(".gitmodules", users_own=True)
    scan.refuse_name("PARLEY.TOML", users_own=True)
    with pytest.raises(scan.CannotKeep):
        scan.refuse_name(".GIT/config", users_own=True)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("oracle")
    subprocess.run(["git", "init", "-q", "--bare", str(folder)], check=True)
    subprocess.run(["git", f"--git-dir={folder}", "hash-object", "-w", "--stdin"], input=b"", check=True)
    return folder


def _git_takes(repository: Path, path: str) -> bool:
    """Whether git puts a path into an index where it protects all filesystems."""
    index = repository / "index"
    index.unlink(missing_ok=True)
    words = ["git", "-c", "core.protectHFS=true", "-c", "core.protectNTFS=true", f"--git-dir={repository}"]
    line = b"100644 " + EMPTY.encode() + b"\t" + os.fsencode(path) + b"\0"
    done = subprocess.run(
        [*words, "update-index", "-z", "--add", "--index-info"], input=line, check=False, capture_output=True,
        env={**os.environ, "GIT_INDEX_FILE": str(index)},
    )  # fmt: skip
    return done.returncode == 0 and b"Ignoring path" not in done.stderr


PIECES = st.sampled_from(
    [".", "g", "G", "i", "I", "t", "T", "git", ".git", "~1", "~", "1", ":", " ", "\\", "mod", "ules", "7eba", "x",
     "\uff0e", *map(chr, HFS)]
)  # fmt: skip
NAMES = st.lists(PIECES, min_size=1, max_size=7).map("".join).filter(lambda name: name not in (".", ".."))


@settings(max_examples=150, deadline=None)
@given(names=st.lists(NAMES, min_size=1, max_size=3))
def test_git_takes_every_name_that_is_kept(repository: Path, names: list[str]) -> None:
    path = "/".join(names)
    if not odd_names.refusal(path):
        assert _git_takes(repository, path)


def test_git_itself_refuses_what_it_is_asked_for_here(repository: Path) -> None:
    assert not _git_takes(repository, ".g\u200cit/config")
    assert not _git_takes(repository, "git~1/config")
    assert _git_takes(repository, "plain")
    assert SETTINGS["core.protectHFS"] == SETTINGS["core.protectNTFS"] == "true"


@pytest.mark.parametrize("target", ["..\\..\\x", "C:\\x", "c:x", "a\\..\\..\\..\\x", "\\\\host\\share", "a\\.git\\x"])
def test_a_link_leads_out_where_windows_reads_it_so(target: str) -> None:
    assert scan.leads_outside("link", target)
    assert not scan.leads_outside("link", "a/b\\c")


# ---- names that are delivered, and told ---------------------------------------------------------------------

WINDOWS = (
    "CON", "con.txt", "nul", "a/COM1.tar.gz", "lpt9", "aux .c", "Conin$", "com\u00b2.x", "prn:x", "a.", "a ", "b./c",
    "a:b", "a\\b", "what?", "a|b", "a\x01", 'a"b', "\udcff", "x" * 256,
)  # fmt: skip


@pytest.mark.parametrize("name", WINDOWS, ids=ascii)
def test_a_name_that_windows_can_not_hold_is_kept_and_told(name: str) -> None:
    scan.refuse_name(name)

    assert list(unportable.unportable([name], [name])) == [name]


@pytest.mark.parametrize(
    "name", ["console", "com", "com10", "lpt", "nulls.txt", "a.con", "auxiliary", "r\u00e9sum\u00e9"]
)
def test_a_name_that_only_looks_like_a_device_is_not_told(name: str) -> None:
    assert unportable.unportable([name], [name, "b/c"]) == {}


LETTERS = st.sampled_from(["a", "A", "\u00e9", "e\u0301", "\u00c9", "ss", "\u00df", "k", "\u212a", "/"])
PATHS = st.lists(LETTERS, min_size=1, max_size=5).map("".join).filter(lambda path: all(path.split("/")))


@given(st.sets(PATHS, max_size=6), st.sets(PATHS, max_size=6))
def test_two_names_that_another_system_takes_for_one_are_told(new: set[str], old: set[str]) -> None:
    """Told is what has a namesake; and whatever is not told can be written beside all the rest on such a system."""
    told = unportable.unportable(sorted(new), sorted(new | old))

    def levels(path: str) -> list[str]:
        parts = path.split("/")
        return ["/".join(parts[: number + 1]) for number in range(len(parts))]

    for path in new:
        namesakes = {
            other
            for each in new | old
            for other in levels(each)
            for level in levels(path)
            if other != level and unportable.folded(other) == unportable.folded(level)
        }
        assert (path in told) == bool(namesakes)
    assert "\n" not in unportable.words(told)


def test_what_may_be_overwritten_elsewhere_is_named_first() -> None:
    new = [*(f"CON.{number}" for number in range(50)), "readme.md"]

    line = unportable.words(unportable.unportable(new, [*new, "README.md"]))
    assert line.startswith(
        "names that trouble other systems: readme.md (a Mac and Windows take it for README.md), CON.0"
    )


@given(st.dictionaries(st.text(max_size=300), st.just(unportable.NameTrouble("a device on Windows")), max_size=9))
def test_the_line_about_them_is_one_and_short(found: dict[str, unportable.NameTrouble]) -> None:
    line = unportable.words(found)

    assert len(line.splitlines()) == bool(found)
    assert len(line) < 600
    assert line.isprintable()


@given(st.text(max_size=30))
def test_folding_is_the_same_for_each_form_of_a_name(name: str) -> None:
    assert odd_names.folded(odd_names.folded(name)) == odd_names.folded(
        odd_names.folded(unicodedata.normalize("NFD", name))
    )
