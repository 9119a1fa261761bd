"""E47: what the Job controller counts, by transitions that really happen."""

from typing import Any

import pytest
from tests.metrics import read_families
from tests.system.jobs.job_cluster import NAMESPACE_NAME, JobCluster, virtual

from muster.api.core import POD
from muster.runtime.clock import run_virtual
from muster.runtime.transport import Request, Response, TransportError

PREFIX = "job_controller_"
# Upstream's metrics with their labels (pkg/controller/job/metrics; the last since 1.36).
UPSTREAM = {
    "job_sync_duration_seconds": ("histogram", {"action", "completion_mode", "result"}),
    "job_syncs": ("counter", {"action", "completion_mode", "result"}),
    "jobs_finished": ("counter", {"completion_mode", "result", "reason"}),
    "job_pods_finished": ("counter", {"completion_mode", "result"}),
    "job_finished_indexes": ("counter", {"status", "backoffLimit"}),
    "job_pods_creation": ("counter", {"reason", "status"}),
    "pod_failures_handled_by_failure_policy": ("counter", {"action"}),
    "terminated_pods_tracking_finalizer": ("counter", {"event"}),
    "jobs_by_external_controller": ("counter", {"controller_name"}),
    "stale_sync_skips": ("counter", set[str]()),
}

INDEXED = {"completionMode": "Indexed", "completions": 2, "parallelism": 2}
PER_INDEX = INDEXED | {"backoffLimitPerIndex": 0}


def policy(*rules: tuple[str, int]) -> dict[str, Any]:
    """A failure policy with a rule for each (action, exit code)."""
    made = [{"action": action, "onExitCodes": {"operator": "In", "values": [code]}} for action, code in rules]
    return {"podFailurePolicy": {"rules": made}}


def families(cluster: JobCluster) -> dict[str, Any]:
    found = read_families(cluster.registry.text().decode(), PREFIX)
    return {family.name.removeprefix(PREFIX): family for family in found}


def counted(cluster: JobCluster, name: str) -> dict[str, int]:
    """What is not 0 of a counter, by the values of its labels in the order of their names."""
    samples = [sample for sample in families(cluster)[name].samples if sample.name.endswith("_total") and sample.value]
    return {" ".join(value for _, value in sorted(sample.labels.items())): int(sample.value) for sample in samples}


CASES: list[tuple[str, dict[str, Any], list[str], dict[str, dict[str, int]]]] = [
    # what it shows, spec, phases in which the pods of each round end, metrics
    ("success", {"completions": 2, "parallelism": 2}, ["Succeeded"], {
        "jobs_finished": {"NonIndexed CompletionsReached succeeded": 1},
        "job_pods_finished": {"NonIndexed succeeded": 2},
        "job_finished_indexes": {},
        "job_pods_creation": {"new succeeded": 2}}),
    ("indexed success", INDEXED, ["Succeeded"], {
        "jobs_finished": {"Indexed CompletionsReached succeeded": 1},
        "job_pods_finished": {"Indexed succeeded": 2},
        "job_finished_indexes": {"global succeeded": 2}}),
    ("success by policy", INDEXED | {"successPolicy": {"rules": [{"succeededCount": 1}]}}, ["Succeeded"], {
        "jobs_finished": {"Indexed SuccessPolicy succeeded": 1}}),
    ("too many failures", {"backoffLimit": 1}, ["Failed", "Failed"], {
        "jobs_finished": {"NonIndexed BackoffLimitExceeded failed": 1},
        "job_pods_finished": {"NonIndexed failed": 2},
        "job_pods_creation": {"new succeeded": 1, "recreate_terminating_or_failed succeeded": 1}}),
    ("only failed pods are replaced", {"podReplacementPolicy": "Failed"}, ["Failed", "Succeeded"], {
        "job_pods_finished": {"NonIndexed failed": 1, "NonIndexed succeeded": 1},
        "job_pods_creation": {"new succeeded": 1, "recreate_failed succeeded": 1}}),
    ("deadline", {"activeDeadlineSeconds": 5}, ["Running"], {
        "jobs_finished": {"NonIndexed DeadlineExceeded failed": 1},
        "job_pods_finished": {"NonIndexed failed": 1}}),
    ("each index by itself", INDEXED | {"backoffLimitPerIndex": 1}, ["Failed", "Succeeded"], {
        "jobs_finished": {"Indexed CompletionsReached succeeded": 1},
        "job_pods_finished": {"Indexed failed": 2, "Indexed succeeded": 2},
        "job_finished_indexes": {"perIndex succeeded": 2},
        "job_pods_creation": {"new succeeded": 2, "recreate_terminating_or_failed succeeded": 2}}),
    ("failed indexes", PER_INDEX, ["Failed"], {
        "jobs_finished": {"Indexed FailedIndexes failed": 1},
        "job_finished_indexes": {"perIndex failed": 2}}),
    ("too many failed indexes", PER_INDEX | {"maxFailedIndexes": 0}, ["Failed"], {
        "jobs_finished": {"Indexed MaxFailedIndexesExceeded failed": 1}}),
    ("FailJob", policy(("FailJob", 1)), ["Failed"], {
        "jobs_finished": {"NonIndexed PodFailurePolicy failed": 1},
        "pod_failures_handled_by_failure_policy": {"FailJob": 1}}),
    ("Ignore", policy(("Ignore", 1)), ["Failed", "Succeeded"], {
        "jobs_finished": {"NonIndexed CompletionsReached succeeded": 1},
        "job_pods_finished": {"NonIndexed succeeded": 1},
        "pod_failures_handled_by_failure_policy": {"Ignore": 1}}),
    ("Count", policy(("Count", 1)), ["Failed", "Succeeded"], {
        "job_pods_finished": {"NonIndexed failed": 1, "NonIndexed succeeded": 1},
        "pod_failures_handled_by_failure_policy": {"Count": 1}}),
    ("FailIndex", PER_INDEX | policy(("FailIndex", 1)), ["Failed"], {
        "jobs_finished": {"Indexed FailedIndexes failed": 1},
        "pod_failures_handled_by_failure_policy": {"FailIndex": 2}}),
    ("no rule matches", policy(("Ignore", 9)), ["Failed", "Succeeded"], {
        "pod_failures_handled_by_failure_policy": {}}),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "rounds", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_transitions(spec: dict[str, Any], rounds: list[str], expected: dict[str, dict[str, int]]) -> None:
    async def scenario() -> None:
        async with JobCluster() as cluster:
            await cluster.create(spec)
            for phase in rounds:
                await cluster.bind_all()
                for pod in await cluster.active():
                    await cluster.set_phase(pod, phase)
                await cluster.rest(30)
                await cluster.end_deleted()
                await cluster.rest(30)
            assert {name: counted(cluster, name) for name in expected} == expected
            held = counted(cluster, "terminated_pods_tracking_finalizer")
            assert held.get("add") == held.get("delete")
            # Another controller finds everything done and counts nothing of it again.
            before = {name: counted(cluster, name) for name in expected}
            await cluster.kill_controller()
            await cluster.start_controller()
            await cluster.rest()
            assert {name: counted(cluster, name) for name in expected} == before

    run_virtual(scenario())


@virtual
async def test_names_labels_and_buckets_are_upstreams(cluster: JobCluster) -> None:
    await cluster.create(PER_INDEX | policy(("Count", 1)))
    await cluster.create({"managedBy": "example.com/other"}, "elsewhere")
    await cluster.bind_all()
    await cluster.finish(0, "Failed")
    await cluster.finish(1)
    await cluster.rest()
    found = families(cluster)
    for name, (kind, labels) in UPSTREAM.items():
        family = found.pop(name)
        sample = next(sample for sample in family.samples if sample.name.endswith(("_total", "_count")))
        assert (family.type, set(sample.labels)) == (kind, labels), name
        if kind == "histogram":
            edges = [sample.labels["le"] for sample in family.samples if sample.name.endswith("_bucket")]
            assert [float(edge) for edge in edges[:16]] == [*(0.004 * 2**power for power in range(15)), float("inf")]
    assert not [name for name in found if not name.endswith("_created")], "metrics that upstream does not have"


@virtual
async def test_a_size_that_shrinks_takes_nothing_back(cluster: JobCluster) -> None:
    await cluster.create({"completionMode": "Indexed", "completions": 3, "parallelism": 3})
    await cluster.bind_all()
    await cluster.finish(2)
    await cluster.rest()
    assert counted(cluster, "job_finished_indexes") == {"global succeeded": 1}
    for size in (2, 3):
        await cluster.scale(size)
        await cluster.rest()
    await cluster.bind_all()
    assert counted(cluster, "job_finished_indexes") == {"global succeeded": 1}
    for index in range(3):
        await cluster.finish(index)
    await cluster.rest()
    # Index 2 has succeeded twice.
    assert counted(cluster, "job_finished_indexes") == {"global succeeded": 4}
    assert counted(cluster, "job_pods_finished") == {"Indexed succeeded": 4}


@virtual
async def test_syncs_are_counted_by_what_they_did(cluster: JobCluster) -> None:
    await cluster.create(INDEXED)
    await cluster.bind_all()
    await cluster.scale(1)
    await cluster.rest()
    await cluster.finish(0)
    await cluster.rest()
    syncs = counted(cluster, "job_syncs")
    assert syncs.pop("tracking Indexed success") >= 2
    assert syncs == {"pods_created Indexed success": 1, "pods_deleted Indexed success": 1}
    durations = families(cluster)["job_sync_duration_seconds"].samples
    count = sum(sample.value for sample in durations if sample.name.endswith("_count"))
    assert count == sum(counted(cluster, "job_syncs").values())


@virtual
async def test_pods_that_are_refused_are_counted_apart(cluster: JobCluster) -> None:
    inner = cluster.wire.request

    async def refuse(request: Request) -> Response:
        if request.method == "POST":
            raise TransportError("no way")
        return await inner(request)

    cluster.wire.request = refuse  # type: ignore[method-assign]
    await cluster.create(INDEXED)
    assert counted(cluster, "job_pods_creation")["new failed"] >= 1
    assert counted(cluster, "job_syncs").keys() == {"pods_created Indexed error"}


@virtual
async def test_ended_pods_that_still_have_the_finalizer(cluster: JobCluster) -> None:
    """Whoever owns them."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}
    meta = {"name": "alone", "finalizers": ["batch.kubernetes.io/job-tracking"], "ownerReferences": [owner]}
    pod = POD.seen_as(dict[str, Any])
    await cluster.client.create(
        pod, {"metadata": meta, "spec": {"containers": [{"name": "main", "image": "none"}]}}, NAMESPACE_NAME
    )
    await cluster.rest()
    assert counted(cluster, "terminated_pods_tracking_finalizer") == {}
    await cluster.set_phase(await cluster.client.get(POD, "alone", NAMESPACE_NAME), "Failed")
    await cluster.rest()
    assert counted(cluster, "terminated_pods_tracking_finalizer") == {"add": 1}
