"""For whom pods run."""

import msgspec
import pytest

from muster.api.core import Pod
from muster.controllers.scheduler.roster import tenant_of

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
