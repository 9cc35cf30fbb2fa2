"""Ownership in a workflow that runs: what a worker writes of another's is refused at its tool, and never merged."""

import json
from pathlib import Path

from parley.audit.audit import audit
from parley.bus.memory_store import MemoryStore
from parley.workflow.files.task_record import read_record
from parley.workflow.model.terms import TASK_ORCHESTRATION
from tests.cli.fork_server import run_parley
from tests.engine.job_harness import JOB, on, say, write
from tests.workflow.workflow_harness import WorkflowHarness, doer, output, plan, played_by
from tests.workspaces.user_repository import git
from tests.workspaces.user_repository import write as write_files


def parley(folder: Path, *words: str) -> str:
    done = run_parley(words, folder, seconds=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


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
    stage = WorkflowHarness(plan({"name": "one"}, {"name": "two"}), {"one": doer("one"), "two": greedy}).run()

    assert stage.state == "DONE", stage.bodies("project-lead")
    files = stage.files()
    assert (files["src/one/one.py"], files["src/two/two.py"]) == ("one", "two")
    assert "README.md" not in files
    assert audit(MemoryStore(stage.bus, "auditor"), JOB, None).ok


def test_what_a_workers_shell_does_to_anothers_files_is_put_back_and_kept_in_the_real_program(tmp_path: Path) -> None:
    """Real worktrees, a real boundary, acceptance commands that are really run."""
    write_files(tmp_path, {"db/schema.sql": "create\n", "README.md": "read\n"})
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "first")):
        git(tmp_path, *words)
    owned = [
        {"name": name, "owns": [f"{name}/**"], "acceptance": {"text": "made", "commands": [f"test -f {name}/made"]}}
        for name in ("db", "web")
    ]
    spoil = (
        "echo drop > db/schema.sql; rm README.md; mkdir web; mv db/made web/; ln -s db web2; echo x > db/x; chmod +x db"
    )
    made = {name: [write(f"{name}/made", name), write(output(name), name), say("made")] for name in ("db", "web")}
    agents = {
        "db": [on(r"^\[TASK\]", *made["db"]), *doer("db")[1:]],
        "web": [on(r"^\[TASK\]", write("db/schema.sql", "mine"), {"shell": spoil}, *made["web"]), *doer("web")[1:]],
    }
    played = played_by(plan(*owned, stages=[["db"], ["web"]]), agents)
    del played["agents"]["prover"]  # whose commands are run
    (tmp_path / "play.yaml").write_text(json.dumps(played))

    done = parley(tmp_path, "run", "A service", "--playbook", "play.yaml")

    assert "DONE" in done
    assert "db/schema.sql belongs to db (rule: db owns db/**)" in done
    owners = {"README.md": "has no owner"} | dict.fromkeys(("db/made", "db/schema.sql", "db/x"), "belongs to db")
    for path, said in owners.items():
        assert f"web left what is not kept: {path}: {said} (rule: " in done
    (work,) = (tmp_path / ".parley/jobs").glob("*/work")
    kept = {path: (work / path).read_text() for path in ("db/schema.sql", "README.md", "db/made", "web/made")}
    assert kept == {"db/schema.sql": "create\n", "README.md": "read\n", "db/made": "db", "web/made": "web"}
    assert not (work / "db/x").exists()
    (ref,) = (work.parent / "snapshots.git/refs/parley/left" / work.parent.name).iterdir()
    assert git(tmp_path, f"--git-dir={work.parent}/snapshots.git", "show", f"{ref.read_text().strip()}:db/x") == "x\n"
    assert "the record is sound" in parley(tmp_path, "audit", work.parent.name)
    found, _ = read_record((work / TASK_ORCHESTRATION).read_text())
    assert found is not None
    [stray] = found.strays
    whose = dict(zip(stray.paths, stray.owners, strict=True))
    assert (stray.agent, whose["README.md"], whose["db/x"], whose["web2"]) == ("web", "no agent", "db", "no agent")
    assert stray.ref == f"refs/parley/left/{work.parent.name}/{ref.name} ({ref.read_text()[:12]})"
