"""How long a workload would wait in a worker cluster, as far as its manager can know."""

from math import inf
from typing import Any

import msgspec
import pytest

from muster.api.kueue import ClusterQueue, Workload
from muster.api.values.quantity import QuantityError
from muster.multicluster.dispatch.earliest import Ahead, Load, seconds_until_start, sum_requests

USUAL = 1000.0


def queue(
    quotas: dict[str, dict[str, Any]], used: dict[str, dict[str, Any]] | None = None, pending: int = 0, **spec: Any
) -> ClusterQueue:
    """Of one group of flavors, and what is reserved of them."""
    flavors = [
        {"name": flavor, "resources": [{"name": name, "nominalQuota": n} for name, n in quota.items()]}
        for flavor, quota in quotas.items()
    ]
    reserved = [
        {"name": flavor, "resources": [{"name": name, "total": n, "borrowed": 0} for name, n in usage.items()]}
        for flavor, usage in (used or {}).items()
    ]
    group = {"coveredResources": list(next(iter(quotas.values()))), "flavors": flavors}
    status = {"flavorsReservation": reserved, "pendingWorkloads": pending}
    return msgspec.convert({"spec": {"resourceGroups": [group], **spec}, "status": status}, ClusterQueue)


def cpus(total: int, used: int = 0, pending: int = 0, **spec: Any) -> ClusterQueue:
    return queue({"f": {"cpu": total}}, {"f": {"cpu": used}}, pending, **spec)


def running(cpu: int, seconds: float) -> Ahead:
    return Ahead({"cpu": cpu * 1000}, seconds, holds=True)


def waiting(cpu: int, seconds: float) -> Ahead:
    return Ahead({"cpu": cpu * 1000}, seconds, holds=False)


def wait(there: ClusterQueue, *ahead: Ahead, cpu: int = 2, **asked: int) -> float:
    load = Load()
    for one in ahead:
        load = load.add_workload(one)
    return seconds_until_start({"cpu": cpu * 1000, **asked}, there, load, USUAL)


@pytest.mark.parametrize(
    ("there", "ahead", "seconds"),
    [
        pytest.param(cpus(4), (), 0, id="it is empty"),
        pytest.param(cpus(4, 2), (running(2, 500),), 0, id="there is room beside what runs"),
        pytest.param(cpus(4, 4), (running(4, 500),), 500, id="all runs out at once"),
        pytest.param(cpus(4, 4), (running(2, 500), running(2, 100)), 300, id="the work is shared out"),
        pytest.param(cpus(4, 0), (running(4, 500),), 500, id="what it has just admitted is not in its status yet"),
        pytest.param(cpus(4, 0), (waiting(4, 500),), 500, id="what was just sent takes the room"),
        pytest.param(cpus(4, 4, 1), (running(4, 100), waiting(4, 300)), 400, id="who waits there goes first"),
        pytest.param(cpus(4, 4), (), USUAL, id="others run there as long as is usual"),
        pytest.param(cpus(4, 4, 2), (running(4, 100),), 100 + USUAL, id="others wait there, each as large as this one"),
        pytest.param(cpus(4, 0, 1, stopPolicy="Hold"), (), inf, id="it is stopped"),
        pytest.param(cpus(1), (), inf, id="it is larger than all there is"),
        pytest.param(queue({"f": {"memory": "1Gi"}}), (), inf, id="there is none of what it asks for"),
        pytest.param(queue({"f": {"cpu": 1}, "g": {"cpu": 1}}), (), inf, id="no flavor is large enough for it"),
        pytest.param(
            queue({"f": {"cpu": 2}, "g": {"cpu": 2}}, {"f": {"cpu": 1}, "g": {"cpu": 1}}),
            (running(1, 80), running(1, 80)),
            40,
            id="there is room in no flavor alone",
        ),
        pytest.param(
            queue({"f": {"cpu": 2}, "g": {"cpu": 2}}, {"f": {"cpu": 2}}), (running(2, 80),), 0, id="a flavor is free"
        ),
        pytest.param(
            queue({"f": {"cpu": "1999m"}, "g": {"cpu": "2001m"}}, {"g": {"cpu": "2m"}}),
            (),
            USUAL / 2000,
            id="the flavor that is free is too small by a little",
        ),
    ],
)
def test_the_wait(there: ClusterQueue, ahead: tuple[Ahead, ...], seconds: float) -> None:
    assert wait(there, *ahead) == seconds


def test_the_scarcest_resource_counts() -> None:
    there = queue({"f": {"cpu": 4, "gpu": 1}}, {"f": {"cpu": 1, "gpu": 1}})
    assert wait(there, Ahead({"cpu": 1000, "gpu": 1}, 600, holds=True), gpu=1) == 600


def test_a_flavor_needs_room_for_all_that_it_covers() -> None:
    quota = {"cpu": 4, "gpu": 2}
    used = {"f": {"cpu": 4, "gpu": 0}, "g": {"cpu": 0, "gpu": 2}}
    assert wait(queue({"f": quota, "g": quota}, used), gpu=1) > 0
    assert wait(queue({"f": quota, "g": quota}, {"f": used["f"]}), gpu=1) == 0


@pytest.mark.parametrize(("quota", "seconds"), [({}, 0), ({"pods": 2}, 0), ({"pods": 1}, inf)])
def test_pods_count_only_where_there_is_a_quota_for_them(quota: dict[str, int], seconds: float) -> None:
    assert wait(queue({"f": {"cpu": 4} | quota}), pods=2) == seconds


@pytest.mark.parametrize("amount", ["much", "1e100", "-5", "-1m"])
def test_a_quota_that_is_none_is_an_error(amount: str) -> None:
    with pytest.raises(QuantityError):
        wait(queue({"f": {"cpu": 5}, "g": {"cpu": amount}}))


def test_the_size_is_what_it_has_here() -> None:
    usage = [{"name": name, "resourceUsage": {"cpu": "1500m", "memory": "1Gi", "gpu": "0"}} for name in "ab"]
    document = {"status": {"admission": {"clusterQueue": "cq", "podSetAssignments": usage}}}
    assert sum_requests(msgspec.convert(document, Workload)) == {"cpu": 3000, "memory": 2 << 30}
    assert sum_requests(Workload()) == {}
