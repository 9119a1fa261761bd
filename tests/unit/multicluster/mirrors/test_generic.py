"""The mirror of kinds that only their configuration names."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.multicluster.mirrors.merging import merged

from muster.api.config import EMBEDDED, Configuration
from muster.api.config.types import Integrations, MultiKueue, MultiKueueExternalFramework
from muster.api.kueue import PodSet
from muster.multicluster.mirrors.generic import GenericMirror
from muster.multicluster.mirrors.table import MIRRORS, list_mirrors, mirror_of

KUEUE = "kueue.x-k8s.io"


def configured(*names: str) -> Configuration:
    kinds = tuple(MultiKueueExternalFramework(name=name) for name in names)
    return Configuration(multi_kueue=MultiKueue(external_frameworks=kinds))


(*_, MIRROR) = list_mirrors(configured("Sweep.v1.example.com"))


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("Sweep.v1.example.com", "/apis/example.com/v1/namespaces/n/sweeps/x"),
        ("Fly.v1beta1.a.io", "/apis/a.io/v1beta1/namespaces/n/flies/x"),
        ("Bus.v2.a.io", "/apis/a.io/v2/namespaces/n/buses/x"),
    ],
)
def test_each_kind_that_the_configuration_names_has_one(name, path):
    kind, _, rest = name.partition(".")
    version, _, group = rest.partition(".")
    found = mirror_of(f"{group}/{version}", kind, list_mirrors(configured(name)))
    assert isinstance(found, GenericMirror)
    assert found.kind.path("n", "x") == path
    assert mirror_of(f"{group}/{version}", kind) is None


@pytest.mark.parametrize(
    ("named", "kinds"),
    [
        (("batch/job",), ["Job"]),
        (("pod", "jobset.x-k8s.io/jobset", "ray.io/rayjob"), ["JobSet", "Pod"]),
        (EMBEDDED.integrations.frameworks, ["Job", "JobSet", "Pod"]),
    ],
)
def test_those_of_the_engine_are_there_as_their_integrations_are(named, kinds):
    found = list_mirrors(Configuration(integrations=Integrations(frameworks=named)))
    assert [one.kind.kind for one in found] == kinds
    assert set(found) <= set(MIRRORS)


def test_the_copy_is_the_job_without_what_is_its_servers():
    template = {"metadata": {"labels": {f"{KUEUE}/podset": "b"}}, "spec": {"nodeSelector": {"zone": "x"}, "more": 1}}
    job = {
        "apiVersion": "example.com/v1",
        "kind": "Sweep",
        "metadata": {"name": "s", "namespace": "n", "uid": "u", "labels": {"mine": "x"}, "finalizers": ["f"]},
        "spec": {"managedBy": f"{KUEUE}/multikueue", "suspend": False, "groups": [{"template": template}], "x": None},
        "data": {"k": "v"},
        "status": {"running": 3},
    }
    podset = msgspec.convert({"name": "b", "count": 1, "template": {"spec": {"nodeSelector": {"own": "y"}}}}, PodSet)
    assert MIRROR.is_handed_over(job)
    assert MIRROR.copy(job, "w", "here", [podset]) == {
        "apiVersion": "example.com/v1",
        "kind": "Sweep",
        "metadata": {
            "name": "s",
            "namespace": "n",
            "labels": {"mine": "x", f"{KUEUE}/multikueue-origin": "here", f"{KUEUE}/prebuilt-workload-name": "w"},
            "annotations": {f"{KUEUE}/multikueue-origin-uid": "u", f"{KUEUE}/prebuilt-workload-name": "w"},
        },
        "spec": {
            "suspend": True,
            "groups": [{"template": {"metadata": {}, "spec": {"nodeSelector": {"own": "y"}, "more": 1}}}],
            "x": None,
        },
        "data": {"k": "v"},
    }


@pytest.mark.parametrize(
    "part",
    [
        {"metadata": {"labels": {f"{KUEUE}/podset": ["b"]}}, "spec": {}},
        {"metadata": {"labels": {f"{KUEUE}/podset": "b"}}, "spec": "b"},
        {"metadata": {"labels": {f"{KUEUE}/podset": "b"}}, "spec": None},
    ],
    ids=["name-of-another-type", "spec-of-another-type", "no-spec"],
)
def test_a_part_that_only_resembles_a_template_is_copied_as_it_is(part):
    job = {"metadata": {"name": "s", "namespace": "n"}, "spec": {"managedBy": f"{KUEUE}/multikueue", "part": part}}
    podset = msgspec.convert({"name": "b", "count": 1, "template": {"spec": {"nodeSelector": {"own": "y"}}}}, PodSet)
    assert MIRROR.copy(job, "w", "here", [podset])["spec"] == {"part": part}


@pytest.mark.parametrize("job", [{}, {"spec": {}}, {"spec": None}, {"spec": {"managedBy": 3}}, {"spec": []}])
def test_what_says_nothing_is_not_handed_over(job):
    assert not MIRROR.is_handed_over(job)


def test_a_kind_that_cannot_be_suspended_is_not():
    assert MIRROR.copy({"metadata": {"name": "s"}, "spec": {"x": 1}}, "w", "here")["spec"] == {"x": 1}


@pytest.mark.parametrize(
    ("here", "there", "patch"),
    [
        ({}, {}, {}),
        ({}, {"running": 1}, {"running": 1}),
        ({"running": 1}, {"running": 1}, {}),
        ({"running": 1, "old": 2}, {"running": 2}, {"running": 2, "old": None}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, {"a": {"c": None}}),
        ({"a": {"b": 1}}, {"a": [1]}, {"a": [1]}),
        ({"a": None}, {}, {}),
        ({}, {"a": None}, {}),
        ({"a": 1}, {"a": None}, {"a": None}),
    ],
)
def test_the_status_is_all_that_it_is_there(here, there, patch):
    assert MIRROR.status({"status": here}, {"status": there}) == patch


def test_a_status_that_is_none_is_empty():
    assert MIRROR.status({"status": {"a": 1}}, {"status": "nonsense"}) == {"a": None}


def test_one_whose_worker_is_lost_is_as_one_that_never_ran():
    assert MIRROR.make_stop_patch({"status": {"running": 3, "ready": 1}}, datetime.now(UTC)) == {
        "running": None,
        "ready": None,
    }
    assert MIRROR.make_stop_patch({}, datetime.now(UTC)) == {}


@pytest.mark.parametrize(("spec", "started"), [({"suspend": True}, False), ({"suspend": False}, True), ({}, True)])
def test_it_has_started_unless_it_is_suspended(spec, started):
    assert MIRROR.has_started({"spec": spec}) is started


_JSON: Any = st.recursive(
    st.none() | st.integers(0, 2) | st.sampled_from(["x", "y"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
_STATUS = st.dictionaries(st.sampled_from("abc"), _JSON, max_size=3)


@given(_STATUS, _STATUS)
def test_after_the_patch_there_is_nothing_left_to_change(here, there):
    after = merged(here, MIRROR.status({"status": here}, {"status": there}))
    assert MIRROR.status({"status": after}, {"status": there}) == {}
