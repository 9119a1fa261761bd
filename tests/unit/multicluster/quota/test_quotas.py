"""The quota of a manager's queue as the sum of its workers': upstream's cases (TestCQReconcile); hostile workers."""

from typing import Any

import msgspec
import pytest

from muster.api.kueue import ClusterQueue, MultiKueueConfig
from muster.multicluster.quota.quotas import MOST, WorkerQueues, plan_quota

DONE = "QuotaAutomated: ClusterQueue quota is automatically managed based on MultiKueue workers."
CONFIG = {"spec": {"clusters": ["a", "b"], "quotaManagement": "Automated"}}
UNSUPPORTED = "UnsupportedConfiguration: "

Quotas = dict[str, Any]


def queue(name: str, *groups: dict[str, Quotas], **more: Any) -> ClusterQueue:
    """Of groups of flavors with their quotas."""
    spec = {"resourceGroups": [_group(group) for group in groups]}
    return msgspec.convert({"metadata": {"name": name, **more}, "spec": spec}, ClusterQueue)


def _group(flavors: dict[str, Quotas]) -> dict[str, Any]:
    covered = next(iter(flavors.values()))
    written = [
        {"name": flavor, "resources": [{"name": name, "nominalQuota": amount} for name, amount in quotas.items()]}
        for flavor, quotas in flavors.items()
    ]
    return {"coveredResources": list(covered), "flavors": written}


def worker(cluster: str, *quotas: Quotas) -> WorkerQueues:
    """One with a ClusterQueue of one flavor for each of the quotas."""
    return WorkerQueues(cluster, queues=tuple(queue(f"q{i}", {"f": one}) for i, one in enumerate(quotas)))


def found(
    mine: ClusterQueue, *workers: WorkerQueues, config: dict[str, Any] | None = CONFIG
) -> tuple[Quotas, str] | None:
    """The quotas that the queue has afterwards, and what is said of it; None: nothing yet."""
    given = msgspec.convert(config, MultiKueueConfig) if config is not None else None
    plan = plan_quota(mine, given, workers)
    if plan is None:
        return None
    quotas = {
        one.name: one.nominal_quota for group in plan.groups for flavor in group.flavors for one in flavor.resources
    }
    said = plan.automation
    assert said.active == (said.reason == "QuotaAutomated")
    return quotas, f"{said.reason}: {said.message}"


CPU = queue("cq", {"default": {"cpu": "0"}})


@pytest.mark.parametrize(
    ("mine", "workers", "quotas"),
    [
        (
            queue("cq", {"default": {"cpu": "0", "memory": "0"}}),
            [worker("a", {"cpu": "10", "memory": "20Gi"}), worker("b", {"cpu": "5", "memory": "10Gi"})],
            {"cpu": "15", "memory": "30Gi"},
        ),
        (CPU, [worker("a", {"cpu": "10"}), WorkerQueues("b", lost=True)], {"cpu": "10"}),
        (CPU, [worker("a", {"cpu": "10"}), worker("b", {"cpu": "5"}, {"cpu": "8"})], {"cpu": "23"}),
        (CPU, [worker("a", {"cpu": "1500m"}), worker("b", {"cpu": 0.5})], {"cpu": "2"}),
        (
            queue("cq", {"default": {"cpu": "0", "gpu": "0"}}),
            [
                WorkerQueues("a", queues=(queue("q", {"f": {"cpu": "10"}}, {"g": {"gpu": "1"}}),)),
                WorkerQueues("b", queues=(queue("q", {"f": {"cpu": "5", "gpu": "2"}, "o": {"cpu": "4", "gpu": "1"}}),)),
            ],
            {"cpu": "19", "gpu": "4"},
        ),
        (
            queue("cq", {"default": {"cpu": "7", "memory": "7", "gpu": "7"}}),
            [worker("a", {"cpu": "10", "memory": "20Gi"}), worker("b", {"cpu": "5"})],
            {"cpu": "15", "memory": "20Gi", "gpu": "0"},
        ),
        (queue("cq", {"default": {"cpu": "15000m"}}), [worker("a", {"cpu": "15"})], {"cpu": "15000m"}),
        (queue("cq", {"default": {"cpu": "9"}}), [], {"cpu": "0"}),
        (queue("cq", {"default": {"cpu": "0m"}}), [], {"cpu": "0m"}),
    ],
)
def test_the_quota_is_the_sum(mine: ClusterQueue, workers: list[WorkerQueues], quotas: Quotas) -> None:
    assert found(mine, *workers) == (quotas, DONE)


@pytest.mark.parametrize(
    ("mine", "workers", "config", "said"),
    [
        (CPU, [], None, UNSUPPORTED + "The referenced MultiKueueConfig was not found."),
        *(
            (CPU, [worker("a", {"cpu": "10"})], {"spec": {"clusters": ["a"], **manual}}, not_requested)
            for manual in ({}, {"quotaManagement": "Manual"})
            for not_requested in ["NotRequested: MultiKueue manager quota automation has not been requested."]
        ),
        *(
            (mine, [], CONFIG, UNSUPPORTED + one_flavor)
            for mine in (
                queue("cq", {"default": {"cpu": "0"}}, {"gpu": {"gpu": "0"}}),
                queue("cq", {"a": {"cpu": "0"}, "b": {"cpu": "0"}}),
                queue("cq"),
            )
            for one_flavor in [
                "Quota automation requires that the manager-side ClusterQueue has exactly one ResourceFlavor"
            ]
        ),
        (
            CPU,
            [worker("a", {"memory": "10Gi", "gpu": "2"})],
            CONFIG,
            UNSUPPORTED + "manager-side coveredResources is missing resources configured on workers: [gpu memory]",
        ),
        (
            CPU,
            [worker("a", {"cpu": "1"}), WorkerQueues("b", refusal="it may not")],
            CONFIG,
            UNSUPPORTED + 'worker cluster "b": it may not',
        ),
        (
            queue("cq", {"default": {"cpu": "0"}}, annotations={"muster.dev/quota-from-nodes": "true"}),
            [worker("a", {"cpu": "1"})],
            CONFIG,
            UNSUPPORTED + "its quota is that of the nodes here: muster.dev/quota-from-nodes",
        ),
    ],
)
def test_what_is_not_supported_changes_nothing(
    mine: ClusterQueue, workers: list[WorkerQueues], config: Any, said: str
) -> None:
    before = found(mine, config=None)
    assert before is not None
    assert found(mine, *workers, config=config) == (before[0], said)


@pytest.mark.parametrize("amount", ["-1", "1e60", str(MOST + 1), "much", "", "9" * 1000])
def test_a_worker_with_an_absurd_quota_changes_nothing(amount: str) -> None:
    said = found(CPU, worker("a", {"cpu": "1"}), worker("b", {"cpu": amount}))
    assert said is not None
    assert said[0] == {"cpu": "0"}
    assert said[1].startswith(UNSUPPORTED + 'worker cluster "b": ')


@pytest.mark.parametrize(("amount", "possible"), [(2**63 - 1, True), (2**63, False)])
def test_the_largest_quota_is_the_largest_number_of_64_bits(amount: int, possible: bool) -> None:
    said = found(queue("cq", {"default": {"gpu": "0"}}), worker("a", {"gpu": str(amount)}))
    assert said is not None
    assert (said[0] == {"gpu": str(amount)}) is possible


def test_what_is_possible_alone_and_not_together_changes_nothing() -> None:
    said = found(CPU, *(worker(name, {"cpu": f"{MOST // 1000}"}) for name in "ab"))
    assert said == ({"cpu": "0"}, UNSUPPORTED + 'worker cluster "b": no possible quota of cpu')


def test_a_worker_that_has_not_been_read_yet_is_waited_for() -> None:
    assert found(CPU, worker("a", {"cpu": "10"}), WorkerQueues("b")) is None


def test_limits_beside_the_quota_stay() -> None:
    mine = msgspec.json.decode(msgspec.json.encode(CPU))
    mine["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0] |= {"borrowingLimit": "3", "lendingLimit": "2"}
    plan = plan_quota(
        msgspec.convert(mine, ClusterQueue), msgspec.convert(CONFIG, MultiKueueConfig), [worker("a", {"cpu": "4"})]
    )
    assert plan is not None
    (quota,) = plan.groups[0].flavors[0].resources
    assert (quota.nominal_quota, quota.borrowing_limit, quota.lending_limit) == ("4", "3", "2")
