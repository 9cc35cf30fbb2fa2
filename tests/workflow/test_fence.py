"""Ownership in a workflow that runs: what a worker writes of another's is refused at its tool, and never merged."""

from parley.adapters.memory import MemoryStore
from parley.engine.audit import audit
from tests.engine.stage import JOB, on, say, write
from tests.workflow.test_executor import doer, plan, staged


def test_what_a_worker_may_not_write_is_refused_with_its_owner_and_is_nowhere() -> None:
    greedy = [
        on(
            r"^\[TASK\]",
            write("src/one/one.py", "stolen"),
            write("README.md", "mine"),
            write("src/two/two.py", "two"),
            write("orchestration/agents/one/task_output/one.md", "stolen"),
            write("orchestration/agents/two/task_output/two.md", "two"),
            say("made"),
        ),
        *doer("two")[1:],
    ]
    stage = staged(plan({"name": "one"}, {"name": "two"}), {"one": doer("one"), "two": greedy}).run()

    assert stage.state == "DONE", stage.bodies("project-lead")
    files = stage.files()
    assert (files["src/one/one.py"], files["src/two/two.py"]) == ("one", "two")
    assert "README.md" not in files
    assert audit(MemoryStore(stage.bus, "auditor"), JOB, None).ok
