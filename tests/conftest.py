"""What all suites share: a budget of time for each, Hypothesis' profile, and the long tests kept apart.

A suite is a folder of `tests/`. Its budget, in seconds, stands in `[tool.parley.budgets]` of pyproject.toml.
The durations of all its tests are added up, set-up and tear-down included, whichever worker ran them; a
suite over its budget is named in red; one that took several times as long, or that has none, fails the session.
"""

import os
import signal
import sys
import tempfile
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import HealthCheck, settings

# Nothing of who runs the tests: neither their settings, nor what they have trusted, nor their homes, nor their login.
_OWN = tempfile.TemporaryDirectory(prefix="parley-own-")
for _name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "CLAUDE_CONFIG_DIR"):
    os.environ[_name] = f"{_OWN.name}/{_name.lower()}"

for _name in [name for name in os.environ if name.startswith("OTEL_")]:
    del os.environ[_name]  # nor their collector

# Programs that the tests start are compiled once for all, by the first that needs it, and leave nothing in the tree.
# The workers have this from the process that started them.
_COMPILED = tempfile.TemporaryDirectory(prefix="parley-pycache-", ignore_cleanup_errors=True)  # some may still start
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ.setdefault("PYTHONPYCACHEPREFIX", _COMPILED.name)

# As users have it: the shell finds the Parley that is tested.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

SOAK = os.environ.get("PARLEY_SOAK") == "1"
CI = os.environ.get("CI") == "true"

# A busy machine is slow, not wrong: time is the budgets' matter. In CI a run must not depend on luck.
settings.register_profile("local", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeatable", settings.get_profile("local"), derandomize=True, database=None)
settings.load_profile("repeatable" if CI else "local")


@pytest.fixture(autouse=True)
def _search_path() -> Iterator[None]:
    """A command that is run in this process leaves the folder that it works in out of where programs are looked for."""
    before = os.environ["PATH"]
    yield
    os.environ["PATH"] = before


# A machine that is busy with something else fails no session: on half of it some suites take three times as long, and
# xdist may wait ten seconds for each of its workers to go. A suite that takes this many times as long has grown.
FATAL = 10


class Budgets:
    """The time that each suite may take, and the time that it took."""

    def __init__(self, limits: Mapping[str, float]) -> None:
        self.limits = limits
        self.spent: defaultdict[str, float] = defaultdict(float)

    def over(self, times: float = 1) -> list[str]:
        """Say, a line for each suite, which ones took so many times their budget; long tests have none."""
        if SOAK:
            return []
        return [
            f"suite {suite} took {seconds:.1f} s, over its budget of {self.limits[suite]:g} s"
            if suite in self.limits
            else f"suite {suite} has no budget: give it one in [tool.parley.budgets] of pyproject.toml"
            for suite, seconds in sorted(self.spent.items())
            if seconds > times * self.limits.get(suite, -1)
        ]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the duration of one phase of one test; a worker's reports arrive here too."""
        self.spent[suite_of(report.nodeid)] += report.duration

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail a session that would have passed."""
        if self.over(FATAL) and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the table, then what is wrong with it."""
        if not self.spent:
            return
        terminalreporter.section("budgets")
        terminalreporter.write_line(f"{'suite':<12}{'seconds':>9}{'budget':>9}")
        for suite, seconds in sorted(self.spent.items()):
            terminalreporter.write_line(f"{suite:<12}{seconds:>9.1f}{self.limits.get(suite, '-'):>9}")
        for line in self.over():
            terminalreporter.write_line(f"BUDGET: {line}", red=True, bold=True)


def suite_of(nodeid: str) -> str:
    """Name the suite of a test: the first folder under tests/."""
    match PurePosixPath(nodeid.partition("::")[0]).parts:
        case ("tests", suite, _, *_):
            return suite
        case _:
            return "(none)"


def read_limits(root: Path) -> dict[str, float]:
    """Read the budgets from the project's own file."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    return {suite: float(seconds) for suite, seconds in project["tool"]["parley"]["budgets"].items()}


def pytest_configure(config: pytest.Config) -> None:
    """Judge the budgets where all reports come together: in the only process, or in xdist's controller."""
    # a shell's background job ignores Ctrl-C, and what nohup starts a terminal's end: programs under test inherit that
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Budgets(read_limits(config.rootpath)), "parley-budgets")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the long tests out unless they were asked for."""
    if SOAK:
        return
    long = [item for item in items if item.get_closest_marker("soak")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]
