"""Requests and places, to and from the form that a Workload has them in."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.kueue import PodSetTopologyRequest
from muster.queueing.model import Places, TopologyRequest
from muster.queueing.topology.written import assignment_of, domains_of, first, request_of

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
        assert [values for values, pods in domains_of(first(written, count)) for _ in range(pods)] == ranks[:count]
