"""Which paths a pattern means, and whether two can mean the same one."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.workflow.paths.patterns import LONGEST, MalformedPattern, folders, matches, overlap, path_problem, problem
from tests.workflow.reference_globs import agrees, alternatives, paths, patterns

PATHS = paths()
FEWER = paths(4)
ROOMY = 3  # characters of a path that leave room for longer ones of the same pattern


@settings(max_examples=150)
@given(patterns.filter(lambda pattern: not problem(pattern)))
def test_a_pattern_matches_just_the_paths_that_trying_every_way_finds(pattern: str) -> None:
    assert [path for path in FEWER if matches(pattern, path)] == [path for path in FEWER if agrees(pattern, path)]


@settings(max_examples=300)
@given(patterns.filter(lambda it: not problem(it)), patterns.filter(lambda it: not problem(it)))
def test_two_patterns_overlap_just_if_some_path_matches_both(one: str, other: str) -> None:
    witness = overlap(one, other)

    if witness is None:
        assert [path for path in PATHS if agrees(one, path) and agrees(other, path)] == []
    else:
        assert path_problem(witness) == ""
        assert agrees(one, witness)
        assert agrees(other, witness)
    assert (overlap(other, one) is None) == (witness is None)


@settings(max_examples=60)
@given(patterns.filter(lambda pattern: not problem(pattern)))
def test_a_pattern_spells_out_just_the_folders_above_all_that_one_of_its_alternatives_means(pattern: str) -> None:
    found = set[str]()
    for one in alternatives(pattern):
        meant = [path for path in PATHS if agrees(one, path)]
        shared = set.intersection(*map(above, meant)) if meant else set(folders(one))
        assert set(folders(one)) <= shared
        if meant and min(map(len, meant)) <= ROOMY:
            assert set(folders(one)) == shared
        found |= set(folders(one))

    assert found == set(folders(pattern))


def above(path: str) -> set[str]:
    names = path.split("/")
    return {"/".join(names[:count]) for count in range(1, len(names))}


@pytest.mark.parametrize(
    "pattern, found",
    [
        ("web/notes/**", ["web", "web/notes"]),
        ("web/notes/", ["web", "web/notes"]),
        ("web/notes", ["web"]),
        ("web/*", ["web"]),
        ("web/*/x", ["web"]),
        ("**/x", []),
        ("{a,b/c}/x", ["a", "b", "b/c"]),
        ("[.x]/y?", ["x"]),
        ("README.md", []),
    ],
)
def test_the_folders_that_a_pattern_spells_out(pattern: str, found: list[str]) -> None:
    assert folders(pattern) == found


@given(patterns.filter(lambda it: not problem(it)))
def test_a_pattern_overlaps_itself(pattern: str) -> None:
    witness = overlap(pattern, pattern)

    assert witness is not None
    assert matches(pattern, witness)


@given(st.text(max_size=30), st.text(max_size=30))
def test_any_text_is_a_pattern_or_is_told_why_not(one: str, other: str) -> None:
    assert matches("**", one) == (not path_problem(one))
    if problem(one):
        with pytest.raises(MalformedPattern, match=r"."):
            overlap(one, "**")
    else:
        witness = overlap(one, "**")
        assert witness is not None
        assert matches(one, witness)
        assert problem(other) or (overlap(one, other) is None or matches(other, overlap(one, other) or ""))


@pytest.mark.parametrize(
    "one, other",
    [
        ("src/**/test_*.py", "src/api/*"),
        ("src/**/test_*.py", "src/test_api.py"),
        ("a*b", "ab*"),
        ("[a-c]x", "[!d-z]x"),
        ("*a*b*", "*b*a*"),
        ("db", "db/schema.sql"),
        ("db", "db/**"),
        ("db/", "db/*"),
        ("src/api", "src/*/models.py"),
        ("**/x", "x"),
        ("**/*.py", "src/api"),
        ("*", ".env"),
        ("src/?*", "src/.hidden"),
        ("{src,lib}/*.py", "{lib,web}/x.*"),
        ("[]-]x", "?x"),
        ("caf?", "café"),
        ("[!a-z]", "[!A-Z]"),
        ("[\U0001f600-\U0001f64f]", "?"),
        ("**/[!a]/**", "**/a/**"),
        ("a/**/b/**/c", "a/**/c/**/c"),
        ("web/**/{index,main}.{js,ts}", "web/*/m[!b]in.t?"),
    ],
)
def test_patterns_that_look_disjoint_and_are_not(one: str, other: str) -> None:
    witness = overlap(one, other)

    assert witness is not None
    assert matches(one, witness)
    assert matches(other, witness)


@pytest.mark.parametrize(
    "one, other",
    [
        ("db/**", "web/**"),
        ("src/*", "src/api/*"),
        ("src/*", "src/api/**"),
        ("**/*.py", "**/*.ts"),
        ("**/*.py", "README.md"),
        ("**/*.py", "Makefile"),
        ("README.md", "readme.md"),
        ("a/**/b?", "a/**/c/**/d?"),
        ("?", "??"),
        ("[a-c]", "[d-f]"),
        ("[!a]", "a"),
        ("*.tar.gz", "*.tar.bz2"),
        ("db", "db2/**"),
        ("a*b", "a*c"),
        ("?", ".[!a]"),
        ("é", "e?"),
    ],
)
def test_patterns_that_look_alike_and_are_disjoint(one: str, other: str) -> None:
    assert overlap(one, other) is None
    assert overlap(other, one) is None


@pytest.mark.parametrize(
    "pattern, yes, no",
    [
        ("db", ["db", "db/a", "db/a/b"], ["db2", "x/db", "DB"]),
        ("db/", ["db/a", "db/a/b"], ["db"]),
        ("a.d", ["a.d"], ["a.d/b", "a"]),
        ("a.d/", ["a.d/b"], ["a.d"]),
        (".github", [".github", ".github/a"], ["github"]),
        ("tools/Makefile", ["tools/Makefile"], ["tools/Makefile/x"]),
        ("db/**", ["db/a", "db/.a/b"], ["db", "dba"]),
        ("src/*", ["src/a", "src/.a"], ["src", "src/a/b"]),
        ("src/*.py", ["src/a.py", "src/.py"], ["src/a.py/b", "src/a/b.py"]),
        ("**/api", ["api", "a/api", "a/b/api/c"], ["apis", "a/apis"]),
        ("**", ["a", "a/b"], []),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b/z"], ["b", "a"]),
        ("[]a]", ["]", "a"], ["b"]),
        ("[!]a]", ["b"], ["]", "a"]),
        ("[a-]", ["a", "-"], ["b"]),
        ("x[*]", ["x*"], ["xa"]),
        ("{a,b/c}", ["a", "b/c", "a/x"], ["b", "c"]),
        ("a,b", ["a,b"], ["a", "b"]),
        ("test{,s}/x", ["test/x", "tests/x"], ["testss/x"]),
        ("?", ["a", "é", "\udcff", "\n"], ["e\u0301", "aa"]),
    ],
)
def test_what_a_pattern_means(pattern: str, yes: list[str], no: list[str]) -> None:
    assert [path for path in yes if not matches(pattern, path)] == []
    assert [path for path in no if matches(pattern, path)] == []


@pytest.mark.parametrize("path", ["", "/a", "a/", "a//b", "./a", "a/./b", "../a", "a/..", "a\0b"])
def test_what_is_no_path_matches_nothing(path: str) -> None:
    assert path_problem(path)
    assert not matches("**", path)


@pytest.mark.parametrize(
    "pattern, why",
    [
        ("", "write a path or a pattern"),
        (" a", "without blanks"),
        ("/etc", "from the root of the tree"),
        ("//", "from the root of the tree"),
        ("a//b", "empty name"),
        ("./x", "no . and .."),
        ("a/../b", "no . and .."),
        ("{.,a}/b", "no . and .."),
        ("{,a}/b", "empty name"),
        ("[.]", "no . and .."),
        ("a/[.]?/{.,..}", "no . and .."),
        ("!a", "not negated"),
        ("a**", "whole names"),
        ("**.py", "whole names"),
        ("a***b", "whole names"),
        ("a[b", "bracket is not closed"),
        ("[]", "bracket is not closed"),
        ("[z-a]", "empty"),
        ("[^a]", "[!a-z]"),
        ("[[:alpha:]]", "[!a-z]"),
        ("[a/b]", "can't hold a /"),
        ("a{b", "brace is not closed"),
        ("a}b", "two alternatives"),
        ("{a}", "two alternatives"),
        ("{a,{b,c}}", "braces within braces"),
        ("a\\b", "separated by /"),
        ("a\nb", "can't be seen"),
        ("a\u200bb", "can't be seen"),
        ("cafe\u0301", "NFC"),
        ("[!\x20-\x7e]\udcff", "can't be seen"),
        ("a" * (LONGEST + 1), "split it"),
        ("{a,b}" * 50, "too much"),
    ],
)
def test_what_is_no_pattern_is_told_with_what_to_write_instead(pattern: str, why: str) -> None:
    assert why in problem(pattern)
    with pytest.raises(MalformedPattern):
        matches(pattern, "a")


@pytest.mark.parametrize(
    "one, other",
    [
        ("*a" * 127, "*b" * 127),
        ("*[ab]" * 50 + "c", "*[bc]" * 50 + "d"),
        ("/".join(["**", "*a*"] * 36), "/".join(["**", "*b*"] * 36)),
        ("{*a,*b,*c,*d,*e}" * 3, "{*b,*c,*d,*e,*f}" * 3),
        ("/".join(["**/a"] * 50) + "/?", "/".join(["**/b"] * 50) + "/??"),
    ],
)
def test_long_patterns_are_decided_without_trying_every_way(one: str, other: str) -> None:
    """Trying every way would not end in the lifetime of this test."""
    witness = overlap(one, other)

    assert witness is None or (matches(one, witness) and matches(other, witness))


def test_a_long_path_is_matched_without_trying_every_way() -> None:
    assert matches("*a" * 127, "a" * 3000)
    assert not matches("*a" * 126 + "*b", "a" * 3000)
    assert not matches("**/a/" * 50 + "b?", "/".join("a" * 2000))
