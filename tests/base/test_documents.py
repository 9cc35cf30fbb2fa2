"""One reader for YAML, TOML and JSON: what was written comes back, each value with its place, or there is one error."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import tomlkit
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from parley.base.documents.front_matter import split
from parley.base.documents.json_text import read_json
from parley.base.documents.node import (
    JSON,
    MAX_DEPTH,
    DocumentError,
    Entries,
    Items,
    Node,
    Place,
    Scalar,
    Source,
    node_of,
    plain,
)
from parley.base.documents.reader import Collector, Reader
from parley.base.documents.toml_text import read_toml
from parley.base.documents.yaml_text import read_yaml

READERS: dict[str, Callable[[str, str], Node]] = {"JSON": read_json, "TOML": read_toml, "YAML": read_yaml}
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
WORDS = st.sampled_from(["yes", "null", "~", "1e-05", "0x1f", "2024-01-01", "<<", "=", "- a", "a: b", "#", '"', "'''"])
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | NUMBERS | TEXTS | WORDS


def trees(scalars: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS | WORDS, inner, max_size=3),
        max_leaves=10,
    )


def nodes_of(node: Node) -> Iterator[Node]:
    yield node
    if isinstance(node, Items):
        for item in node.nodes:
            yield from nodes_of(item)
    elif isinstance(node, Entries):
        for key, value in node.pairs:
            yield key
            yield from nodes_of(value)


def at(text: str, place: Place) -> int:
    """The index of a place, counted without the reader's help."""
    lines = text.split("\n")
    return sum(len(line) + 1 for line in lines[: place.line - 1]) + place.column - 1


# ---- JSON ------------------------------------------------------------------------------------------------------------


@given(trees(SCALARS), st.booleans(), st.sampled_from([None, 0, 2]))
def test_json_comes_back_and_every_place_is_where_its_value_is_written(value: Any, ascii_: bool, indent: Any) -> None:
    text = json.dumps(value, ensure_ascii=ascii_, indent=indent)
    node = read_json(text, "f")

    assert plain(node) == Reader().value(node) == value
    for each in nodes_of(node):
        assert json.JSONDecoder().raw_decode(text, at(text, each.place))[0] == plain(each)


# ---- YAML ------------------------------------------------------------------------------------------------------------


@given(trees(SCALARS), st.sampled_from([None, True, False]), st.booleans())
def test_yaml_comes_back_and_every_place_is_where_its_value_is_written(value: Any, flow: Any, unicode_: bool) -> None:
    text = yaml.safe_dump(value, allow_unicode=unicode_, default_flow_style=flow)
    node = read_yaml(text, "f")

    assert Reader().value(node) == yaml.safe_load(text)
    assert unicode_ or Reader().value(node) == value  # PyYAML's writer loses some characters that it does not escape
    for each in nodes_of(node):
        index = at(text, each.place)
        if isinstance(each, Scalar) and each.written:
            begin = text[index : index + 1]
            assert begin in ("'", '"', "|", ">", "!") or text[index:].startswith(each.written.split()[0]), text
        elif not isinstance(each, Scalar) and flow:
            assert text[index] in "[{&"


@given(trees(SCALARS))
def test_an_alias_is_the_value_once_more(value: Any) -> None:
    text = yaml.safe_dump([value, value])  # what occurs twice is written as an alias

    assert Reader().value(read_yaml(text, "f")) == [value, value]
    if "&id" in text:
        with pytest.raises(DocumentError, match=r"^f:\d+:\d+: an alias \(\*\) repeats this; write every value out$"):
            read_yaml(text, "f", aliases=False)


# ---- TOML ------------------------------------------------------------------------------------------------------------

TOML_SCALARS = st.booleans() | NUMBERS | TEXTS | WORDS
TOML_VALUES = trees(TOML_SCALARS)
TOML_TABLES = st.dictionaries(TEXTS | st.sampled_from(["a", "b-c", "1"]), TOML_VALUES, max_size=4)


class TomlWriter:
    """Writes a table in whatever style is drawn, and notes where each key and each value begins."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.text = ""
        self.places: dict[tuple[Any, ...], tuple[int, int]] = {}

    def put(self, text: str) -> None:
        self.text += text

    def gap(self) -> None:
        self.put(self.draw(st.sampled_from(["", " ", "\t "])))

    def end(self) -> None:
        self.put(self.draw(st.sampled_from(["\n", "\r\n", " # [x] = 'y\n", "\n\n# a.b = 1\n"])))

    def string(self, text: str) -> None:
        plain_ = text.isprintable() and "'" not in text
        self.put(
            f"'{text}'"
            if plain_ and self.draw(st.booleans())
            else json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
        )

    def key(self, name: str) -> int:
        index = len(self.text)
        if re.fullmatch(r"[A-Za-z0-9_-]+", name) and self.draw(st.booleans()):
            self.put(name)
        else:
            self.string(name)
        return index

    def value(self, value: Any, path: tuple[Any, ...]) -> int:
        index = len(self.text)
        if isinstance(value, dict):
            self.put("{")
            for number, (name, item) in enumerate(value.items()):
                self.put(", " if number else "")
                self.pair(name, item, (*path, name))
            self.put("}")
        elif isinstance(value, list):
            self.put("[")
            for number, item in enumerate(value):
                self.put(self.draw(st.sampled_from(["", " ", "\n ", " # [,\n"])))
                found = self.value(item, (*path, number))
                self.places[*path, number] = (found, found)
                self.put(",")
            self.put("]")
        elif isinstance(value, str):
            self.string(value)
        else:
            self.put(str(value).lower() if isinstance(value, bool) else json.dumps(value))
        return index

    def pair(self, name: str, value: Any, path: tuple[Any, ...]) -> None:
        key = self.key(name)
        while isinstance(value, dict) and len(value) == 1 and self.draw(st.booleans()):  # a.b = 1
            self.places[path] = (key, key)
            [(name, value)] = value.items()
            path = (*path, name)
            self.gap()
            self.put(".")
            self.gap()
            key = self.key(name)
        self.gap()
        self.put("=")
        self.gap()
        self.places[path] = (key, self.value(value, path))

    def table(self, table: dict[str, Any], path: tuple[Any, ...], header: list[str]) -> None:
        """The pairs of a table, then the tables and the lists of tables in it under headers."""
        later = {}
        for name, value in table.items():
            tables = isinstance(value, list) and value and all(isinstance(item, dict) for item in value)
            if (tables or isinstance(value, dict)) and self.draw(st.booleans()):
                later[name] = value
            else:
                self.pair(name, value, (*path, name))
                self.end()
        for name, value in later.items():
            for number, item in enumerate(value if isinstance(value, list) else [value]):
                listed = isinstance(value, list)
                self.put("[[" if listed else "[")
                for part in header:
                    self.key(part)
                    self.put(".")
                index = self.key(name)
                self.put("]]" if listed else "]")
                self.end()
                self.places.setdefault((*path, name), (index, index))
                inner = (*path, name, number) if listed else (*path, name)
                self.places[inner] = (index, index) if listed else self.places[inner]
                self.table(item, inner, [*header, name])


@st.composite
def written_toml(draw: st.DrawFn) -> tuple[dict[str, Any], TomlWriter]:
    table = draw(TOML_TABLES)
    writer = TomlWriter(draw)
    writer.table(table, (), [])
    return table, writer


def pathed(node: Node, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Node | None, Node]]:
    """Every node below this one with its path, and its key if it has one."""
    if isinstance(node, Items):
        for number, item in enumerate(node.nodes):
            yield (*path, number), None, item
            yield from pathed(item, (*path, number))
    elif isinstance(node, Entries):
        for key, value in node.pairs:
            yield (*path, key.value), key, value
            yield from pathed(value, (*path, key.value))


@given(written_toml())
def test_toml_comes_back_and_every_place_is_where_its_value_is_written(
    written: tuple[dict[str, Any], TomlWriter],
) -> None:
    table, writer = written
    node = read_toml(writer.text, "f")

    assert plain(node) == table == tomllib.loads(writer.text)
    for path, key, value in pathed(node):
        key_at, value_at = writer.places[path]
        assert at(writer.text, value.place) == value_at, (writer.text, path)
        assert key is None or at(writer.text, key.place) == key_at, (writer.text, path)


@given(TOML_TABLES)
def test_what_another_writer_makes_of_a_table_is_read_the_same(table: dict[str, Any]) -> None:
    text = tomlkit.dumps(table)
    assert plain(read_toml(text, "f")) == tomllib.loads(text)


# ---- what is refused -------------------------------------------------------------------------------------------------

ANY = st.text(st.characters() | st.characters(categories=["Cs", "Cc", "Cf"]), max_size=40)
MARKS = st.text("[]{}:=,.\"'\\\n-&*!|>%#?<~0123eE+_ axtrufnlseiy\t", max_size=40)


@pytest.mark.parametrize("form", READERS)
@given(text=ANY | MARKS)
@example(text="a = " + "[" * 5000)
@example(text="[" * 5000)
@example(text="{" * 5000)
@example(text='{"a":' * 5000)
@example(text="a" + ".a" * 5000 + " = 1")
@example(text="a = " + "9" * 5000)
@example(text="9" * 5000)
@example(text="a: " + "9" * 5000)
@example(text="a = 0x" + "f" * 5000)
@example(text="a: 0x" + "f" * 5000)
@example(text="a = 9999-99-99")
@example(text='"\\UFFFFFFFF"')
@example(text="&a [*a]")
@example(text="%YAML 99999999999999999999.1\n---\n")
def test_any_text_is_a_tree_or_one_error_with_a_place(form: str, text: str) -> None:
    error = refused(form, text)

    assert error is None or re.fullmatch(r"f:[1-9]\d*:[1-9]\d*: .+; .+", str(error)), str(error)
    assert error is None or at(text.removeprefix("\ufeff"), error.place) <= len(text)


def refused(form: str, text: str) -> DocumentError | None:
    try:
        Reader().value(READERS[form](text, "f"))
    except DocumentError as error:
        return error
    return None


@pytest.mark.parametrize(
    "form, text, said",
    [
        ("JSON", '{"a": 1, "a": 2}', '1:10: the key "a" is given twice in one object; leave one of them out'),
        ("JSON", '{\n "a": NaN}', "2:7: NaN is not a number of JSON; write a finite number"),
        ("JSON", "[1e999]", "1:2: 1e999 is too large a number; write a smaller one"),
        ("JSON", "[9223372036854775808]", "1:2: 9223372036854775808 is too large a number; write a smaller one"),
        ("JSON", '["\\ud800"]', "1:2: it has half of a surrogate pair; write the character itself"),
        ("JSON", '["\\u0000"]', "1:2: it has a NUL character; write the character itself"),
        ("JSON", "[1 2]", "1:4: this is not JSON (a comma or ] must stand here); correct it here"),
        ("JSON", "{a: 1}", "1:2: this is not JSON (a key in double quotes must stand here); correct it here"),
        ("JSON", '{"a" 1}', "1:6: this is not JSON (a colon must stand here); correct it here"),
        ("JSON", "1 2", "1:3: this is not JSON (something stands behind the value); remove it"),
        ("JSON", "", "1:1: this is not JSON (Expecting value); correct it here"),
        ("JSON", "[" * 60, f"1:51: nested deeper than {MAX_DEPTH} levels; make it flatter"),
        ("TOML", "a = 1\na = 2", "2:6: this is not valid TOML (Cannot overwrite a value); correct it here"),
        ("TOML", "a =", "1:4: this is not valid TOML (Invalid value); correct it here"),
        ("TOML", "x = 1\na = '", "2:6: this is not valid TOML"),
        ("TOML", "[x]\na = 9223372036854775808", "2:5: this is too large a number; write a smaller one"),
        ("TOML", 'a = "\\u0000"', "1:5: it has a NUL character; write the character itself"),
        ("TOML", "a = " + "[" * 60, f"1:55: nested deeper than {MAX_DEPTH} levels; make it flatter"),
        ("YAML", "a: !x b", "1:4: the tag '!x' is not known here; leave it out"),
        ("YAML", "a: !!python/name:os.system b", "1:4: the tag '!!python/name:os.system' is not known here"),
        ("YAML", "a: 1\n\tb: 2", "2:1: a tab stands where YAML allows only spaces; indent with spaces"),
        ("YAML", 'a: "\\ud800"', "1:4: this has half of a surrogate pair; write the character itself"),
        ("YAML", "[a]: b", "1:1: a key must be a text; put it in quotes"),
    ],
)
def test_what_can_not_be_read_is_told_with_its_place(form: str, text: str, said: str) -> None:
    with pytest.raises(DocumentError) as error:
        READERS[form](text, "f")
    assert str(error.value).startswith(f"f:{said}")


@pytest.mark.parametrize(
    "form, text", [("JSON", "[" + "1," * 20 + "1]"), ("YAML", "- a\n" * 20), ("TOML", "a=[" + "1," * 20 + "]")]
)
def test_no_more_values_are_read_than_are_wanted(form: str, text: str) -> None:
    with pytest.raises(DocumentError, match=r"f:\d+:\d+: this has more than 10 values; make it smaller"):
        READERS[form](text, "f", most=10)  # type: ignore[call-arg] # all three take it


def test_what_is_merged_or_given_twice_in_yaml_is_refused_by_its_reader() -> None:
    for text, said in (
        ("{a: 1, a: 2}", "1:8: the key 'a' is given twice in x"),
        ("{<<: {a: 1}}", "1:2: '<<' does not"),
    ):
        with pytest.raises(DocumentError, match=said):
            Reader().fields(read_yaml(text, "f"), "x")


@pytest.mark.parametrize("value", [math.inf, math.nan, 2**63, pytest.param(16**5000, id="huge")])
def test_numbers_that_json_can_not_hold_are_no_values(value: float) -> None:
    with pytest.raises(DocumentError, match=r"f:1:1: .* number; "):
        Reader().value(node_of(value, "f"))


def test_a_number_as_json_writes_it_is_one_where_a_number_is_wanted() -> None:
    node = read_yaml("[1e-05, '1e-05']", "f")
    assert isinstance(node, Items)

    assert Reader().value(node) == ["1e-05", "1e-05"]
    assert Reader().number(node.nodes[0], "x", 0, 1) == 1e-05
    with pytest.raises(DocumentError, match="f:1:9: x must be a number; write one from 0 to 1, without quotes"):
        Reader().number(node.nodes[1], "x", 0, 1)


def test_a_date_of_toml_is_no_value_of_json() -> None:
    with pytest.raises(DocumentError, match=r"f:1:5: this is a date or a time; put it in quotes"):
        Reader().value(read_toml("a = 2024-01-01", "f"))


@given(ANY, st.integers(0, 60))
def test_a_place_is_a_line_and_a_column_that_lead_back_to_the_index(text: str, index: int) -> None:
    index = min(index, len(text))
    assert at(text, Source("f", text, JSON).place(index)) == index


@given(ANY.map(lambda text: text.replace("---", "")), ANY)
def test_front_matter_and_prose_are_the_whole_file(matter: str, prose: str) -> None:
    text = f"---\n{matter}\n---\n{prose}"
    parts = split(text, "f")

    assert (parts.text[parts.start : parts.end], parts.prose) == (matter, prose)


WRONG = "{name: [1], kind: gren, size: 1.5, on: maybe, more: {}, extra: 1}"


def read_all(reader: Reader) -> tuple[str, str, int, bool, tuple[Node, ...]]:
    fields = reader.fields(read_yaml(WRONG, "f"), "a thing", ("name", "kind", "size", "on", "more"))
    return (
        reader.text(fields["name"], "'name'"),
        reader.choice(fields["kind"], "kind", ("red", "green")),
        reader.integer(fields["size"], "'size'", 1, 9),
        reader.flag(fields["on"], "'on'"),
        reader.items(fields["more"], "'more'"),
    )


def test_the_first_error_is_raised_or_all_are_collected_by_the_same_accessors() -> None:
    with pytest.raises(DocumentError) as first:
        read_all(Reader())
    collector = Collector()

    assert read_all(collector) == ("", "", 1, False, ())
    assert str(first.value) == str(collector.errors[0])
    assert [str(error) for error in collector.errors] == [
        "f:1:57: unknown key 'extra' in a thing; use one of: name, kind, size, on, more",
        "f:1:8: 'name' must be a text; put it in quotes",
        "f:1:19: unknown kind 'gren'; did you mean 'green'?",
        "f:1:31: 'size' must be a whole number; write one from 1 to 9",
        "f:1:40: 'on' must be true or false; write one of them without quotes",
        "f:1:53: 'more' must be a list; write '- …' lines, or [] for none",
    ]
