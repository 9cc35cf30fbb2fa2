"""The modules that run inside a cage, compiled once and sent in: an agent could have changed a file."""

from __future__ import annotations

import functools
import marshal
from pathlib import Path

PACKAGE = "parley.sandbox.inside"

# Reads the modules and the words from a descriptor, makes the modules, and calls the main of the last one.
BOOT = f"""
import marshal, sys
place = int(sys.argv[1])
modules, words = marshal.load(open(place, "rb", closefd=False))
package = sys.modules["{PACKAGE}"] = type(sys)("{PACKAGE}")
for name, code in modules:
    module = sys.modules["{PACKAGE}." + name] = type(sys)(name)
    setattr(package, name, module)
    exec(code, module.__dict__)
sys.exit(module.main(place, words))
"""


@functools.cache
def _compiled(name: str) -> object:
    path = Path(__file__).with_name("inside") / f"{name}.py"
    return compile(path.read_bytes(), path.name, "exec", dont_inherit=True, optimize=2)


def pack(names: tuple[str, ...], words: dict[str, object]) -> bytes:
    """The modules, and the words for the last one's main, as BOOT reads them."""
    return marshal.dumps(([(name, _compiled(name)) for name in names], words))
