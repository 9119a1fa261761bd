"""Variants: what merging and setting by path make of the documents of a scenario."""

import pytest

from muster.api.values.manifests import Manifest
from muster.simulation.scenario.overlays import (
    Overlay,
    OverlayError,
    locate_field,
    merge,
    vary_manifests,
    vary_scenario,
)

QUEUE = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "a"}, "spec": {"x": 1}}


@pytest.mark.parametrize(
    ("before", "patch", "after"),
    [
        ({"a": 1, "b": 2}, {"b": 3}, {"a": 1, "b": 3}),
        ({"a": 1, "b": 2}, {"b": None}, {"a": 1}),
        ([{"name": "x", "n": 1}, {"name": "y"}], [{"name": "x", "n": 2}], [{"name": "x", "n": 2}, {"name": "y"}]),
        ([{"name": "x"}], [{"name": "y"}], [{"name": "x"}, {"name": "y"}]),
        ([{"name": "x"}, {"name": "y"}], [{"name": "x", "$patch": "delete"}], [{"name": "y"}]),
        ([{"name": "x"}], [], []),
        ([1, 2], [3], [3]),
    ],
)
def test_a_patch_is_merged(before, patch, after):
    assert merge(before, patch) == after


def test_manifests_are_merged_added_and_removed_by_kind_and_name():
    changed = vary_manifests([Manifest("f", QUEUE)], [Overlay("v", manifests=[QUEUE | {"spec": {"x": 2}}])])
    assert [(one.where, one.document["spec"]) for one in changed] == [("v.manifests[0]", {"x": 2})]
    other = QUEUE | {"metadata": {"name": "b"}}
    assert len(vary_manifests([Manifest("f", QUEUE)], [Overlay("v", manifests=[other])])) == 2
    assert vary_manifests([Manifest("f", QUEUE)], [Overlay("v", manifests=[QUEUE | {"$patch": "delete"}])]) == []
    assert QUEUE["spec"] == {"x": 1}


@pytest.mark.parametrize(
    ("patch", "problem"),
    [
        ({"kind": "ClusterQueue"}, "apiVersion and kind are needed"),
        ({"apiVersion": "v1", "kind": "Node", "metadata": {}}, "metadata.name is needed"),
        (QUEUE | {"metadata": {"name": "b"}, "$patch": "delete"}, "no manifest is a ClusterQueue b"),
    ],
)
def test_a_manifest_that_changes_nothing_is_refused(patch, problem):
    with pytest.raises(OverlayError, match=problem):
        vary_manifests([Manifest("f", QUEUE)], [Overlay("v", manifests=[patch])])


def test_variants_share_the_seed():
    with pytest.raises(OverlayError, match=r"spec\.seed: is the same for all variants"):
        vary_scenario({"spec": {}}, [Overlay("v", spec={"seed": 3})])


DOCUMENT = {"spec": {"until": "1d", "work": [{"name": "a"}, {"name": "b", "runTime": "5x", "count": 1}]}}


@pytest.mark.parametrize(
    ("path", "where"),
    [
        ("spec.work[1].runTime", "v.spec.work[0].runTime"),
        ("spec.work[1].count", "s"),
        ("spec.work[0].runTime", "v, s: spec.work[0].runTime"),
        ("spec.work[1].trace", "v, s: spec.work[1].trace"),
        ("spec.until", "v.spec.until"),
        ("spec.work[0].trace.queues[...]", "v, s: spec.work[0].trace.queues[...]"),
        ("spec", "v, s: spec"),
        ("", "v, s"),
    ],
)
def test_a_field_is_located_in_the_overlay_that_sets_it(path, where):
    own = Overlay("v", spec={"until": "1d", "work": [{"name": "b", "runTime": "5x"}]})
    swept = Overlay("s", settings={"work.b.count": 1})
    assert locate_field([own, swept], DOCUMENT, path) == where
