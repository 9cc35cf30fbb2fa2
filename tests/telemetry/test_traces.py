"""A job's trace and metrics, as a real collector gets them from the real program."""

from __future__ import annotations

import pytest

from parley.features.telemetry.vocabulary import METRICS, SPANS
from tests.cli.home import Home, wait_for
from tests.telemetry.otlp_receiver import Receiver, Seen, receiving, values
from tests.telemetry.traced_job import HEADER_KEY, KILLED, WORD, Traced, read_again

# ---- the tree --------------------------------------------------------------------------------------


def test_a_job_is_one_trace_whose_spans_form_a_tree(traced: Traced) -> None:
    by_id = {one.id: one for one in traced.spans}
    (root,) = [one for one in traced.spans if not one.parent]

    assert len(by_id) == len(traced.spans)
    assert {one.trace for one in traced.spans} == {root.trace}
    assert root.name == "invoke_workflow job"
    assert (root.said["parley.outcome"], root.said["parley.backtracks"], root.said["parley.visits"]) == ("DONE", 1, 5)
    assert root.said["parley.cost_usd"] == 0.25
    assert all(one.parent in by_id for one in traced.spans if one.parent)
    assert all(one.said["parley.job.id"] == traced.job for one in traced.spans)
    above = {"state": "invoke_workflow", "invoke_agent": "state", "execute_tool": "invoke_agent"}
    for one in traced.spans:
        kind = one.name.partition(" ")[0]
        if kind in above:
            assert by_id[one.parent].name.startswith(above[kind]), one
        if kind in ("state", "invoke_agent"):
            assert by_id[one.parent].began <= one.began <= one.ended <= by_id[one.parent].ended


def test_each_visit_of_a_state_is_a_span_with_how_it_was_left(traced: Traced) -> None:
    assert [(one.said["parley.state"], one.said["parley.visit"], one.said["parley.outcome"])
            for one in traced.named("state ")] == [
        ("INTENT", 1, "APPROVED_INTENT"),
        ("PLAN", 2, "APPROVED_PLAN"),
        ("EXECUTE", 3, "REPLAN"),
        ("PLAN", 4, "APPROVED_PLAN"),
        ("EXECUTE", 5, "APPROVED_WORK"),
    ]  # fmt: skip


def test_a_turn_says_who_worked_and_what_it_used(traced: Traced) -> None:
    first = traced.named("invoke_agent intent-lead")[0].said

    assert first["gen_ai.operation.name"] == "invoke_agent"
    assert first["gen_ai.agent.name"] == "intent-lead"
    assert first["gen_ai.provider.name"] == "scripted"
    assert first["gen_ai.conversation.id"] == f"{traced.job}/state:{traced.job}/1"
    assert first["gen_ai.usage.input_tokens"] == 111  # with those from the cache, as the conventions have it
    assert first["gen_ai.usage.cache_read.input_tokens"] == 11
    assert first["gen_ai.usage.output_tokens"] == 7
    assert (first["parley.cost_usd"], first["parley.epoch"], first["parley.host"]) == (0.25, 1, "local")


def test_a_lost_turn_is_an_error_and_its_second_try_another_span(traced: Traced) -> None:
    lost, ended = traced.named("invoke_agent tester")

    assert (lost.said["parley.outcome"], lost.said["error.type"], lost.failed) == ("lost", "agent", True)
    assert (ended.said["parley.outcome"], "error.type" in ended.said, ended.failed) == ("ended", False, False)
    assert lost.said["parley.thread"] == ended.said["parley.thread"]


def test_tools_are_spans_of_their_turn_also_those_that_were_refused(traced: Traced) -> None:
    coder = traced.named("invoke_agent coder")[0]
    used = [one for one in traced.named("execute_tool") if one.parent == coder.id]

    assert [(one.said["gen_ai.tool.name"], one.said["gen_ai.tool.type"], one.said["parley.outcome"]) for one in used] \
        == [("shell", "extension", "ok"), ("Send", "function", "refused")]  # fmt: skip
    assert coder.said["parley.refused_calls"] == 1


def test_waits_for_the_human_and_for_a_slot_are_spans(traced: Traced) -> None:
    human = traced.named("wait human")

    assert [one.said["parley.verdict"] for one in human] == [
        "approve",
        "approve",
        "backtrack plan",
        "approve",
        "approve",
    ]
    slots, turns = traced.named("wait slot"), {one.id for one in traced.named("invoke_agent")}
    assert slots
    assert {one.parent for one in slots} <= turns


# ---- what is sent, and what is not -----------------------------------------------------------------


def test_no_word_of_the_job_is_sent(traced: Traced) -> None:
    bodies = b"".join(one.body for one in traced.to.received)

    assert traced.job.encode() in bodies
    for hidden in (WORD, str(traced.home.folder), "INTENT.md", ".txt", "please", HEADER_KEY):
        assert hidden.encode() not in bodies, hidden


def test_only_what_is_documented_is_sent(traced: Traced) -> None:
    for one in traced.spans:
        assert set(one.said) <= set(SPANS[one.name.partition(" ")[0]]), one.name
    metrics = traced.to.metrics()
    assert set(metrics) <= set(METRICS)
    for name, points in metrics.items():
        for point in points:
            assert set(values(list(point.attributes))) <= set(METRICS[name].attributes), name


def test_the_variables_say_who_sends_and_with_which_key(traced: Traced) -> None:
    resource = traced.to.resource()

    assert resource["service.name"] == "my-parley"
    assert resource["deployment.environment.name"] == "test"
    assert {one.headers["x-api-key"] for one in traced.to.received} == {HEADER_KEY}
    assert {one.headers["content-type"] for one in traced.to.received} == {"application/x-protobuf"}


def test_metrics_count_what_the_spans_show(traced: Traced) -> None:
    metrics = traced.to.metrics()

    def total(name: str) -> float:
        return float(sum(one.as_int or one.as_double for one in metrics[name]))

    assert total("parley.turns") == len(traced.named("invoke_agent"))
    assert (total("parley.cost"), total("parley.backtracks"), total("parley.crashes")) == (0.25, 1, 1)
    assert total("parley.questions") == 5
    assert sum(one.sum for one in metrics["gen_ai.client.token.usage"]) == 118
    waited = {values(list(one.attributes))["parley.wait.cause"]: one.count for one in metrics["parley.wait.duration"]}
    assert waited == {"human": 5, "slot": len(traced.named("wait slot"))}
    used = len(traced.named("invoke_agent")) + len(traced.named("execute_tool"))
    assert sum(one.count for one in metrics["gen_ai.client.operation.duration"]) == used
    assert {values(list(one.attributes))["parley.state"] for one in metrics["parley.jobs.open"]} == {
        "INTENT", "PLAN", "EXECUTE",
    }  # fmt: skip


def test_the_spans_are_those_that_the_rows_make(traced: Traced) -> None:
    made = {f"{one.id:016x}": one for one in read_again(traced.home, traced.job).spans}
    sent = {one.id: one for one in traced.spans if not one.name.startswith(("execute_tool", "wait slot"))}

    assert made.keys() == sent.keys()
    for name, one in made.items():
        assert dict(one.attributes) == sent[name].said
        assert (one.name, f"{one.parent:016x}" if one.parent else "") == (sent[name].name, sent[name].parent)


# ---- a crash ---------------------------------------------------------------------------------------


def test_after_a_crash_the_next_owner_goes_on_with_the_same_trace(tmp_path_factory: pytest.TempPathFactory) -> None:
    home = Home(tmp_path_factory.mktemp("killed"))
    with receiving() as to:
        home.environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = to.address
        home.write("p.yaml", KILLED)
        with home.started("run", "make it", "--playbook", "p.yaml") as process:
            wait_for(lambda: shells(to) == 1)
            process.kill()
        job = home.job()
        with home.started("resume", job) as process:
            wait_for(lambda: shells(to) == 2)
            assert home.run("withdraw", job).code == 0
            assert process.wait(30) == 3
        spans = to.spans()

    contents: dict[str, set[Seen]] = {}
    for one in spans:
        contents.setdefault(one.id, set()).add(one)
    assert {len(found) for found in contents.values()} == {1}
    assert len({one.trace for one in spans}) == 1
    by_id = {one.id: one for one in spans}
    (root,) = [one for one in by_id.values() if not one.parent]
    assert root.said["parley.outcome"] == "WITHDRAWN"
    assert all(one.parent in by_id for one in by_id.values() if one.parent)
    found = sorted((one for one in by_id.values() if one.name.endswith("researcher")), key=lambda one: one.began)
    assert [(one.said["parley.outcome"], one.said.get("error.type"), one.said["parley.epoch"]) for one in found] == [
        ("lost", "owner", 1),
        ("terminated", None, 2),
    ]
    made = {f"{one.id:016x}" for one in read_again(home, job).spans}
    assert made == {one.id for one in spans if not one.name.startswith(("execute_tool", "wait slot"))}


def shells(to: Receiver) -> int:
    """How many uses of the shell were told so far."""
    return len({one.id for one in to.spans() if one.name == "execute_tool shell"})
