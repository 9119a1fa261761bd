"""Snapshots as the start of a simulation."""

import pytest

from muster.simulation.scenario.state import StateError, name_object, read_state, select_objects

QUEUE = {"apiVersion": "v1", "kind": "LocalQueue", "metadata": {"name": "q", "namespace": "lab"}}
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "lab"}}


def document(*items, **more):
    spec = {"at": "2026-01-01T00:00:00Z", "items": list(items)} | more
    return {"apiVersion": "muster.dev/v1alpha1", "kind": "Snapshot", "spec": spec}


def test_jobs_are_told_from_what_they_run_on():
    state = read_state(document(QUEUE, POD, missing={"nodes": "no"}), "f")
    assert [one.document for one in state.objects] == [QUEUE]
    assert [pod.metadata.name for pod in state.pods] == ["p"]
    assert state.missing == {"nodes": "no"}


def test_objects_that_a_scenario_defines_are_not_those_of_the_state():
    other = QUEUE | {"metadata": {"name": "r"}}
    state = read_state(document(QUEUE, other), "f")
    assert [one.document for one in select_objects(state, {("LocalQueue", "lab", "q")})] == [other]
    assert name_object(other) == ("LocalQueue", "default", "r")


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (None, "is no snapshot: Expected `object`, got `null`"),
        (document() | {"kind": "List"}, "is a List of"),
        (document(at="2026-01-01T00:00:00"), "is no snapshot: Expected `datetime` with a timezone"),
        (document(7), "is no snapshot: Expected `object`, got `int`"),
        (document({}), r"spec.items\[0\]: Object missing required field `kind`"),
        (document(QUEUE, POD | {"spec": {"containers": [{"name": 7}]}}), "is no snapshot: Expected `str`"),
    ],
)
def test_what_is_no_snapshot_is_refused(wrong, problem):
    with pytest.raises(StateError, match=problem):
        read_state(wrong, "f")
