"""A strict reader of Prometheus' text format: what is not exactly as the format has it is an error."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"'
_SAMPLE = re.compile(rf"({_NAME})(?:\{{({_LABEL}(?:,{_LABEL})*)\}})? ([-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?|NaN|[-+]Inf)")


@dataclass
class Family:
    """Samples of one name, with what is said of them."""

    help: str
    kind: str = ""
    samples: dict[tuple[tuple[str, str], ...], float] = field(default_factory=dict)


def parse(text: str) -> dict[str, Family]:
    """The families of a text; AssertionError where it is malformed."""
    assert text.endswith("\n")
    assert "\r" not in text
    found: dict[str, Family] = {}
    name = ""
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            name, _, words = line.removeprefix("# HELP ").partition(" ")
            assert re.fullmatch(_NAME, name), line
            assert name not in found, f"{name} comes twice"
            assert words, line
            found[name] = Family(words)
        elif line.startswith("# TYPE "):
            said, kind = line.removeprefix("# TYPE ").split(" ")
            assert (said, found[name].kind, found[name].samples) == (name, "", {}), line
            assert kind in ("counter", "gauge"), line
            assert (kind == "counter") == name.endswith("_total"), line
            found[name].kind = kind
        else:
            sample = _SAMPLE.fullmatch(line)
            assert sample is not None, line
            assert (sample[1], bool(found[name].kind)) == (name, True), line
            labels = tuple(re.findall(_LABEL, sample[2] or ""))
            assert len(dict(labels)) == len(labels), line
            assert labels not in found[name].samples, f"{line} comes twice"
            found[name].samples[labels] = float(sample[sample.re.groups])
            assert found[name].kind != "counter" or found[name].samples[labels] >= 0, line
    return found
