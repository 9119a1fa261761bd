"""The life of a Job step by step on the real API, from the same data as the pure tests."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.system.jobs.job_cluster import NAMESPACE_NAME, JobCluster

from muster.api.batch import Job
from muster.api.core import POD
from muster.api.status import ApiError
from muster.jobs.job.census import Member, completion_index
from muster.runtime.clock import run_virtual

pytestmark = pytest.mark.slow

FILE = Path(__file__).parents[2] / "unit" / "jobs" / "cases" / "sequences.yaml"
CASES = [case for case in yaml.load(FILE.read_text(), yaml.CSafeLoader) if not case.get("exact")]
THREE = {"completionMode": "Indexed", "completions": 3, "parallelism": 3}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_sequence(case: dict[str, Any]) -> None:
    run_virtual(play(case))


async def play(case: dict[str, Any]) -> None:
    async with JobCluster() as cluster:
        await cluster.create(THREE | case.get("spec", {}))
        await settle(cluster)
        for step in case["steps"]:
            before = await uids(cluster)
            if step.get("unseen"):
                cluster.wire.lags = {"jobs": 1.0, "pods": 1.0}
            await act(cluster, step)
            if step.get("unseen"):
                continue
            cluster.wire.lags = {}
            await settle(cluster, nodes=step.get("nodes", True))
            await check(cluster, step.get("expect", {}), before)


async def act(cluster: JobCluster, step: dict[str, Any]) -> None:
    changes: dict[str, Any] = {}
    if "suspend" in step:
        changes["suspend"] = step["suspend"]
    if "scale" in step:
        changes |= {"completions": step["scale"], "parallelism": step["scale"]}
    if "parallelism" in step:
        changes["parallelism"] = step["parallelism"]
    if changes:
        with pytest.raises(ApiError, match="immutable once") if step.get("refused") else nullcontext():
            await cluster.set_spec(**changes)
    for phase, indexes in (("Succeeded", "succeed"), ("Failed", "fail"), ("Running", "unready")):
        for index in step.get(indexes, ()):
            await cluster.finish(index, phase)
    for pod in await cluster.active():
        if completion_index(pod) in step.get("restart", ()):
            await cluster.set_phase(pod, "Running", ready=True, restarts=step["times"])
        if completion_index(pod) in step.get("delete", ()):
            await cluster.client.delete(POD, pod.metadata.name, NAMESPACE_NAME)
    if "wait" in step:
        await settle(cluster, nodes=step.get("nodes", True))
        await cluster.rest(step["wait"])


async def settle(cluster: JobCluster, *, nodes: bool = True) -> None:
    """Until nothing changes any more."""
    before: tuple[Job, list[Any]] | None = None
    for _ in range(20):
        await cluster.rest(1.5)
        if nodes:
            await cluster.bind_all()
            await cluster.end_deleted()
        after = await cluster.job(), await cluster.pods()
        if after == before:
            return
        before = after
    raise AssertionError("the Job does not come to rest")


async def uids(cluster: JobCluster) -> dict[int, str]:
    return {completion_index(pod): pod.metadata.uid for pod in await cluster.active()}


async def check(cluster: JobCluster, expect: dict[str, Any], before: dict[int, str]) -> None:
    status, after = (await cluster.job()).status, await uids(cluster)
    last = status.conditions[-1] if status.conditions else None
    found: dict[str, Any] = {
        "active": status.active,
        "ready": status.ready,
        "terminating": status.terminating,
        "succeeded": status.succeeded,
        "failed": status.failed,
        "completedIndexes": status.completed_indexes,
        "failedIndexes": status.failed_indexes,
        "activeIndexes": sorted(after),
        "condition": last.type if last and last.status == "True" else None,
        "reason": last.reason if last else None,
        "started": status.start_time is not None,
        "completed": status.completion_time is not None,
        "kept": [index for index in expect.get("kept", ()) if after[index] == before[index]],
        "replaced": [index for index in expect.get("replaced", ()) if after[index] != before[index]],
        "pods": cluster.wire.count("POST"),
        "tracked": sum(Member.of(pod).tracked for pod in await cluster.pods()),
    }
    assert {name: found[name] for name in expect} == expect
