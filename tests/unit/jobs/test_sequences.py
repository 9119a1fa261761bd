"""The life of a Job step by step, as data: `cases/sequences.yaml`."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.unit.jobs.world import World, job_of

from muster.jobs.job.census import Member, completion_index

CASES = yaml.load((Path(__file__).parent / "cases" / "sequences.yaml").read_text(), yaml.CSafeLoader)
THREE = {"completionMode": "Indexed", "completions": 3, "parallelism": 3}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_sequence(case: dict[str, Any]) -> None:
    world = World(job_of(THREE | case.get("spec", {})))
    world.settle()
    for step in case["steps"]:
        before = uids(world)
        act(world, step)
        if step.get("unseen"):
            continue
        world.settle(nodes=step.get("nodes", True))
        check(world, step.get("expect", {}), before)


def act(world: World, step: dict[str, Any]) -> None:
    if "suspend" in step:
        world.set_spec(suspend=step["suspend"])
    if "scale" in step:
        world.scale(step["scale"])
    if "parallelism" in step:
        world.set_spec(parallelism=step["parallelism"])
    for phase, indexes in (("Succeeded", "succeed"), ("Failed", "fail"), ("Running", "unready")):
        for index in step.get(indexes, ()):
            world.set_phase(world.pod_of(index), phase)
    for index in step.get("restart", ()):
        world.set_phase(world.pod_of(index), "Running", restarts=step["times"])
    for index in step.get("delete", ()):
        world.delete(world.pod_of(index))
    if "wait" in step:
        if step.keys() & {"fail", "delete"}:
            world.settle(nodes=step.get("nodes", True))
        world.now += timedelta(seconds=step["wait"])


def uids(world: World) -> dict[int, str]:
    return {completion_index(pod): pod.metadata.uid for pod in world.active()}


def check(world: World, expect: dict[str, Any], before: dict[int, str]) -> None:
    status, after = world.job.status, uids(world)
    last = status.conditions[-1] if status.conditions else None
    found: dict[str, Any] = {
        "active": status.active,
        "ready": status.ready,
        "terminating": status.terminating,
        "succeeded": status.succeeded,
        "failed": status.failed,
        "completedIndexes": status.completed_indexes,
        "failedIndexes": status.failed_indexes,
        "activeIndexes": world.active_indexes(),
        "condition": last.type if last and last.status == "True" else None,
        "reason": last.reason if last else None,
        "started": status.start_time is not None,
        "completed": status.completion_time is not None,
        "kept": [index for index in expect.get("kept", ()) if after[index] == before[index]],
        "replaced": [index for index in expect.get("replaced", ()) if after[index] != before[index]],
        "pods": len(world.created),
        "tracked": sum(Member.of(pod).tracked for pod in world.pods.values()),
    }
    assert {name: found[name] for name in expect} == expect
