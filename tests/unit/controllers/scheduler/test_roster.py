"""For whom pods run, and what stays of devices that they asked for."""

import msgspec
import pytest

from muster.api.core import Node, Pod
from muster.api.groups.resource import DeviceClass, ResourceClaim, ResourceSlice
from muster.controllers.scheduler.roster import Roster, tenant_of
from muster.gang.nodes.capacity import Strategy
from muster.gang.nodes.deviceselections import MOST_SELECTIONS

CLUSTER = {"kueue.x-k8s.io/cluster-queue-name": "research"}
LOCAL = {"kueue.x-k8s.io/local-queue-name": "team"}
ASKED = {"kueue.x-k8s.io/queue-name": "team"}
VOLCANO = {"scheduling.volcano.sh/queue-name": "gold"}
VOLCANO_JOB = {"volcano.sh/queue-name": "gold"}


@pytest.mark.parametrize(
    ("metadata", "tenant"),
    [
        pytest.param({}, "ns/", id="the namespace"),
        pytest.param({"labels": ASKED}, "ns/team", id="the queue that was asked for"),
        pytest.param({"labels": LOCAL}, "ns/team", id="the LocalQueue"),
        pytest.param({"labels": CLUSTER | LOCAL}, "research", id="the ClusterQueue, of all namespaces"),
        pytest.param({"annotations": VOLCANO}, "gold", id="Volcano's"),
        pytest.param({"annotations": VOLCANO_JOB}, "gold", id="Volcano's, of its Jobs"),
        pytest.param({"labels": CLUSTER, "annotations": VOLCANO}, "research", id="quota goes first"),
    ],
)
def test_for_whom_a_pod_runs(metadata, tenant):
    pod = msgspec.convert({"metadata": {"name": "p", "namespace": "ns", **metadata}}, Pod)
    assert tenant_of(pod) == tenant


def _claim(number: int) -> ResourceClaim:
    """Return the claim of a pod, with a selector of its own."""
    exactly = {
        "deviceClassName": "gpu",
        "allocationMode": "ExactCount",
        "count": 1,
        "selectors": [{"cel": {"expression": f"s{number}"}}],
    }
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": f"u{number}", "controller": True}
    document = {
        "metadata": {"name": f"c{number}", "namespace": "ns", "ownerReferences": [owner]},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
    }
    return msgspec.convert(document, ResourceClaim)


def test_selectors_that_come_and_go_leave_nothing_behind():
    roster = Roster((), (), Strategy.TIGHT, lambda *_: True)
    node = {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4"}}}
    slice_ = {
        "driver": "d",
        "nodeName": "n",
        "pool": {"name": "n", "resourceSliceCount": 1},
        "devices": [{"name": "a"}],
    }
    roster.node_changed(None, msgspec.convert(node, Node))
    roster.device_class_changed(None, msgspec.convert({"metadata": {"name": "gpu"}}, DeviceClass))
    roster.slice_changed(None, msgspec.convert({"metadata": {"name": "s"}, "spec": slice_}, ResourceSlice))
    for number in range(3 * MOST_SELECTIONS):
        roster.resource_claim_changed(None, _claim(number))
        roster.resource_claim_changed(_claim(number), None)
    assert len(roster.capacity.free()) <= MOST_SELECTIONS + 2


def test_pods_count_for_their_tenant_from_the_decision_to_bind_them():
    """Meanwhile the next gang is compared with them."""
    roster = Roster((), (), Strategy.TIGHT)
    node = {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4"}}}
    roster.node_changed(None, msgspec.convert(node, Node))
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    document = {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": {"containers": [container]}}
    pod = msgspec.convert(document, Pod)
    shares = []
    roster.assume(pod, "n")
    shares.append(roster.shares.share("ns/", {"cpu": 4000}))
    roster.unassume("u")
    shares.append(roster.shares.share("ns/", {"cpu": 4000}))
    assert shares == [0.25, 0]
