"""Which selections lie within others: always what looking at all nodes says."""

from hypothesis import given
from hypothesis import strategies as st

from muster.gang.nodes.devicechoice import DeviceId
from muster.gang.nodes.devicenesting import Nesting

# By node, the devices that each of two selections matches there.
Matches = dict[str, tuple[frozenset[DeviceId], frozenset[DeviceId]]]

devices = st.frozensets(st.sampled_from([("d", "p", name) for name in "abc"]), max_size=3)
steps = st.lists(st.tuples(st.sampled_from("xyz"), st.one_of(st.none(), st.tuples(devices, devices))), max_size=12)


def look_at_all(nodes: Matches) -> bool:
    return any(narrow for narrow, _ in nodes.values()) and all(narrow <= wide for narrow, wide in nodes.values())


@given(steps, st.integers(0, 12))
def test_counting_the_nodes_that_change_is_as_good_as_looking_at_all(steps, asked):
    nodes: Matches = {}
    nothing = frozenset[DeviceId](), frozenset[DeviceId]()
    nesting = Nesting(lambda selection, node: nodes.get(node, nothing)[selection == "wide"])
    for number, (node, matches) in enumerate(steps):
        nesting.add(node, -1)
        nodes.pop(node, None)
        if matches is not None:
            nodes[node] = matches
        nesting.add(node)
        if number >= asked:
            assert nesting.is_within("narrow", "wide", nodes) is look_at_all(nodes)
    nesting.forget()
    assert nesting.is_within("narrow", "wide", nodes) is look_at_all(nodes)
