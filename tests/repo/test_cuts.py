"""Every cut of a text leaves its mark: half of a secret is known as one by it. Each other slice has its reason."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src/parley"
SHORT = 40  # a number from which on a slice may be a cut
MAY_CUT = {
    "it is redacted before": (
        "workspaces/job_repository.py: printable(' '.join(title.split()))[:TITLE_LENGTH]",
        "workspaces/job_repository.py: words[:SLUG_LENGTH]",
        "engine/turn/lost.py: fit(world.secrets.redact(' '.join(said.split())), TEXT_LIMIT)[:REASON_SHOWN]",
        "cli/looking/need_texts.py: text[:READ_LIMIT]",
        "tui/work_screen.py: body[:CUT]",
    ),
    "no reader is shown it": (
        "web/safety/question_links.py: data[:_TAG_BYTES]",
        "engine/loop.py: str(event.tool)[:MAX_TOOL_NAME]",
        "sandbox/gateway/held_request.py: body[:500]",
        "sandbox/inside/launcher.py: answer[:40]",
        "sandbox/inside/network_escapes.py: answer[:40]",
        "runners/claude/agent_home.py: str(one['text'])[:INTERRUPTED_LIMIT]",
        "runners/claude/agent_home.py: message.text[:INTERRUPTED_LIMIT]",
        "runners/claude/agent_home.py: messages[-INTERRUPTED_MOST:]",
        "runners/claude/system_prompt.py: text[:NOTES_LIMIT]",
        "runners/command/mcp_bridge.py: str(name)[:80]",
        "runners/command/mcp_bridge.py: method[:80]",
        "runners/command/tool_socket.py: connection.owed[:_CHUNK]",
        "runners/command/program_output.py: lenient(whole or b'')[:SHOWN]",
        "runners/command/program_output.py: str(event.get('thread_id', ''))[:SHOWN]",
        "runners/command/command_turn.py: message[:_CHUNK]",
        "features/proxy/decision_recall.py: list(dict.fromkeys(words_of(text)))[:WORDS_READ]",
        "features/proxy/decision_recall.py: sorted(seen, key=lambda word: (seen[word], word))[:RARE]",
        "features/proxy/decision_recall.py: sorted(likeness, key=lambda number: (likeness[number], number), reverse=True)[:WEIGHED]",  # noqa: E501
        "features/proxy/decision_recall.py: text[:TEXT]",
        "workspaces/merge/tree_merge.py: data[:_BINARY_PROBE]",
        "bus/hash_chain.py: digest[:DIGEST_BYTES]",
        "base/redaction.py: form[:PREFIX]",
        "base/redaction.py: form[-PREFIX:]",
        "base/redaction.py: re.sub('[^A-Za-z0-9_.-]', '_', name)[:NAME_LENGTH]",
        "base/quoting.py: re.findall('[^\\\\W_]+', _skeleton(heading))[:_FIRST_WORDS]",
        "base/quoting.py: line[before.end() if before else 0:][:_HEAD]",
        "base/wording.py: word.casefold()[:_LONGEST]",
        "workflow/model/loops.py: question[:LONGEST]",
        "workflow/model/pending_notes.py: was.strip()[:ALIKE]",
        "workflow/model/pending_notes.py: text.strip()[:ALIKE]",
    ),
    "it is cut once more, and marked then": (
        "runners/command/program_output.py: data[:HEAD_LIMIT - len(self._head)]",
        "runners/command/program_output.py: self._said[:-4 * TEXT_LIMIT]",
        "workspaces/merge/tree_merge.py: data[:_LONGEST * (SHOWN + 1)]",
        "runners/proof/command_trial.py: tail[:-_LONGEST * TAIL]",
        "runners/scripted/agent_process.py: text[:PROGRESS_LIMIT + 1]",
        "runners/scripted/agent_process.py: result[:PROGRESS_LIMIT + 1]",
    ),
    "a name of Parley's own making, or one that the user typed": (
        "features/notices/handover.py: re.sub('[^A-Za-z0-9._-]+', '-', name)[:60]",
        "bus/rows.py: job[:100]",
        "workspaces/files/safe_fs.py: os.fsencode(name)[:_NAME_BYTES]",
        "workspaces/worktree.py: self.repository.ref(self._left_ref)[:SHORT]",
        "workflow/files/archive.py: re.sub('[^A-Za-z0-9_-]+', '_', task)[:80]",
        "workflow/files/summary.py: '_'.join(re.findall('[a-z0-9]+', plain))[:LONGEST_SLUG]",
    ),
    "a list, of which the first or the last are taken": (
        "sandbox/launch_report.py: out[:TOLD]",
        "web/start_notes.py: lines[:MOST_LINES]",
        "workspaces/delivery/merge_to_checkout.py: paths[:SHOWN]",
        "cli/running/withdraw_many.py: going[:IDS_SHOWN]",
        "workspaces/files/scan.py: lines[:LINES]",
        "workspaces/checkout/users_git_settings.py: [path for path in found if path.suffix != '.sample' and path.is_file()][:_MOST_HOOKS]",  # noqa: E501
        "workflow/host/archiving.py: sorted(fitting or names)[:SHOWN]",
        "audit/audit.py: held.odd[:MOST_TOLD]",
        "hosts/mirror/place_mirror.py: found[:DROPPED]",
        "hosts/placed_turns.py: due[:AGAIN_AT_ONCE]",
        "web/pages/job.py: lost_hosts(page.at.context.store, page.at.id)[-LEFT:]",
        "audit/audit.py: report.unsigned[:MOST_TOLD]",
        "engine/values/change_stat.py: changes[:KEPT]",
        "engine/values/change_stat.py: self.changes[:NAMED]",
        "views/job_result.py: found[:MOST]",
        "workflow/host/design_gates.py: paths[:MOST_FILES]",
        "workflow/host/executor_agent.py: gaps[:GAPS]",
        "engine/turn/finish.py: list(amounts.items())[:MAX_USAGES]",
        "features/proxy/answering.py: changed[:CHANGES]",
        "audit/refusals.py: list({one.same: one for one in reversed(self.listed)}.values())[::-1][:SHOWN]",
        "workflow/host/worker_reports.py: problems[:PROBLEMS]",
        "workflow/host/worker_reports.py: kept.outside[:STRAYS]",
        "engine/protocol_messages.py: merge.conflicts[:SETTLED]",
        "engine/protocol_messages.py: merge.conflicts[:LISTED]",
        "engine/protocol_messages.py: merge.left_out[:LISTED]",
        "engine/protocol_messages.py: paths[:LISTED]",
        "workflow/host/design_messages.py: findings[:FINDINGS]",
        "engine/protocol_messages.py: lines[:LISTED]",
        "engine/values/unfinished_work.py: said[:MOST]",
        "hosts/board_address.py: found[:SHOWN]",
        "cli/machine/bus_adopt.py: rows[:_SHOWN]",
        "cli/machine/bus_adopt.py: let[:_SHOWN]",
        "cli/machine/bus_adopt.py: dropped[:_SHOWN]",
        "cli/machine/bus_adopt.py: people[:_SHOWN]",
        "cli/machine/bus_adopt.py: odd[:_SHOWN]",
        "cli/open_bus.py: found[:_SHOWN]",
        "cli/open_bus.py: sorted(candidates)[:_SHOWN]",
        "cli/results/delivered.py: changes[:SHOWN]",
        "cli/looking/show.py: found[:SITUATIONS]",
        "cli/looking/show.py: document['unfinished'][-UNFINISHED:]",
        "cli/running/bootstrap.py: out[-LEFT_BEHIND:]",
        "cli/running/bootstrap.py: said[-LEFT_BEHIND:]",
        "cli/running/bootstrap.py: live[:SHOWN]",
        "cli/looking/work_log.py: said[:LINES_SHOWN]",
        "tui/work_screen.py: lines[:RESULT_LINES]",
        "tui/overview.py: jobs.entries[:PRINTED]",
        "tui/screen.py: lines[:NOTE_LINES - 1]",
        "tui/terminal/tty.py: data[:_SHARE]",
        "tui/watch.py: [*(other for other in self._notes if other != note), note][-NOTES:]",
        "base/unportable.py: sorted(found, key=lambda path: not found[path].overwrites)[:NAMED]",
        "base/wording.py: names[:_MOST]",
        "workflow/files/archive.py: entries[-MOST_ENTRIES:]",
        "workflow/files/reading/markdown_codec.py: texts[:ITEMS]",
        "workflow/execution/verification.py: listed[:MOST_PROOFS]",
        "workflow/design/handoffs.py: list(design.makers)[:MOST_COMPARED]",
        "workflow/design/outline.py: lines[:LISTED]",
        "workflow/model/pending_notes.py: problems[:MOST_PROBLEMS]",
        "features/lead_engineer.py: documents[:_SHOWN]",
        "web/reads/audit_runs.py: found[:FINDINGS]",
        "web/drawing/chart.py: found[:MOST_PARTS]",
        "web/pages/answer.py: safe_lines(content).splitlines()[:MOST_LINES]",
        "web/pages/artifacts.py: lines[-VERSIONS:]",
        "web/pages/changes.py: own[:INSTANCES]",
        "web/pages/changes.py: own[-INSTANCES:]",
        "web/pages/changes.py: found[-MERGES:]",
        "web/pages/job.py: [event for event in follower.read() if concerns(event)][-LATEST:]",
        "web/pages/job.py: [one for one in changes if one.obeyed][:FILES]",
        "web/pages/job.py: changes[:FILES]",
        "web/pages/job.py: list(assumptions(summary))[:FILES]",
        "web/pages/job.py: past.abandoned[-LEFT:]",
        "web/pages/job.py: past.unfinished[-LEFT:]",
        "web/pages/job.py: reading.interventions()[-LEFT:]",
        "web/pages/job_head.py: told[:SHOWN]",
        "web/pages/record.py: found[-PAGE_STEPS:]",
        "web/pages/steer.py: below[:SHOWN]",
        "web/pages/steer.py: stops.at_work[:SHOWN]",
        "web/pages/steer.py: threads[:SHOWN * 4]",
        "web/pages/steer.py: threads[SHOWN * 4:]",
    ),
}


def bound(node: ast.expr | None) -> bool:
    """Whether something says how much of a text is kept: a constant, or a larger number."""
    match node:
        case ast.Constant(value=int(number)):
            return number >= SHORT
        case ast.Name(id=name):
            return name.strip("_").isupper()
        case ast.BinOp(left=left, right=right):
            return bound(left) or bound(right)
        case _:
            return False


def cuts(source: str) -> Iterator[str]:
    """Each slice in a module that keeps so much of something, at its beginning or its end, without a mark beside it."""
    tree = ast.parse(source)
    marked = {
        id(inner)
        for joined in ast.walk(tree)
        if isinstance(joined, ast.JoinedStr)
        for one, other in zip(joined.values, joined.values[1:], strict=False)
        for part, beside in ((one, other), (other, one))
        if isinstance(part, ast.FormattedValue) and _is_mark(beside, first=part is one)
        for inner in ast.walk(part)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(slice=ast.Slice(lower=lower, upper=upper)) if id(node) not in marked:
                ends = isinstance(lower, ast.UnaryOp) and bound(lower.operand)
                if (lower is None and bound(upper)) or (
                    upper is None and (ends or (isinstance(lower, ast.BinOp) and bound(lower)))
                ):
                    yield ast.unparse(node)
            case _:
                pass


def _is_mark(node: ast.expr, *, first: bool) -> bool:
    match node:
        case ast.Constant(value=str(text)):
            return text.startswith("…") if first else text.endswith("…")
        case ast.FormattedValue(value=ast.Name(id="CUT_MARK")):
            return True
        case _:
            return False


def test_what_is_cut_without_a_mark_has_its_reason() -> None:
    known = {place for places in MAY_CUT.values() for place in places}
    found = {
        f"{path.relative_to(SOURCE).as_posix()}: {one}"
        for path in SOURCE.rglob("*.py")
        for one in cuts(path.read_text("utf-8"))
    }

    assert found - known == set(), "cut a text with parley.base.text.cut or last_of, or give the reason above"
    assert known - found == set()


@pytest.mark.parametrize(
    "source, found",
    [
        ("said[:LIMIT]", ["said[:LIMIT]"]),
        ("f'{said[:80]!r}'", ["said[:80]"]),
        ("said[-LIMIT:]", ["said[-LIMIT:]"]),
        ("said[1 - LIMIT:]", ["said[1 - LIMIT:]"]),
        ("f'{said[:LIMIT]}\\n…'", ["said[:LIMIT]"]),
        ("f'{said[:LIMIT]}…'", []),
        ("f'…{said[1 - LIMIT:]}'", []),
        ("said[:2], said[1:], cut(said, LIMIT)", []),
    ],
)
def test_cuts_are_found(source: str, found: list[str]) -> None:
    assert list(cuts(source)) == found
