"""A lost node of a topology, and what else ends an admission meanwhile: a check that retries, pods not ready again."""

from tests.system.integrations.queued_jobs import Queued
from tests.system.integrations.test_queued_jobs import CHECK, answer, create_check
from tests.system.topology.test_topology import RACK, asking, by_rank, evictions, hall, queue
from tests.system.topology.test_topology_nodes import cordon, marks

from muster.api.conditions import find_true
from muster.api.core import NODE, POD

WAITS_FOR_ITS_NODE = "featureGates: {TASFailedNodeReplacementFailFast: false}"
RECOVERS = f"""
waitForPodsReady:
  timeout: 60s
  recoveryTimeout: 3m
  requeuingStrategy: {{backoffBaseSeconds: 1}}
{WAITS_FOR_ITS_NODE}
"""


async def lose(q: Queued, host: str) -> None:
    """Cordon a node and take the pods on it."""
    await cordon(q, host)
    for pod in await q.world.pods("j"):
        if pod.spec.node_name == host:
            await q.client.delete(POD, pod.metadata.name, "default", grace_period_seconds=0)


async def reason_of_eviction(q: Queued) -> str:
    evicted = find_true((await q.workload()).status.conditions, "Evicted")
    return evicted.reason if evicted is not None else ""


async def _retries(q: Queued) -> None:
    """The whole rack is too small without the node, so it stays named until the check retries."""
    await create_check(q)
    await queue(q, admissionChecksStrategy=CHECK)
    await q.job(workers=4, template=asking(required=RACK))
    await answer(q)
    assert set(await by_rank(q)) == {"b1-r1-h1", "b1-r1-h2"}
    await lose(q, "b1-r1-h1")
    await q.world.settle(10)
    assert await marks(q) == ["b1-r1-h1"]
    await answer(q, state="Retry")
    await q.world.settle(10)
    assert await marks(q) == []
    assert await q.running() == []
    await q.world.settle(60)
    assert await marks(q) == []  # a workload without an admission has no node to lose
    await answer(q)
    await q.world.settle(10)
    assert set(await by_rank(q)) == {"b1-r2-h1", "b1-r2-h2"}
    assert await marks(q) == []
    assert await evictions(q) == []
    assert await q.running() == [0, 1, 2, 3]


test_a_check_that_retries_takes_the_name_of_a_lost_node_away = hall(_retries, WAITS_FOR_ITS_NODE)


async def _retries_before_the_replacement(q: Queued) -> None:
    """The node is named for a second before it is replaced: the check retries within that second."""
    await create_check(q)
    await queue(q, admissionChecksStrategy=CHECK)
    await q.job(workers=2, template=asking(required=RACK))
    await answer(q)
    assert set(await by_rank(q)) == {"b1-r1-h1"}
    q.forget_node("b1-r1-h1")
    await q.client.delete(NODE, "b1-r1-h1")
    await q.world.settle(0.5)
    assert await marks(q) == ["b1-r1-h1"]
    await answer(q, state="Retry")
    await q.world.settle(30)
    assert await marks(q) == []
    assert await evictions(q) == []
    await answer(q)
    await q.world.settle(10)
    assert "b1-r1-h1" not in await by_rank(q)
    assert await q.running() == [0, 1]


test_a_check_that_retries_before_the_replacement = hall(_retries_before_the_replacement)


async def _does_not_recover(q: Queued) -> None:
    await queue(q)
    await q.job(workers=4, template=asking(required=RACK))
    await lose(q, "b1-r1-h1")
    await q.world.settle(120)
    assert await marks(q) == ["b1-r1-h1"]
    assert await reason_of_eviction(q) == ""
    await q.world.settle(120)
    assert await marks(q) == []
    assert set(await by_rank(q)) == {"b1-r2-h1", "b1-r2-h2"}
    assert await evictions(q) == []  # it is the pods that were not ready in time, and not the node
    stats = (await q.workload()).status.scheduling_stats
    assert stats is not None
    assert [(one.reason, one.underlying_cause) for one in stats.evictions] == [("PodsReadyTimeout", "WaitForRecovery")]


test_a_workload_whose_lost_node_does_not_come_back_starts_elsewhere_after_the_recovery_timeout = hall(
    _does_not_recover, RECOVERS
)


async def _recovers(q: Queued) -> None:
    await queue(q)
    await q.job(workers=4, template=asking(required=RACK))
    await lose(q, "b1-r1-h1")
    await q.world.settle(120)
    assert await marks(q) == ["b1-r1-h1"]
    await cordon(q, "b1-r1-h1", on=False)
    await q.world.settle(300)
    assert await marks(q) == []
    assert set(await by_rank(q)) == {"b1-r1-h1", "b1-r1-h2"}
    assert await q.running() == [0, 1, 2, 3]
    assert (await q.workload()).status.scheduling_stats is None


test_a_node_that_is_back_within_the_recovery_timeout_is_gone_on_with = hall(_recovers, RECOVERS)
