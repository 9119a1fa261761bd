"""Tests of elastic workloads: a smaller size takes effect at once, and missing pods queue for the same flavors."""

from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.kueue import Admission, Workload, WorkloadStatus
from muster.api.managed.dispatch import Refusal
from muster.api.values.quantity import format_amount
from muster.queueing.convert import convert_workload as read
from muster.queueing.elastic import growth
from muster.queueing.model import FlavorResource

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ELASTIC = {"kueue.x-k8s.io/elastic-job": "true"}
ADMITTED = ("QuotaReserved", "Admitted")


def workload(wanted=4, granted=2, *, annotations=ELASTIC, true=ADMITTED):
    container = {"name": "c", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}
    condition = {"status": "True", "reason": "r", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    document = {
        "metadata": {
            "name": "w",
            "namespace": "ns",
            "annotations": annotations,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {
            "queueName": "lq",
            "podSets": [{"name": "main", "count": wanted, "template": {"spec": {"containers": [container]}}}],
        },
        "status": {
            "conditions": [condition | {"type": type_} for type_ in true],
            "admission": {"clusterQueue": "cq", "podSetAssignments": [assigned(granted)]},
        },
    }
    return msgspec.convert(document, Workload)


def assigned(count):
    return {
        "name": "main",
        "count": count,
        "flavors": {"cpu": "f", "memory": "f"},
        "resourceUsage": {"cpu": format_amount("cpu", count * 500), "memory": format_amount("memory", count * 2**30)},
    }


REFUSED = Refusal.of(workload(), "No!").make_annotation()


def usage(made):
    held = read(made, "cq").usage
    assert held is not None
    return dict(held)


def test_what_is_missing_waits_under_its_own_key_for_the_same_flavors():
    more = growth.find_growth(workload(wanted=5), "cq")
    assert (more.growth_of, more.whole, more.queue, more.local_queue, more.usage) == (
        "ns/w",
        "ns/w",
        "cq",
        "ns/lq",
        None,
    )
    assert more.key == growth.growth_key("ns/w") != "ns/w"
    assert growth.whole_key(more.key) == growth.whole_key("ns/w") == "ns/w"
    (podset,) = more.podsets
    assert (podset.count, podset.least, podset.flavors) == (3, None, {"cpu": "f", "memory": "f"})
    assert podset.requests == {"cpu": 500, "memory": 2**30}


@pytest.mark.parametrize(
    "made",
    [
        workload(wanted=2),
        workload(wanted=1),
        workload(annotations={}),
        workload(true=("QuotaReserved",)),
        workload(true=(*ADMITTED, "Evicted")),
        workload(true=(*ADMITTED, "Finished")),
        workload(annotations=ELASTIC | REFUSED),
    ],
    ids=["it has all", "it has more", "not elastic", "not admitted yet", "evicted", "finished", "refused elsewhere"],
)
def test_nothing_waits(made):
    assert growth.find_growth(made, "cq") is None


def test_another_size_than_was_refused_waits():
    assert growth.find_growth(workload(wanted=5, annotations=ELASTIC | REFUSED), "cq").podsets[0].count == 3


def test_what_is_granted():
    assert growth.count_granted_pods(workload()) == {"main": 2}
    assert growth.count_granted_pods(workload(true=("QuotaReserved",))) == {}
    assert growth.count_granted_pods(Workload()) == {}


@pytest.mark.parametrize(
    ("made", "size"),
    [
        (workload(wanted=4, granted=2), 2),
        (workload(wanted=1, granted=2), 1),
        (workload(wanted=4, granted=2, annotations={}), 4),
        (msgspec.structs.replace(workload(wanted=4), status=WorkloadStatus()), 4),
    ],
    ids=["it lacks some", "it has more", "not elastic", "without quota"],
)
def test_what_there_is_quota_for(made, size):
    assert [podset.count for podset in growth.list_granted_podsets(made)] == [size]


def test_it_is_lowered_to_what_is_wanted_and_never_raised():
    status = workload(granted=4).status
    assert growth.limit_granted_pods(status, {"main": 9}) is status
    result = msgspec.structs.replace(workload(wanted=1), status=growth.limit_granted_pods(status, {"main": 1}))
    (given_,) = result.status.admission.pod_set_assignments
    assert (given_.count, given_.resource_usage) == (1, {"cpu": "500m", "memory": "1Gi"})
    assert usage(result) == {FlavorResource("f", "cpu"): 500, FlavorResource("f", "memory"): 2**30}


@given(st.integers(1, 50), st.integers(1, 50), st.integers(1, 50))
def test_up_and_down_are_the_same_way(first, more, least):
    """Whatever the way, the usage is that of so many pods."""
    before = workload(wanted=first, granted=first)
    extra = msgspec.convert({"clusterQueue": "cq", "podSetAssignments": [assigned(more)]}, Admission)
    grown = growth.add_growth(before.status, extra)
    assert growth.limit_granted_pods(grown, {"main": first}) == before.status
    result = msgspec.structs.replace(workload(wanted=first + more), status=grown)
    assert usage(result)[FlavorResource("f", "cpu")] == (first + more) * 500
    small = msgspec.structs.replace(workload(wanted=least), status=growth.limit_granted_pods(grown, {"main": least}))
    assert usage(small)[FlavorResource("f", "memory")] == min(least, first + more) * 2**30


def resize(made, **changes):
    podset = msgspec.structs.replace(made.spec.pod_sets[0], **changes)
    return msgspec.structs.replace(made.spec, pod_sets=(podset,))


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        (
            workload(wanted=4).spec,
            workload(wanted=7).spec,
            [{"op": "add", "path": "/spec/podSets/0/count", "value": 7}],
        ),
        (workload(wanted=4).spec, workload(wanted=4).spec, []),
        (workload(wanted=4).spec, resize(workload(), count=7, name="other"), []),
        (workload(wanted=4).spec, msgspec.structs.replace(workload(wanted=7).spec, priority=9), []),
    ],
    ids=["another size", "the same size", "another podset", "something else as well"],
)
def test_a_patch_has_another_size_and_nothing_else(old, new, patch):
    assert growth.make_resize_patch(old, new) == patch


def test_of_several_podsets_only_those_change_that_are_wanted_in_another_size():
    spec = workload(wanted=4).spec
    one, two = spec.pod_sets[0], msgspec.structs.replace(spec.pod_sets[0], name="two", count=2)
    old = msgspec.structs.replace(spec, pod_sets=(one, two))
    new = msgspec.structs.replace(spec, pod_sets=(one, msgspec.structs.replace(two, count=3)))
    assert growth.make_resize_patch(old, new) == [{"op": "add", "path": "/spec/podSets/1/count", "value": 3}]
    admission = msgspec.convert(
        {"clusterQueue": "cq", "podSetAssignments": [assigned(4), assigned(2) | {"name": "two"}]}, Admission
    )
    status = WorkloadStatus(admission=admission)
    assert growth.limit_granted_pods(WorkloadStatus(), {}) == WorkloadStatus()
    counts = [
        pods.count for pods in growth.limit_granted_pods(status, {"main": 4, "two": 1}).admission.pod_set_assignments
    ]
    assert counts == [4, 1]
    more = msgspec.convert({"clusterQueue": "cq", "podSetAssignments": [assigned(3) | {"name": "two"}]}, Admission)
    assert [pods.count for pods in growth.add_growth(status, more).admission.pod_set_assignments] == [4, 5]


def test_while_it_shrinks_what_ended_in_the_part_that_goes_is_not_given_back_twice():
    """The spec is written before the status: in between nothing of what still runs may be free (pitfall 40)."""
    result = workload(wanted=2, granted=4)
    stale = msgspec.structs.replace(
        result,
        status=msgspec.convert(
            msgspec.to_builtins(result.status) | {"reclaimablePods": [{"name": "main", "count": 2}]},
            type(result.status),
        ),
    )
    assert usage(stale)[FlavorResource("f", "cpu")] == 1000


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        (workload(granted=2), workload(granted=3), True),
        (workload(granted=3), workload(granted=2), False),
        (workload(granted=2), workload(granted=2, wanted=6), False),
        (workload(granted=2, true=("QuotaReserved",)), workload(granted=3), False),
        (workload(granted=2, annotations={}), workload(granted=3, annotations={}), False),
    ],
    ids=["more", "less", "only wanted", "just admitted", "not elastic"],
)
def test_whether_a_workload_that_runs_was_given_more(old, new, what):
    assert growth.has_grown(old, new) is what
