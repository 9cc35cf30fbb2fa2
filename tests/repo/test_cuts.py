"""Every cut of a text leaves its mark: half of a secret is known as one by it. Each other slice has its reason."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src/parley"
SHORT = 40  # a number from which on a slice may be a cut
MAY_CUT = {
    "it is redacted before": (
        "adapters/worktrees/history.py: printable(' '.join(title.split()))[:TITLE_LENGTH]",
        "adapters/worktrees/history.py: words[:SLUG_LENGTH]",
        "engine/waits.py: texts.fit(world.secrets.redact(' '.join(said.split())))[:SHOWN]",
        "faces/cli/need.py: text[:READ_LIMIT]",
        "faces/terminal/pages.py: body[:CUT]",
    ),
    "no reader is shown it": (
        "adapters/boundary/delivery.py: body[:500]",
        "adapters/boundary/launcher.py: answer[:40]",
        "adapters/boundary/on_network.py: answer[:40]",
        "adapters/claude/homes.py: [*self.interrupted(handle), message[:INTERRUPTED_LIMIT]][-INTERRUPTED_MOST:]",
        "adapters/claude/homes.py: str(message)[:INTERRUPTED_LIMIT]",
        "adapters/claude/homes.py: message[:INTERRUPTED_LIMIT]",
        "adapters/claude/homes.py: messages[-INTERRUPTED_MOST:]",
        "adapters/claude/prompt.py: text[:NOTES_LIMIT]",
        "adapters/command/bridge.py: str(name)[:80]",
        "adapters/command/bridge.py: method[:80]",
        "adapters/command/hatch.py: connection.owed[:_CHUNK]",
        "adapters/command/output.py: lenient(whole or b'')[:SHOWN]",
        "adapters/command/output.py: str(event.get('thread_id', ''))[:SHOWN]",
        "adapters/command/turn.py: message[:_CHUNK]",
        "adapters/decisions.py: list(dict.fromkeys(words_of(text)))[:WORDS_READ]",
        "adapters/decisions.py: sorted(seen, key=lambda word: (seen[word], word))[:RARE]",
        "adapters/decisions.py: sorted(likeness, key=lambda number: (likeness[number], number), reverse=True)[:WEIGHED]",  # noqa: E501
        "adapters/decisions.py: text[:TEXT]",
        "adapters/worktrees/merging.py: data[:_BINARY_PROBE]",
        "engine/chain.py: digest[:DIGEST_BYTES]",
        "engine/redaction.py: form[:PREFIX]",
        "engine/redaction.py: form[-PREFIX:]",
        "engine/redaction.py: re.sub('[^A-Za-z0-9_.-]', '_', name)[:NAME_LENGTH]",
        "quoting.py: line[before.end() if before else 0:][:_HEAD]",
        "wording.py: word.casefold()[:_LONGEST]",
        "workflow/loops.py: question[:LONGEST]",
        "workflow/pending.py: was.strip()[:ALIKE]",
        "workflow/pending.py: text.strip()[:ALIKE]",
    ),
    "it is cut once more, and marked then": (
        "adapters/command/output.py: data[:HEAD_LIMIT - len(self._head)]",
        "adapters/command/output.py: self._said[:-4 * TEXT_LIMIT]",
        "adapters/worktrees/merging.py: data[:_LONGEST * (SHOWN + 1)]",
        "adapters/nodes.py: text[:_SHOWN]",
        "adapters/proving/trial.py: tail[:-_LONGEST * TAIL]",
        "adapters/scripted.py: text[:PROGRESS_LIMIT + 1]",
    ),
    "a name of Parley's own making, or one that the user typed": (
        "adapters/memory.py: job[:100]",
        "adapters/notices/outbox.py: re.sub('[^A-Za-z0-9._-]+', '-', name)[:60]",
        "adapters/sqlite.py: job[:100]",
        "adapters/worktrees/ground.py: os.fsencode(name)[:_NAME_BYTES]",
        "adapters/worktrees/worktree.py: self.history.ref(self._left_ref)[:SHORT]",
        "faces/terminal/prompt.py: (self.typed + key)[:LONGEST]",
        "workflow/archive.py: re.sub('[^A-Za-z0-9_-]+', '_', task)[:80]",
        "workflow/summary.py: '_'.join(re.findall('[a-z0-9]+', plain))[:LONGEST_SLUG]",
    ),
    "a list, of which the first or the last are taken": (
        "adapters/boundary/report.py: out[:TOLD]",
        "adapters/outcome.py: extra[:KEYS_SHOWN]",
        "adapters/worktrees/homecoming.py: paths[:SHOWN]",
        "adapters/worktrees/scan.py: lines[:LINES]",
        "adapters/worktrees/users_settings.py: [path for path in found if path.suffix != '.sample' and path.is_file()][:_MOST_HOOKS]",  # noqa: E501
        "engine/archiving.py: sorted(fitting or names)[:SHOWN]",
        "engine/audit.py: held.odd[:MOST_TOLD]",
        "engine/audit.py: report.unsigned[:MOST_TOLD]",
        "engine/changed.py: changes[:KEPT]",
        "engine/changed.py: self.changes[:NAMED]",
        "engine/delivery.py: found[:MOST]",
        "engine/designs.py: paths[:MOST_FILES]",
        "engine/executing.py: gaps[:GAPS]",
        "engine/intake.py: list(amounts.items())[:USAGES]",
        "engine/proxying.py: changed[:CHANGES]",
        "engine/refusals.py: list({one.same: one for one in reversed(self.listed)}.values())[::-1][:SHOWN]",
        "engine/remembering.py: live.decided[-WAITING:]",
        "engine/reports.py: problems[:PROBLEMS]",
        "engine/reports.py: kept.outside[:STRAYS]",
        "engine/texts.py: merge.conflicts[:SETTLED]",
        "engine/texts.py: merge.conflicts[:LISTED]",
        "engine/texts.py: merge.left_out[:LISTED]",
        "engine/texts.py: paths[:LISTED]",
        "engine/texts.py: findings[:FINDINGS]",
        "engine/texts.py: lines[:LISTED]",
        "engine/unfinished.py: said[:MOST]",
        "faces/cli/adopt.py: rows[:_SHOWN]",
        "faces/cli/adopt.py: let[:_SHOWN]",
        "faces/cli/adopt.py: dropped[:_SHOWN]",
        "faces/cli/adopt.py: people[:_SHOWN]",
        "faces/cli/adopt.py: odd[:_SHOWN]",
        "faces/cli/bus.py: found[:_SHOWN]",
        "faces/cli/bus.py: sorted(candidates)[:_SHOWN]",
        "faces/cli/delivered.py: changes[:SHOWN]",
        "faces/cli/show.py: found[:SITUATIONS]",
        "faces/cli/show.py: document['unfinished'][-UNFINISHED:]",
        "faces/cli/workshop.py: out[-LEFT_BEHIND:]",
        "faces/cli/workshop.py: said[-LEFT_BEHIND:]",
        "faces/cli/workshop.py: live[:SHOWN]",
        "faces/terminal/overview.py: self._entries[:PRINTED]",
        "faces/terminal/watch.py: [*(other for other in self._notes if other != note), note][-NOTES:]",
        "unportable.py: sorted(found.items(), key=lambda one: not one[1].startswith(ALIKE))[:NAMED]",
        "wording.py: names[:_MOST]",
        "workflow/archive.py: entries[-MOST_ENTRIES:]",
        "workflow/cells.py: texts[:ITEMS]",
        "workflow/checking.py: listed[:MOST_PROOFS]",
        "workflow/handoffs.py: list(design.makers)[:MOST_COMPARED]",
        "workflow/outline.py: lines[:LISTED]",
        "workflow/pending.py: problems[:MOST_PROBLEMS]",
        "workflow/persona.py: documents[:_SHOWN]",
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

    assert found - known == set(), "cut a text with parley.text.cut or last_of, or give the reason above"
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
