"""What the tests of telemetry share: one job by the real program, and what a collector got of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.home import Home
from tests.telemetry.otlp_receiver import receiving
from tests.telemetry.traced_job import HEADER_KEY, PLAY, WORD, Traced, own_settings


@pytest.fixture(scope="session")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traced]:
    home = Home(tmp_path_factory.mktemp("traced"))
    with receiving() as to:
        own_settings(
            home,
            f'[telemetry]\nendpoint = "{to.address}/"\n[limits]\nparallel = 1\n[proxy]\nbrief = false\n',
        )
        home.environment |= {
            "OTEL_EXPORTER_OTLP_HEADERS": f"x-api-key={HEADER_KEY}",
            "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
            "OTEL_SERVICE_NAME": "my-parley",
        }
        home.write("p.yaml", PLAY)
        done = home.run("run", f"make {WORD}", "--playbook", "p.yaml", "--json")
        assert done.code == 0, done
        yield Traced(home, done.document["id"], to, to.spans())
