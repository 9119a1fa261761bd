"""Tests of requests and places, to and from the form of a Workload."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.core import PodSpec
from muster.api.kueue import Admission, PodSetTopologyRequest
from muster.queueing.model import Places, TopologyRequest
from muster.queueing.topology.conversion import assignment_of, domains_of, places_of, request_of, take_first

LEVELS = ("block", "rack")


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param({"required": "rack"}, TopologyRequest("required", "rack"), id="required"),
        pytest.param({"preferred": "rack"}, TopologyRequest("preferred", "rack"), id="preferred"),
        pytest.param({"unconstrained": True}, TopologyRequest("unconstrained"), id="unconstrained"),
        pytest.param({"unconstrained": False}, None, id="not even unconstrained"),
        pytest.param({"podIndexLabel": "index"}, None, id="only where ranks are"),
        pytest.param(
            {"required": "block", "podSetSliceRequiredTopology": "rack", "podSetSliceSize": 2},
            TopologyRequest("required", "block", (("rack", 2),)),
            id="slices",
        ),
        pytest.param(
            {"preferred": "block", "podSetSliceRequiredTopology": "rack"},
            TopologyRequest("preferred", "block", (("rack", 1),)),
            id="slices of one pod",
        ),
        pytest.param(
            {"podsetSliceRequiredTopologyConstraints": [{"topology": "rack", "size": 4}]},
            TopologyRequest("unconstrained", "", (("rack", 4),)),
            id="slices alone",
        ),
    ],
)
def test_what_a_request_means(written, expected):
    assert request_of(msgspec.convert(written, PodSetTopologyRequest)) == expected


names = st.text("ab1-", min_size=1, max_size=4)
rows = st.lists(
    st.tuples(st.tuples(names, names), st.integers(1, 5)), min_size=1, max_size=6, unique_by=lambda row: row[0]
)


@given(rows, st.integers(0, 30))
def test_domains_survive_being_written_and_can_be_cut_by_rank(domains, count):
    written = assignment_of(Places("main", ("tas",), LEVELS, (("pods", 1),), tuple(domains)))
    assert written.levels == LEVELS
    assert domains_of(written) == tuple(domains)
    ranks = [values for values, pods in domains for _ in range(pods)]
    if count:
        assert all(pods > 0 for _, pods in domains_of(take_first(written, count)))
        assert [values for values, pods in domains_of(take_first(written, count)) for _ in range(pods)] == ranks[:count]


def test_places_are_those_of_the_podsets_that_have_some_and_are_still_there():
    placed = {"flavors": {"gpu": "tas", "cpu": "tas", "memory": "aux"}, "count": 2}
    topology = msgspec.to_builtins(assignment_of(Places("workers", (), LEVELS, (), ((("b1", "r1"), 2),))))
    rows: list[dict[str, Any]] = [
        {"name": "workers", **placed, "topologyAssignment": topology},
        {"name": "gone", **placed, "topologyAssignment": topology},
        {"name": "anywhere", **placed},
    ]
    admission = msgspec.convert({"clusterQueue": "q", "podSetAssignments": rows}, Admission)
    containers = [{"name": "c", "resources": {"requests": {"gpu": 1, "cpu": "500m", "memory": "0"}}}]
    spec = msgspec.convert({"containers": containers}, PodSpec)
    (places,) = places_of(admission, {"workers": spec, "anywhere": spec})
    requests = (("cpu", 500), ("gpu", 1), ("pods", 1))
    assert places == Places("workers", ("aux", "tas"), LEVELS, requests, ((("b1", "r1"), 2),))
