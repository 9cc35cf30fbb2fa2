"""A workflow on the page: the same as the command tells, and more; its graph in layers."""

from hypothesis import given
from hypothesis import strategies as st

from parley.views.costs import turn_costs
from parley.views.dependency_layers import layered
from parley.views.history.job_index import JobIndex
from parley.views.job_view import past
from parley.views.workflow_view import flow_document, workflow_page
from tests.engine.job_harness import JOB, always, on, say, write
from tests.workflow.workflow_harness import WorkflowHarness, doer, note, output, plan, verdict

PLAN = plan(
    {"name": "one"}, {"name": "two", "depends_on": ["one"]}, {"name": "three"}, stages=[["one", "three"], ["two"]]
)
SETTLED = note(description="small", context="c", status="resolved", category="documentation", resolution="so it is")
PICKY = [
    on(r"^\[VERIFY\] one, round 1", verdict("rejected", "not yet")),
    always(r"^\[VERIFY\]", verdict("verified"), say("good")),
]


def played() -> WorkflowHarness:
    """Three doers, one of them noted something and was sent back once; the workflow is complete."""
    made = (SETTLED, write("src/one/one.py", "1"), write(output("one"), "1"), say("made"))
    agents = {"one": doer("one", on(r"^\[TASK\]", *made)), "two": doer("two"), "three": doer("three"), "judge": PICKY}
    return WorkflowHarness(PLAN, agents).run()


def test_a_page_has_every_agent_with_notes_rounds_versions_and_who_read_them() -> None:
    stage = played()

    page = workflow_page(stage.outside.load(JOB).molecules, str)

    assert page is not None
    assert (page.task, page.status, page.gate) == ("service", "complete", "clear")
    one, two, three = page.agents
    assert [round_.verdict for round_ in one.rounds] == ["rejected", "verified"]
    assert one.rounds[0].findings == ("not yet",)
    (noted,) = one.notes
    assert (noted.category, noted.resolution, noted.settled) == ("documentation", "so it is", True)
    assert two.read == (("one", one.version),)
    assert one.read_by == (("two", one.version),)
    assert (three.read, three.depends_on, two.depends_on) == ((), (), ("one",))
    assert two.waits_for == ()
    assert one.owns == ("src/one/**",)
    assert one.commands == ("test -f one",)
    assert [(check.giver, check.taker, check.by) for check in page.checkpoints] == [("one", "two", "judge")]
    assert {merge.agent for merge in page.merges if merge.taken} == {"one", "two", "three"}
    assert [verifier.name for verifier in page.verifiers] == ["judge"]


def test_the_page_agrees_with_the_document_of_the_command() -> None:
    stage = played()
    document = flow_document(stage.flow, {}, str)
    page = workflow_page(stage.outside.load(JOB).molecules, str)

    assert page is not None
    assert [(one["name"], one["status"], one["version"]) for one in document["agents"]] == [
        (one.name, one.status, one.version) for one in page.agents
    ]
    assert [len(one["rounds"]) for one in document["agents"]] == [len(one.rounds) for one in page.agents]
    assert [one["notes"] for one in document["agents"]] == [len(one.notes) for one in page.agents]


def test_every_text_of_a_workflow_is_redacted() -> None:
    stage = played()

    page = workflow_page(stage.outside.load(JOB).molecules, lambda text: text.replace("so it is", "…"))

    assert "so it is" not in repr(page)


def test_the_merges_of_a_workflow_are_in_the_index_and_its_past_is_equal() -> None:
    stage = played()
    row = stage.outside.load(JOB).row
    index = JobIndex(stage.outside, row)
    while index.read(100):
        pass

    assert {merge.agent for merge in index.merges if merge.commits} == {"one", "two", "three"}
    assert index.history() == past(stage.outside, JOB)
    assert index.costs() == turn_costs(stage.outside, row)


# ---- the graph -----------------------------------------------------------------------------------

NAMES = st.sampled_from([f"a{number}" for number in range(8)])
GRAPHS = st.dictionaries(NAMES, st.lists(st.one_of(NAMES, st.just("unknown")), max_size=4), max_size=8)


@given(graph=GRAPHS)
def test_every_node_has_a_place_of_its_own_after_all_that_it_depends_on(graph: dict[str, list[str]]) -> None:
    drawn = layered(graph, dict.fromkeys(graph, "working"))

    places = {node.name: node for node in drawn.nodes}
    assert places.keys() == graph.keys()
    assert len({(node.rank, node.order) for node in drawn.nodes}) == len(graph)
    assert {(edge.before, edge.after) for edge in drawn.edges} == {
        (one, name) for name, wanted in graph.items() for one in wanted if one in graph
    }
    for edge in drawn.edges:
        assert edge.back or places[edge.before].rank < places[edge.after].rank
    for node in drawn.nodes:
        above = [places[edge.before].rank for edge in drawn.edges if edge.after == node.name and not edge.back]
        assert node.rank == max((rank + 1 for rank in above), default=0)
    assert drawn.widest == max((node.order + 1 for node in drawn.nodes), default=0)


@given(size=st.integers(1, 8), shift=st.integers(0, 7))
def test_a_graph_without_cycles_has_no_edge_that_leads_back(size: int, shift: int) -> None:
    names = [f"a{(number + shift) % size}" for number in range(size)]
    graph = {name: names[:place] for place, name in enumerate(names)}

    assert not any(edge.back for edge in layered(graph, {}).edges)


def test_a_deep_chain_and_two_that_wait_for_each_other_are_drawn() -> None:
    chain = {f"n{number}": [f"n{number - 1}"] if number else [] for number in range(3000)}

    assert layered(chain, {}).ranks == 3000
    assert [edge.back for edge in layered({"a": ["b"], "b": ["a"]}, {}).edges].count(True) == 1


def test_the_order_within_layers_keeps_apart_what_need_not_cross() -> None:
    graph = {"a": [], "b": [], "c": ["b"], "d": ["a"]}

    drawn = {node.name: node.order for node in layered(graph, {}).nodes}

    assert (drawn["a"] < drawn["b"]) == (drawn["d"] < drawn["c"])
