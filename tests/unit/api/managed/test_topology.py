"""What annotations of pods say about their topology, and what is wrong with them."""

import msgspec
import pytest

from muster.api.kueue import PodSetTopologyRequest
from muster.api.managed.topology import topology_request, validate_annotations

PREFIX = "kueue.x-k8s.io/podset-"


def annotations(**said):
    return {PREFIX + key.replace("_", "-"): value for key, value in said.items()}


LAYERS = '[{"topology": "rack", "size": 4}, {"topology": "host", "size": 2}]'


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        pytest.param({}, None, id="nothing"),
        pytest.param({"required_topology": "rack"}, {"required": "rack"}, id="required"),
        pytest.param({"preferred_topology": "rack"}, {"preferred": "rack"}, id="preferred"),
        pytest.param({"unconstrained_topology": "true"}, {"unconstrained": True}, id="unconstrained"),
        pytest.param({"unconstrained_topology": "0"}, {"unconstrained": False}, id="not unconstrained"),
        pytest.param({"group_name": "g"}, None, id="a group alone"),
        pytest.param(
            {"required_topology": "rack", "group_name": "g"}, {"required": "rack", "podSetGroupName": "g"}, id="group"
        ),
        pytest.param(
            {"required_topology": "block", "slice_required_topology": "rack", "slice_size": "2"},
            {"required": "block", "podSetSliceRequiredTopology": "rack", "podSetSliceSize": 2},
            id="slices",
        ),
        pytest.param(
            {"slice_required_topology_constraints": LAYERS},
            {
                "podsetSliceRequiredTopologyConstraints": [
                    {"topology": "rack", "size": 4},
                    {"topology": "host", "size": 2},
                ]
            },
            id="slices of slices",
        ),
    ],
)
def test_what_pods_ask_for(said, expected):
    found = topology_request(annotations(**said), "index")
    if expected is None:
        assert found is None
    else:
        assert found == msgspec.convert({"podIndexLabel": "index"} | expected, PodSetTopologyRequest)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        pytest.param({"required_topology": "rack"}, [], id="right"),
        pytest.param(
            {"required_topology": "a", "unconstrained_topology": "true"},
            ["more than one topology annotation"],
            id="two",
        ),
        pytest.param({"required_topology": "/x"}, ["prefix part must be non-empty"], id="no label"),
        pytest.param({"unconstrained_topology": "perhaps"}, ["must be a boolean value"], id="no boolean"),
        pytest.param({"slice_required_topology": "rack"}, ["must be set when"], id="no size"),
        pytest.param({"slice_size": "2"}, ["may not be set when"], id="no level"),
        pytest.param({"slice_required_topology": "r", "slice_size": "x"}, ["must be a numeric value"], id="no number"),
        pytest.param({"slice_required_topology": "r", "slice_size": "0"}, ["greater than or equal to 1"], id="zero"),
        pytest.param({"slice_required_topology": "r", "slice_size": "9"}, ["greater than pod set count 8"], id="nine"),
        pytest.param(
            {"group_name": "7", "required_topology": "rack"}, ["must not be a number"], id="a number as the group"
        ),
        pytest.param({"group_name": "g"}, ["may not be set when neither"], id="a group without a level"),
        pytest.param(
            {"group_name": "g", "required_topology": "b", "slice_required_topology": "r", "slice_size": "2"},
            ["may not be set when 'kueue.x-k8s.io/podset-slice-size'", "podset-slice-required-topology'"],
            id="a group with slices",
        ),
        pytest.param({"slice_required_topology_constraints": LAYERS}, [], id="slices of slices"),
        pytest.param({"slice_required_topology_constraints": "{"}, ["in JSON"], id="no JSON"),
        pytest.param({"slice_required_topology_constraints": "[]"}, ["between 1 and 3 entries"], id="no layer"),
        pytest.param(
            {"slice_required_topology_constraints": LAYERS, "slice_required_topology": "r", "slice_size": "2"},
            ["may not be set when", "may not be set when"],
            id="slices in both forms",
        ),
    ],
)
def test_what_is_wrong(said, expected):
    found = list(validate_annotations("metadata.annotations", annotations(**said), 8))
    assert len(found) == len(expected)
    for problem, part in zip(found, expected, strict=True):
        assert part in str(problem)
