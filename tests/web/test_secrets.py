"""Secrets on the page: in no view, also one that became a secret after the server had started and shown it."""

from __future__ import annotations

import gzip
import html
import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import yaml

from tests.cli.home import Home, wait_for
from tests.web.crawling import crawl
from tests.web.page_harness import Server, question_of, serve, start_job
from tests.web.raw_http import Client, key_of, own_home, owner

SECRET = "quartz-lantern-7731-vellum"
NAMES = (f"{SECRET}.txt", f"{SECRET.encode().hex()}.txt")  # without the secret they are called the same


def playbook() -> str:
    """A job whose agents repeat the secret wherever they can say, write, name or run something."""
    said = f"look at {SECRET} here"
    return yaml.safe_dump(
        {
            "human": [
                {"match": "INTENT.md", "verdict": "approve", "text": said},
                {"match": "PLAN.md", "verdict": "approve", "text": said},
            ],
            "agents": {
                "intent-lead": [
                    {"match": r"\[INTENT\]", "do": [
                        {"write": {"path": "INTENT.md", "text": said}},
                        {"assert": {"artifact": "INTENT.md", "text": f"INTENT.md {said}"}}]},
                    {"match": r"\[ANSWER approve\]", "do": [
                        {"outcome": {"outcome": "APPROVED_INTENT", "reason": said}}]},
                ],
                "project-lead": [
                    {"match": r"\[PLAN\]", "do": [
                        {"write": {"path": "PLAN.md", "text": said}},
                        {"assert": {"artifact": "PLAN.md", "text": f"PLAN.md {said}"}}]},
                    {"match": r"\[ANSWER approve\]", "state": "PLAN", "do": [
                        {"outcome": {"outcome": "APPROVED_PLAN", "reason": said}}]},
                    {"match": r"\[EXECUTE\]", "do": [
                        {"say": said}, {"send": {"to": "coder", "as": "c1", "text": said}}]},
                    {"match": "written", "do": [
                        {"close": {"thread": "c1"}},
                        {"write": {"path": "WORK_SUMMARY.md", "text": f"# Summary\n\n## Assumptions\n\n- {said}\n"}},
                        {"assert": {"artifact": "WORK_SUMMARY.md", "text": said}}]},
                ],
                "coder": [
                    {"match": ".", "do": [
                        {"shell": f"echo {SECRET}"}, {"say": said},
                        *({"write": {"path": name, "text": f"file {number}\n"}} for number, name in enumerate(NAMES)),
                        {"say": f"written {said}"}]},
                ],
            },
        }
    )  # fmt: skip


@dataclass
class Stage:
    """A server with a job that waits for the verdict on its work."""

    home: Home
    server: Server
    user: Client
    job: str
    question: str


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Nothing is secret yet."""
    home = own_home(tmp_path_factory.mktemp("secrets"))
    with pytest.MonkeyPatch.context() as patched:
        patched.delenv("PARLEY_HOME", raising=False)
        for name, value in home.environment.items():
            patched.setenv(name, value)
        job = start_job(home, playbook(), f"make {SECRET} better")
        question = question_of(home, job)
        assert question, home.run("log", job).out[-2000:]
        assert home.run("intervene", job, f"mind {SECRET}").code in (0, 4)
        with serve(home, "--only-look") as server:
            yield Stage(home, server, owner(server), job, question)


def pages(stage: Stage) -> dict[str, str]:
    """What every page and part shows, some of each kind; the record as a file is unpacked."""
    values = {"repository": key_of(stage.home), "job": stage.job, "question": stage.question, "what": "withdraw"}
    found = crawl(stage.user.get, values, each=4)
    packed = {at: gzip.decompress(one.body).decode() for at, one in found.items() if at.endswith("/record/export")}
    assert packed
    return {at: one.text for at, one in found.items()} | packed


def test_what_becomes_a_secret_later_is_in_no_page_any_more(stage: Stage) -> None:
    before = pages(stage)
    shown = {address for address, text in before.items() if SECRET in text}
    (stage.home.folder / ".env").write_text(f"API_KEY={SECRET}\n", encoding="utf-8")
    head = f"/r/{key_of(stage.home)}/{stage.job}/part/head"
    wait_for(lambda: SECRET not in stage.user.get(head).text)
    after = pages(stage)

    assert len(shown) >= 40, shown
    assert {address for address, text in after.items() if SECRET in text} == set()
    assert sum("[redacted API_KEY]" in text for text in after.values()) >= 40
    assert "Traceback" not in stage.server.printed


def test_a_file_with_a_secret_in_its_name_is_listed_and_its_diff_is_shown(stage: Stage) -> None:
    (stage.home.folder / ".env").write_text(f"API_KEY={SECRET}\n", encoding="utf-8")
    base = f"/r/{key_of(stage.home)}/{stage.job}"
    listed = wait_for(lambda: "[redacted" in (text := stage.user.get(f"{base}/changes/files").text) and text)
    addresses = [html.unescape(one) for one in re.findall(r'data-src="([^"]*)"', listed)]
    found = [stage.user.get(one) for one in addresses if "redacted" in one]

    assert len(found) == len(NAMES)
    assert {line for one in found for line in re.findall(r"(?m)^\+file \d$", one.text)} == {"+file 0", "+file 1"}
    for one in found:
        assert one.status == 200, one.text
        assert "b/[redacted API_KEY]" in one.text
        assert not any(name in one.text for name in NAMES)
