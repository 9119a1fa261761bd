"""Whose quota a planned workload would take, by the settings of admission that the objects show."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from tests.unit.insight.forecasts.test_forecast import NOON, queue, snapshot, workload

from muster.api.kueue import ClusterQueue, LocalQueue, Workload
from muster.insight.forecasts.quotaplan import plan_quota

BY_USAGE: dict[str, Any] = {"admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}}
PREEMPTING: dict[str, Any] = {
    "preemption": {"withinClusterQueue": "LowerOrNewerEqualPriority", "reclaimWithinCohort": "Any"}
}


def local(name: str, cpus: float, ago: timedelta = timedelta(), weight: str = "1") -> LocalQueue:
    """Return a LocalQueue of the ClusterQueue `a` whose status shows past use."""
    used = {"consumedResources": {"cpu": str(cpus)}, "lastUpdate": (NOON - ago).isoformat()}
    shown = {"weightedShare": 0, "admissionFairSharingStatus": used}
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": "ns"},
            "spec": {"clusterQueue": "a", "fairSharing": {"weight": weight}},
            "status": {"fairSharing": shown},
        },
        LocalQueue,
    )


def holder(name: str, of: str = "a", queue: str = "a") -> Workload:
    """Return a workload that holds a CPU of a ClusterQueue. of: its LocalQueue."""
    one = workload(name, queue, since=-30, usage="1")
    return msgspec.structs.replace(one, spec=msgspec.structs.replace(one.spec, queue_name=of))


@pytest.mark.parametrize(
    ("mine", "other", "victims"),
    [
        pytest.param(local("x", 1), local("y", 3), ["job-of-y"], id="the queue that used more"),
        pytest.param(local("x", 3), local("y", 1), ["job-of-x"], id="or the other"),
        pytest.param(local("x", 2), local("y", 3, timedelta(weeks=4)), ["job-of-x"], id="what has faded since"),
        pytest.param(local("x", 2), local("y", 3, weight="4"), ["job-of-x"], id="by weight"),
        pytest.param(local("x", 1), local("y", 0, weight="0"), ["job-of-y"], id="without weight"),
    ],
)
def test_past_use_chooses_the_victim(mine, other, victims):
    planned = workload("me", created=-2000)
    queues = (queue("a", "2", **BY_USAGE, **PREEMPTING),)
    seen = snapshot(planned, holder("of-x", "x"), holder("of-y", "y"), queues=queues)
    plan = plan_quota(replace(seen, local_queues=(*seen.local_queues, mine, other)), planned, "a", NOON)
    assert (plan.verdict, plan.victims) == ("preempts", victims)


def with_share(one: ClusterQueue) -> ClusterQueue:
    shown: Any = {"metadata": {"name": one.metadata.name}, "status": {"fairSharing": {"weightedShare": 0}}}
    return msgspec.structs.replace(one, status=msgspec.convert(shown, ClusterQueue).status)


@pytest.mark.parametrize(("fair", "verdict", "victims"), [(False, "waits", ()), (True, "preempts", ["job-b0"])])
def test_the_borrower_of_more_makes_room_under_fair_sharing(fair, verdict, victims):
    queues = tuple(queue(name, cpu, "all", **PREEMPTING) for name, cpu in (("a", "0"), ("b", "0"), ("c", "2")))
    planned = workload("me")
    holders = [holder(f"b{number}", "b", "b") for number in range(2)]
    seen = snapshot(planned, *holders, queues=tuple(map(with_share, queues)) if fair else queues)
    plan = plan_quota(seen, planned, "a", NOON)
    assert (plan.verdict, list(plan.victims)) == (verdict, list(victims))
