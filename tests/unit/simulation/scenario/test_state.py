"""Snapshots as the start of a simulation."""

import json

import msgspec
import pytest
import yaml

from muster.simulation.scenario.state import StateError, name_object, omit_redefined, parse_state, read_state

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
    assert [one.document for one in omit_redefined(state, {("LocalQueue", "lab", "q")})] == [other]
    assert name_object(other) == ("LocalQueue", "default", "r")


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (None, "is no snapshot: Expected `object`, got `null`"),
        (document() | {"kind": "List"}, "is a List of"),
        (document(at="2026-01-01T00:00:00"), "is no snapshot: Expected `datetime` with a timezone"),
        (document(7), "is no snapshot: Expected `object`, got `int`"),
        (document({}), r"spec.items\[0\]: Object missing required field `kind`"),
        (
            document(QUEUE, POD | {"spec": {"containers": [{"name": 7}]}}),
            r"spec\.items\[1\]: Pod lab/p: Expected `str`, got `int` - at `\$\.spec\.containers\[0\]\.name`",
        ),
    ],
)
def test_what_is_no_snapshot_is_refused(wrong, problem):
    with pytest.raises(StateError, match=problem):
        read_state(wrong, "f")


HEAD = """apiVersion: muster.dev/v1alpha1
kind: Snapshot
spec:
  at: '2026-01-01T00:00:00Z'
"""


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(document(QUEUE, POD)),
        yaml.safe_dump(document(QUEUE, POD)),
        HEAD + f"  items:\n  - {json.dumps(QUEUE)}\n  - {json.dumps(POD)}\n",
        HEAD + f"  items:\n  - {json.dumps(QUEUE)}\n  - kind: Pod\n    apiVersion: v1\n"
        "    metadata: {name: p, namespace: lab}\n",
    ],
    ids=["json", "blocks", "lines", "mixed"],
)
def test_a_snapshot_is_read_in_any_form(text):
    assert parse_state(text.encode()) == document(QUEUE, POD)


def test_a_plain_time_of_day_of_a_snapshot_is_a_text():
    item = "  - kind: Node\n    metadata: {name: 12:30, labels: {a: 1:30:00, b: 22:22.5, n: 7}}\n"
    [node] = parse_state(f"{HEAD}  items:\n{item}".encode())["spec"]["items"]
    assert node["metadata"] == {"name": "12:30", "labels": {"a": "1:30:00", "b": "22:22.5", "n": 7}}


@pytest.mark.parametrize("line", ["  decisions: []", '  decisions:\n  - {"what": "Placed"}\n  - {"what": "Waiting"}'])
def test_the_decisions_of_a_snapshot_are_not_read(line):
    text = HEAD + f"  items:\n  - {json.dumps(QUEUE)}\n  - {json.dumps(POD)}\n{line}\n"
    assert parse_state(text.encode()) == document(QUEUE, POD)


@pytest.mark.parametrize("text", ["{", "a: [", HEAD + "  items:\n  - {x}\n", "  items:\n  - {}\n  - {]}"])
def test_text_that_is_neither_yaml_nor_json_is_refused(text):
    with pytest.raises((yaml.YAMLError, msgspec.DecodeError, StateError)):
        parse_state(text.encode())
