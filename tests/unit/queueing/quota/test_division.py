"""Tests of the division of what the nodes have: situations with numbers, and laws over random histories."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given as sampled
from hypothesis import strategies as st
from tests.unit.queueing import given

from muster.api.core import Node
from muster.api.kueue import ClusterQueue, ResourceFlavor
from muster.api.ours.teams import FOLLOWS_NODES, QUOTA_OF
from muster.queueing.convert import queue_spec
from muster.queueing.model import FlavorResource, WorkloadInfo
from muster.queueing.quota.division import Member, decide_quotas, divide, limit_quotas, scale
from muster.queueing.quota.tree import Tree

GPU = FlavorResource("f", "gpu")
READY = [{"type": "Ready", "status": "True", "reason": "R", "message": "m"}]


@pytest.mark.parametrize(
    ("amounts", "most", "scaled"),
    [
        ([], 4, []),
        ([1, 2], 4, [1, 2]),
        ([4, 4], 4, [2, 2]),
        ([5, 3], 4, [3, 1]),
        ([1, 1, 1], 2, [1, 1, 0]),
        ([5, 3], 0, [0, 0]),
    ],
)
def test_what_is_short_is_divided_in_proportion(amounts, most, scaled):
    assert scale(amounts, most) == scaled


# Capacity; quota, use and tree of the whole and its parts; the decided quota of each.
DIVISIONS: dict[str, tuple[int, list[tuple[int, int, str]], list[int]]] = {
    "the whole gives up its parts at once": (8, [(8, 8, "c"), (4, 0, "c")], [4, 4]),
    "the parts shrink with the nodes": (4, [(0, 0, "c"), (5, 0, "c"), (3, 0, "c")], [0, 3, 1]),
    "no nodes": (0, [(8, 2, "c"), (4, 0, "c")], [0, 0]),
    "a part in another tree waits for what the whole uses": (8, [(8, 8, "a"), (4, 0, "b")], [4, 0]),
    "a part in another tree gets what is free": (8, [(8, 6, "a"), (4, 0, "b")], [4, 2]),
    "the whole waits for what a part uses that got smaller": (8, [(5, 0, "a"), (2, 3, "b")], [5, 2]),
    "nothing is taken that is in use": (8, [(8, 7, "a"), (2, 2, "b"), (2, 0, "c")], [4, 2, 0]),
}


@pytest.mark.parametrize(("capacity", "members", "decided"), DIVISIONS.values(), ids=DIVISIONS)
def test_a_division(capacity, members, decided):
    whole, *parts = [
        Member(f"{index}", {GPU: nominal}, {GPU: used}, root) for index, (nominal, used, root) in enumerate(members)
    ]
    quotas = divide({GPU: capacity}, whole, parts)
    assert [quotas[one.name][GPU] for one in (whole, *parts)] == decided


def test_a_part_gets_nothing_of_what_no_node_has():
    part = Member("part", {GPU: 4, FlavorResource("other", "gpu"): 2}, {}, "c")
    assert divide({FlavorResource("f", "cpu"): 8}, Member("whole", {}, {}, "c"), [part])["part"] == {
        GPU: 0,
        FlavorResource("f", "cpu"): 0,
    }


members_of = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 9), st.sampled_from("abc")).map(
        lambda drawn: Member("", {GPU: drawn[0]}, {GPU: drawn[1]}, drawn[2])
    ),
    min_size=1,
    max_size=5,
)


@sampled(capacity=st.integers(0, 20), drawn=members_of)
def test_no_tree_may_use_what_another_may_use_or_uses(capacity, drawn):
    whole, *parts = [msgspec.structs.replace(one, name=f"{index}") for index, one in enumerate(drawn)]
    quotas = divide({GPU: capacity}, whole, parts)
    assert all(0 <= quotas[part.name][GPU] <= part.nominal[GPU] for part in parts)
    quota, used = Counter[str](), Counter[str]()
    for member in (whole, *parts):
        quota[member.root] += quotas[member.name][GPU]
        used[member.root] += member.used[GPU]
    assert sum(max(quota[root], used[root]) for root in quota) <= max(capacity, sum(used.values()))


def cluster_queue(name: str, gpus: Any, cohort: str = "", *, part: bool = True, lending: Any = None) -> ClusterQueue:
    quota = {"name": "gpu", "nominalQuota": str(gpus)} | ({"lendingLimit": str(lending)} if lending is not None else {})
    group = {"coveredResources": ["gpu"], "flavors": [{"name": "f", "resources": [quota]}]}
    meta = {"name": name, "annotations": {QUOTA_OF: "whole"} if part else {FOLLOWS_NODES: "true"}}
    spec = {"cohortName": cohort, "resourceGroups": [group], "namespaceSelector": {}}
    return msgspec.convert({"metadata": meta, "spec": spec}, ClusterQueue)


def machine(gpus: int) -> Node:
    document = {"metadata": {"name": "n"}, "status": {"allocatable": {"gpu": str(gpus)}, "conditions": READY}}
    return msgspec.convert(document, Node)


FLAVORS: Mapping[str, ResourceFlavor] = {"f": msgspec.convert({"metadata": {"name": "f"}}, ResourceFlavor)}


class Box:
    """A machine that is divided, and admits whatever fits."""

    def __init__(self) -> None:
        self.tree = Tree()
        self.gpus = 8
        self.queues = {"whole": cluster_queue("whole", 8, part=False)}
        self.count = 0
        self.divide()

    def divide(self) -> None:
        specs = {name: queue_spec(queue) for name, queue in self.queues.items()}
        for name in set(self.tree.queues) - set(specs):
            self.tree.remove_queue(name)
        for spec in specs.values():
            self.tree.set_queue(spec)
        decided = decide_quotas(self.tree, self.queues.values(), FLAVORS, [machine(self.gpus)])
        for spec in specs.values():
            self.tree.set_queue(limit_quotas(spec, decided))

    @property
    def held(self) -> dict[str, WorkloadInfo]:
        return {key: one for node in self.tree.queues.values() for key, one in node.workloads.items()}

    @property
    def used(self) -> int:
        return sum((one.usage or {}).get(GPU, 0) for one in self.held.values())

    def submit(self, queue: str, gpus: int) -> None:
        if queue in self.tree.queues and self.tree.queues[queue].fits({GPU: gpus}):
            self.count += 1
            self.tree.hold(given.workload(name=f"w{self.count}", queue=queue, usage={GPU: gpus}))
            assert self.used <= self.gpus, f"{queue} gave {gpus} of {self.gpus}, and {self.used} are in use"


NAMES = ("one", "two")
DEEDS = st.one_of(
    st.tuples(st.just("submit"), st.sampled_from(("whole", *NAMES)), st.integers(1, 8)),
    st.tuples(st.just("end"), st.integers(0, 30)),
    st.tuples(st.just("nodes"), st.integers(0, 12)),
    st.tuples(
        st.just("define"),
        st.sampled_from(NAMES),
        st.integers(0, 8),
        st.sampled_from(("", "teams", "other")),
        st.sampled_from((None, 0, 2)),
    ),
    st.tuples(st.just("whole"), st.sampled_from(("", "teams"))),
    st.tuples(st.just("delete"), st.sampled_from(NAMES)),
)


@sampled(deeds=st.lists(DEEDS, max_size=40))
def test_nothing_is_promised_twice_in_any_order_of_events(deeds):
    box = Box()
    for what, *about in deeds:
        match what:
            case "submit":
                box.submit(*about)
            case "end" if box.held:
                keys = sorted(box.held)
                box.tree.release(box.held[keys[about[0] % len(keys)]])
            case "nodes":
                (box.gpus,) = about
            case "define":
                name, gpus, cohort, lending = about
                box.queues[name] = cluster_queue(name, gpus, cohort, lending=lending if cohort else None)
            case "whole":
                box.queues["whole"] = cluster_queue("whole", 0, about[0], part=False)
            case "delete" if about[0] in box.queues and not box.tree.queues[about[0]].workloads:
                del box.queues[about[0]]
        box.divide()
