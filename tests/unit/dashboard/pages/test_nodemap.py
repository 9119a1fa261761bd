"""The rows of the page of nodes, which are kept while a node and its pods stay the same."""

import msgspec

from muster.api.core import Node, Pod
from muster.dashboard.pages.nodes.nodemap import read_rows
from muster.insight.reader.listing.memo import Memo


def make_node(name: str, cpu: str = "8") -> Node:
    return msgspec.convert({"metadata": {"name": name}, "status": {"allocatable": {"cpu": cpu}}}, Node)


def make_pod(name: str, node: str) -> Pod:
    containers = [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]
    return msgspec.convert({"metadata": {"name": name}, "spec": {"nodeName": node, "containers": containers}}, Pod)


def test_only_the_rows_of_nodes_that_changed_are_made_anew():
    nodes, pods, memo = [make_node("n10"), make_node("n9")], [make_pod("a", "n9")], Memo()
    first, second = read_rows(memo, nodes, pods)

    busier = read_rows(memo, nodes, [*pods, make_pod("b", "n10")])
    larger = read_rows(memo, [nodes[0], make_node("n9", cpu="16")], pods)

    assert [first.name, second.name] == ["n9", "n10"]
    assert [amount.used for amount in first.amounts] == [2000]
    assert busier[0] is first
    assert [amount.used for amount in busier[1].amounts] == [2000]
    assert [amount.has for amount in larger[0].amounts] == [16000]


def test_rows_do_not_tell_of_pods_that_the_viewer_may_no_longer_see():
    nodes, memo = [make_node("n1")], Memo()
    read_rows(memo, nodes, [])

    [row] = read_rows(memo, nodes, None)

    assert row.jobs is None
    assert [amount.used for amount in row.amounts] == [None]
