"""What /metrics says of queues after things have happened in them, under Kueue's names."""

from collections.abc import Awaitable, Callable
from math import inf, isnan
from typing import Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.system.apiserver.harness import Api
from tests.system.plane import World, running, virtual
from tests.system.queueing.queue_samples import samples
from tests.system.queueing.queueing_world import (
    cohort,
    finish,
    flavor,
    get,
    give_back,
    is_,
    local_queue,
    queue,
    workload,
)

from muster.api.config import EMBEDDED
from muster.api.config.types import AdmissionFairSharing, CustomLabel, LocalQueueMetrics, Metrics
from muster.api.kueue import CLUSTER_QUEUE, COHORT, LOCAL_QUEUE, WORKLOAD
from muster.api.meta import LabelSelector
from muster.api.values.durations import HOUR, MINUTE
from muster.controllers.customlabels import UNTRACKED
from muster.runtime.clock import run_virtual

pytestmark = pytest.mark.slow


def configured(metrics: Metrics, **more: Any) -> Callable[[Callable[[World], Awaitable[None]]], Callable[[], None]]:
    configuration = msgspec.structs.replace(EMBEDDED, metrics=metrics, **more)

    def wrap(test: Callable[[World], Awaitable[None]]) -> Callable[[], None]:
        async def body() -> None:
            async with running(configuration=configuration) as plane:
                await test(World(plane))

        return lambda: run_virtual(body())

    return wrap


@virtual
async def test_the_parser_of_prometheus_reads_the_whole_page(world: World) -> None:
    await flavor(world)
    await queue(world, "team", cpu=1)
    await workload(world, "first", "team")
    await world.settle(10)
    text = (await Api(world.plane).get("/metrics", accept="*/*")).body.decode()
    names = {family.name.partition("_")[0] for family in text_string_to_metric_families(text)}
    assert {"apiserver", "controller", "kueue", "scheduler", "workqueue"} <= names


@virtual
async def test_a_workload_that_waits_runs_and_ends(world: World) -> None:
    await flavor(world)
    await queue(world, "team", cpu=1)
    await workload(world, "first", "team")
    await world.settle(10)
    await workload(world, "second", "team")
    await world.settle(20)
    now = await samples(world)
    assert now["pending_workloads"] == {("team", "active"): 0, ("team", "inadmissible"): 1}
    assert now["local_queue_pending_workloads"] == {
        ("team", "default", "active"): 0,
        ("team", "default", "inadmissible"): 1,
    }
    assert now["pending_scheduling_hashes"] == {("team", "active"): 0, ("team", "inadmissible"): 1}
    why = ("NoReservation", "WaitingForQuota")
    assert now["unadmitted_workloads"] == {("team", *why): 1}
    assert now["local_queue_unadmitted_workloads"] == {("team", "team", "default", *why): 1}
    assert now["admission_attempts_total"] == {("success",): 1, ("inadmissible",): 1}
    assert now["admission_attempt_duration_seconds_count"] == {("success",): 1, ("inadmissible",): 1}
    assert now["reserving_active_workloads"] == now["admitted_active_workloads"] == {("team",): 1}
    await finish(world, "first")
    await world.settle()
    now = await samples(world)
    for kind, labels in (("", ("team",)), ("local_queue_", ("team", "default"))):
        by_class = (*labels, "")
        assert now[f"{kind}quota_reserved_workloads_total"] == {by_class: 2}
        assert now[f"{kind}admitted_workloads_total"] == {by_class: 2}
        assert now[f"{kind}quota_reserved_wait_time_seconds_count"] == {by_class: 2}
        assert now[f"{kind}quota_reserved_wait_time_seconds_sum"] == {by_class: 20}
        assert now[f"{kind}admission_wait_time_seconds_sum"] == {by_class: 20}
        assert now[f"{kind}admission_checks_wait_time_seconds_sum"] == {by_class: 0}
        assert now[f"{kind}finished_workloads_total"] == {by_class: 1}
        assert now[f"{kind}execution_time_seconds_sum"] == {by_class: 30}
        assert now[f"{kind}finished_workloads"] == {labels: 1}
        assert now[f"{kind}reserving_active_workloads"] == {labels: 1}
        assert now[f"{kind}admitted_active_workloads"] == {labels: 1}
    assert "unadmitted_workloads" not in now
    assert "local_queue_unadmitted_workloads" not in now
    await world.client.delete(WORKLOAD, "first", "default")
    await world.settle()
    assert "finished_workloads" not in await samples(world)


@virtual
async def test_a_preemption(world: World) -> None:
    await flavor(world)
    await queue(world, "team", cpu=1, preemption={"withinClusterQueue": "LowerPriority"})
    await workload(world, "low", "team", priority=1)
    await world.settle()
    await workload(world, "high", "team", priority=2)
    await world.settle(10)
    now = await samples(world)
    assert now["preempted_workloads_total"] == {("team", "InClusterQueue"): 1}
    for kind, labels in (("", ("team",)), ("local_queue_", ("team", "default"))):
        # by class, reason and cause, in the order of the names of the labels
        assert now[f"{kind}evicted_workloads_total"] == {(*labels, "", "Preempted", ""): 1}
        assert now[f"{kind}evicted_workloads_once_total"] == {(*labels, "", "Preempted", ""): 1}
    assert "workload_eviction_latency_seconds_sum" not in now
    await give_back(world, "low")
    await world.settle()
    assert await is_(world, "high", "Admitted")
    now = await samples(world)
    assert now["workload_eviction_latency_seconds_sum"] == {("team", "Preempted"): 10}
    assert now["preempted_workloads_total"] == {("team", "InClusterQueue"): 1}
    await finish(world, "high")
    await world.settle()
    await workload(world, "high-again", "team", priority=2)
    await world.settle()
    now = await samples(world)
    assert now["preempted_workloads_total"] == {("team", "InClusterQueue"): 2}
    assert now["evicted_workloads_total"] == {("team", "", "Preempted", ""): 2}
    assert now["evicted_workloads_once_total"] == {("team", "", "Preempted", ""): 1}


@virtual
async def test_pods_that_get_ready(world: World) -> None:
    await flavor(world)
    await queue(world, "team", cpu=1)
    await workload(world, "w", "team")
    await world.settle(7)
    await condition(world, "w", "PodsReady", "True", "Started")
    await world.settle(3)
    await condition(world, "w", "PodsReady", "False", "WaitForRecovery")
    await world.settle(3)
    await condition(world, "w", "PodsReady", "True", "Recovered")
    await world.settle(3)
    now = await samples(world)
    for kind, labels in (("", ("team",)), ("local_queue_", ("team", "default"))):
        assert now[f"{kind}ready_wait_time_seconds_count"] == {(*labels, ""): 1}
        assert now[f"{kind}ready_wait_time_seconds_sum"] == {(*labels, ""): 7}
        assert now[f"{kind}admitted_until_ready_wait_time_seconds_sum"] == {(*labels, ""): 7}


async def condition(world: World, name: str, type: str, status: str, reason: str) -> None:
    """Play the job: a condition of its workload is this now."""
    now = world.clock.now().replace(microsecond=0).isoformat()
    new = {"type": type, "status": status, "reason": reason, "message": "", "lastTransitionTime": now}
    others = [one for one in (await get(world, name)).status.conditions if one.type != type]
    patch = {"status": {"conditions": [*msgspec.to_builtins(others), new]}}
    await world.client.patch(WORKLOAD, name, patch, "default", subresource="status")


@virtual
async def test_the_status_of_queues(world: World) -> None:
    await queue(world, "team", cpu=1, cohortName="left")
    await cohort(world, "left", parentName="top")
    await world.settle()

    async def state() -> tuple[str, str]:
        now = await samples(world)
        (queue_is,) = [labels[1] for labels, value in now["cluster_queue_status"].items() if value]
        (local_is,) = [labels[0] for labels, value in now["local_queue_status"].items() if value]
        return queue_is, local_is

    assert await state() == ("pending", "False")
    await flavor(world)
    await world.settle()
    assert await state() == ("active", "True")
    now = await samples(world)
    assert now["cluster_queue_info"] == {("team", "left", "top"): 1}
    assert now["cohort_info"] == {("left", "top", "top"): 1, ("top", "", "top"): 1}
    await workload(world, "w", "team")
    await world.settle()
    now = await samples(world)
    assert now["cohort_subtree_admitted_active_workloads"] == {("left",): 1, ("top",): 1}
    assert now["cohort_subtree_admitted_workloads_total"] == {("left", ""): 1, ("top", ""): 1}
    await world.client.delete(CLUSTER_QUEUE, "team")
    await world.settle()
    assert await state() == ("terminating", "False")
    await finish(world, "w")
    await world.client.delete(LOCAL_QUEUE, "team", "default")
    await world.settle()
    now = await samples(world)
    assert not [labels for values in now.values() for labels in values if "team" in labels]
    await world.client.delete(COHORT, "left")
    await world.settle()
    now = await samples(world)
    assert not [labels for values in now.values() for labels in values if {"left", "top"} & set(labels)]


@virtual
async def test_the_priority_class_of_a_workload(world: World) -> None:
    await flavor(world)
    await queue(world, "team", cpu=4, cohortName="top")
    ref = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"}
    await workload(world, "a", "team", priorityClassRef=ref, priority=1)
    await workload(world, "b", "team")
    await world.settle()
    now = await samples(world)
    assert now["admitted_workloads_total"] == {("team", "high"): 1, ("team", ""): 1}
    assert now["local_queue_admitted_workloads_total"] == {
        ("team", "default", "high"): 1,
        ("team", "default", ""): 1,
    }
    assert now["cohort_subtree_admitted_workloads_total"] == {("top", "high"): 1, ("top", ""): 1}


@configured(Metrics(enable_cluster_queue_resources=True, local_queue_metrics=LocalQueueMetrics(enable=False)))
async def test_resources_where_they_are_asked_for(world: World) -> None:
    await flavor(world)
    await cohort(world, "top")
    quota = {"name": "cpu", "nominalQuota": "1500m", "borrowingLimit": 1}
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [quota]}]}
    await queue(world, "team", cpu=0, cohortName="top", resourceGroups=[group])
    await queue(world, "lender", cpu=4, cohortName="top")
    await workload(world, "w", "team", cpu=2)
    await world.settle()
    now = await samples(world)
    team, lender = ("team", "top", "default", "cpu"), ("lender", "top", "default", "cpu")
    assert now["cluster_queue_nominal_quota"] == {team: 1.5, lender: 4}
    assert now["cluster_queue_borrowing_limit"] == {team: 1}
    assert "cluster_queue_lending_limit" not in now
    assert now["cluster_queue_resource_reservation"] == {team: 2, lender: 0}
    assert now["cluster_queue_resource_usage"] == {team: 2, lender: 0}
    assert now["cluster_queue_weighted_share"] == {("team", "top"): 1000 * 0.5 / 5.5, ("lender", "top"): 0}
    assert now["cluster_queue_resource_pending"] == {("team", "cpu"): 0, ("lender", "cpu"): 0}
    assert now["cohort_weighted_share"] == {("top",): 0}
    assert now["cohort_subtree_quota"] == {("top", "default", "cpu"): 5.5}
    assert now["cohort_subtree_resource_reservations"] == {("top", "default", "cpu"): 2}
    assert not [name for name in now if name.startswith("local_queue")]
    await workload(world, "x", "team", cpu=2, count=3)
    await workload(world, "y", "team", cpu="500m")
    await world.client.patch(CLUSTER_QUEUE, "team", {"spec": {"fairSharing": {"weight": "0"}}})
    await world.settle()
    now = await samples(world)
    assert now["cluster_queue_resource_pending"] == {("team", "cpu"): 6, ("lender", "cpu"): 0}
    assert isnan(now["cluster_queue_weighted_share"][("team", "top")])


@virtual
async def test_resources_are_not_there_otherwise(world: World) -> None:
    await flavor(world)
    await queue(world, "team", cpu=1)
    await world.settle()
    assert not [name for name in await samples(world) if "quota" in name and "reserved" not in name]


@configured(
    Metrics(
        enable_cluster_queue_resources=True,
        local_queue_metrics=LocalQueueMetrics(
            enable=True, local_queue_selector=LabelSelector(match_labels={"measured": "yes"})
        ),
    )
)
async def test_local_queues_that_are_selected(world: World) -> None:
    await flavor(world)
    await queue(world, "team", cpu=1)
    await local_queue(world, "other", "team")
    await world.client.patch(LOCAL_QUEUE, "team", {"metadata": {"labels": {"measured": "yes"}}}, "default")
    await world.settle()
    await workload(world, "w", "team")
    await workload(world, "x", "other")
    await world.settle()
    now = await samples(world)
    assert now["local_queue_resource_usage"] == {("default", "team", "default", "cpu"): 1}
    locals_ = [values for name, values in now.items() if name.startswith("local_queue_")]
    assert locals_
    assert not [labels for values in locals_ for labels in values if "other" in labels]


FAIR = AdmissionFairSharing(usage_half_life_time=HOUR, usage_sampling_interval=MINUTE, resource_weights={"cpu": 2.0})


@configured(EMBEDDED.metrics, admission_fair_sharing=FAIR)
async def test_what_local_queues_used_lately(world: World) -> None:
    await flavor(world)
    await queue(world, "cq", cpu=4, local=False)
    for name, weight in {"a": "1", "b": "2", "c": "0"}.items():
        await local_queue(world, name, "cq", fairSharing={"weight": weight})
    for name in ("a", "b"):
        await workload(world, f"of-{name}", name)
    # What has just got quota counts as if it had been used for long, but for a sample that may come before it.
    await world.settle(3600)
    usage = (await samples(world))["local_queue_admission_fair_sharing_usage"]
    assert usage == {
        ("cq", "a", "default"): pytest.approx(2 * usage["cq", "b", "default"], rel=0.05),
        ("cq", "b", "default"): pytest.approx(0.5, rel=0.05),
        ("cq", "c", "default"): inf,
    }


@virtual
async def test_without_admission_fair_sharing_its_usage_is_no_metric(world: World) -> None:
    await flavor(world)
    await queue(world, "cq", cpu=4)
    await world.settle()
    assert "local_queue_admission_fair_sharing_usage" not in await samples(world)


CUSTOM = (
    CustomLabel(name="team"),
    CustomLabel(name="tier", source_annotation_key="example.com/tier", tracked_values=("gold",)),
    CustomLabel(name="owner", source_kind="LocalQueue"),
    CustomLabel(name="site", source_kind="Cohort"),
    CustomLabel(name="kind", source_kind="Workload", source_label_key="example.com/kind", tracked_values=("train",)),
)


@configured(Metrics(custom_labels=CUSTOM), feature_gates={"CustomMetricLabels": True})
async def test_labels_of_queues_and_workloads_become_labels_of_metrics(world: World) -> None:
    await flavor(world)
    await cohort(world, "org")
    await queue(world, "team", cpu=1, cohortName="org")
    await world.client.patch(COHORT, "org", {"metadata": {"labels": {"site": "north"}}})
    labels = {"labels": {"team": "red"}, "annotations": {"example.com/tier": "tin"}}
    await world.client.patch(CLUSTER_QUEUE, "team", {"metadata": labels})
    await world.client.patch(LOCAL_QUEUE, "team", {"metadata": {"labels": {"owner": "ann"}}}, "default")
    await world.settle(10)
    await workload(world, "first", "team", metadata={"labels": {"example.com/kind": "train"}})
    await world.settle(10)
    await workload(world, "second", "team", metadata={"labels": {"example.com/kind": "odd"}})
    await world.settle(20)
    now = await samples(world)
    queue_labels = ("team", "red", UNTRACKED)  # in the order of their names, as everything here
    assert now["cluster_queue_status"][*queue_labels, "active"] == 1
    assert now["quota_reserved_workloads_total"] == {(*queue_labels, ""): 1}
    assert now["pending_workloads"] == {("team", UNTRACKED, "red", UNTRACKED, "inadmissible"): 1}
    assert now["admitted_active_workloads"] == {("team", "train", "red", UNTRACKED): 1}
    assert now["local_queue_admitted_active_workloads"] == {("train", "ann", "team", "default"): 1}
    assert now["local_queue_admitted_workloads_total"] == {("train", "ann", "team", "default", ""): 1}
    assert now["local_queue_pending_workloads"]["ann", "team", "default", "inadmissible"] == 1
    assert now["cohort_subtree_admitted_workloads_total"] == {("org", "north", ""): 1}
    assert now["cohort_info"] == {("org", "north", "", "org"): 1}
    await world.client.patch(CLUSTER_QUEUE, "team", {"metadata": {"labels": {"team": "blue"}}})
    await world.settle(10)
    now = await samples(world)
    assert now["cluster_queue_status"]["team", "blue", UNTRACKED, "active"] == 1
    assert "quota_reserved_workloads_total" not in now


@configured(Metrics(custom_labels=CUSTOM))
async def test_without_the_gate_metrics_have_their_own_labels_only(world: World) -> None:
    await flavor(world)
    await queue(world, "team", cpu=1)
    await world.settle(10)
    assert (await samples(world))["pending_workloads"] == {("team", "active"): 0, ("team", "inadmissible"): 0}


@configured(Metrics(), feature_gates={"LocalQueueMetrics": False, "MetricsForCohorts": False})
async def test_gates_leave_out_metrics_of_local_queues_and_cohorts(world: World) -> None:
    await flavor(world)
    await queue(world, "team", cpu=1, cohortName="org")
    await workload(world, "first", "team")
    await world.settle(10)
    now = await samples(world)
    assert now["admitted_workloads_total"] == {("team", ""): 1}
    assert not [name for name in now if name.startswith(("local_queue_", "cohort_")) or name == "cluster_queue_info"]


@virtual
async def test_numbers_of_a_cohort_go_with_it_and_with_the_root_that_only_it_named(world: World) -> None:
    await flavor(world)
    await cohort(world, "below", parentName="root")
    await queue(world, "team", cpu=1, cohortName="below")
    await workload(world, "first", "team")
    await world.settle(10)
    now = await samples(world)
    assert now["cohort_subtree_admitted_workloads_total"] == {("below", ""): 1, ("root", ""): 1}
    assert now["cohort_subtree_admitted_active_workloads"] == {("below",): 1, ("root",): 1}
    await world.client.delete(COHORT, "below")
    await world.settle(10)
    now = await samples(world)
    assert "cohort_subtree_admitted_workloads_total" not in now
    assert "cohort_subtree_admitted_active_workloads" not in now
    assert now["admitted_active_workloads"] == {("team",): 1}
    await cohort(world, "below")
    await world.settle(10)
    assert (await samples(world))["cohort_subtree_admitted_active_workloads"] == {("below",): 1}
