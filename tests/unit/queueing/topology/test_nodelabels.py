"""Tests of the index of node labels: answers follow the nodes, and equal those of a rebuilt index."""

from hypothesis import given
from hypothesis import strategies as st

from muster.queueing.model import FlavorSpec, PodSet
from muster.queueing.topology import nodelabels
from muster.queueing.topology.nodelabels import NodeLabels

_LABELS = st.dictionaries(st.sampled_from("xy"), st.sampled_from("ab"), max_size=2)


def _pods(**selector: str) -> PodSet:
    return PodSet("main", 1, {}, selector=selector)


def test_a_change_is_told_when_it_makes_the_first_node_or_takes_the_last() -> None:
    nodes = NodeLabels()
    flavor, pods = FlavorSpec("f", {"x": "a"}), _pods(y="b")
    assert not nodes.set_node("n0", {"x": "a"})  # nobody has asked
    assert nodes.could_take(flavor, pods) is False
    assert not nodes.set_node("n1", {"x": "b", "y": "b"})
    assert nodes.set_node("n2", {"x": "a", "y": "b"})
    assert not nodes.set_node("n2", {"x": "a", "y": "b"})  # nothing is new
    assert nodes.could_take(flavor, pods)
    assert not nodes.set_node("n0", {"x": "a", "y": "b"})
    assert not nodes.set_node("n0", None)
    assert nodes.set_node("n2", {"x": "a"})
    assert not nodes.could_take(flavor, pods)


def test_labels_of_the_flavor_itself_are_those_of_nodes_to_come() -> None:
    nodes = NodeLabels()
    assert nodes.could_take(FlavorSpec("f", {"x": "a"}), _pods(x="a"))
    assert nodes.could_take(FlavorSpec("f", {"x": "a"}), _pods(y="b")) is None


@given(
    st.lists(st.tuples(_LABELS, _LABELS), min_size=1, max_size=4),
    st.lists(st.tuples(st.sampled_from(["n1", "n2", "n3"]), st.none() | _LABELS), max_size=8),
)
def test_answers_are_those_of_a_registry_made_anew(
    questions: list[tuple[dict[str, str], dict[str, str]]], steps: list[tuple[str, dict[str, str] | None]]
) -> None:
    nodes = NodeLabels()
    current: dict[str, dict[str, str]] = {}
    answers = _answers(nodes, questions)
    for name, labels in steps:
        changes = nodes.set_node(name, labels)
        current.pop(name, None)
        if labels is not None:
            current[name] = labels
        before, answers = answers, _answers(nodes, questions)
        anew = NodeLabels()
        for known, result in current.items():
            anew.set_node(known, result)
        assert answers == _answers(anew, questions)
        assert changes or answers == before


def _answers(nodes: NodeLabels, questions: list[tuple[dict[str, str], dict[str, str]]]) -> list[bool | None]:
    return [nodes.could_take(FlavorSpec("f", labels), _pods(**selector)) for labels, selector in questions]


def test_a_registry_that_was_asked_too_much_counts_the_next_change_for_all() -> None:
    nodes = NodeLabels()
    for number in range(nodelabels._MOST_QUESTIONS + 1):
        assert not nodes.could_take(FlavorSpec("f"), _pods(host=str(number)))
    assert nodes.set_node("n1", {"host": "none"}), "one of the answers may be another now"
    assert not nodes.set_node("n2", {"host": "none"}), "whoever waits has asked again"
    assert not nodes.could_take(FlavorSpec("f"), _pods(host="0"))
    assert nodes.set_node("n1", {"host": "0"})
    assert nodes.could_take(FlavorSpec("f"), _pods(host="0"))
