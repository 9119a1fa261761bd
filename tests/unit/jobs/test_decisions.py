"""One decision each, as data: `cases/decisions.yaml`."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.unit.jobs.world import START, World, job_of

from muster.api.batch import INDEX_FAILURE_COUNT, INDEX_IGNORED_FAILURE_COUNT, Job, JobStatus
from muster.jobs.job.accounting import settle_counted
from muster.jobs.job.backoff import Backoff
from muster.jobs.job.census import Census, completion_index

CASES = yaml.load((Path(__file__).parent / "cases" / "decisions.yaml").read_text(), yaml.CSafeLoader)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_decision(case: dict[str, Any]) -> None:
    world = given(case)
    before = set(world.pods)
    world.sync()
    created = [pod for uid, pod in world.pods.items() if uid not in before]
    expect = dict(case["expect"])
    created_indexes = [completion_index(pod) for pod in created]
    for name, found in {
        "create": created_indexes if isinstance(expect.get("create"), list) else len(created),
        "created_failures": [int(pod.metadata.annotations[INDEX_FAILURE_COUNT]) for pod in created
                             if INDEX_FAILURE_COUNT in pod.metadata.annotations],
        "created_ignored": [int(pod.metadata.annotations[INDEX_IGNORED_FAILURE_COUNT]) for pod in created
                            if INDEX_IGNORED_FAILURE_COUNT in pod.metadata.annotations],
        "delete": len(world.deleted),
        "release": len(world.released),
        "left": world.active_indexes()[: len(expect.get("left", []))],
        "wake": world.wake_at and (world.wake_at - world.now) // timedelta(seconds=1),
    }.items():  # fmt: skip
        if name in expect:
            assert found == expect.pop(name), name
    check(expect, world, settle_counted(world.job.status, Census.of(world.pods.values())))
    if "end" in case:
        world.settle()
        check(dict(case["end"]), world, world.job.status)


def given(case: dict[str, Any]) -> World:
    meta = {"deletion_timestamp": START} if case.get("deleting") else {}
    world = World(job_of(case["spec"], case.get("status"), **meta))
    for text in case.get("pods", ()):
        add_pods(world, text)
    world.now += timedelta(seconds=case.get("age", 0))
    world.create_limit = case.get("create_limit")
    world.delete_fails = case.get("delete_fails", False)
    if remembered := case.get("backoff"):
        world.backoff = Backoff(remembered["failures"], world.now - timedelta(seconds=remembered["ago"]))
    return world


def add_pods(world: World, text: str) -> None:
    """`Failed @1 x2 ago=5`: see the head of the data file."""
    phase, *words = text.split()
    how: dict[str, Any] = {}
    index: int | str | None = None
    ascending = False
    count = 1
    for word in words:
        name, _, value = word.partition("=")
        if word.startswith("@"):
            ascending = word.endswith("+")
            index = word[1:].rstrip("+")
        elif word.startswith("x") and word[1:].isdigit():
            count = int(word[1:])
        elif word in ("ready", "deleting"):
            how[word] = True
        elif word == "untracked":
            how["tracked"] = False
        elif name == "ago":
            how["ago"] = timedelta(seconds=int(value))
        elif name == "condition":
            how["conditions"] = ((value, "True"),)
        else:
            how[{"exit": "exit_code"}.get(name, name)] = int(value)
    for number in range(count):
        world.add(phase, int(index or 0) + number if ascending else index, **how)


def check(expect: dict[str, Any], world: World, status: JobStatus) -> None:
    found: dict[str, Any] = {
        "active": status.active,
        "ready": status.ready,
        "terminating": status.terminating,
        "succeeded": status.succeeded,
        "failed": status.failed,
        "completedIndexes": status.completed_indexes,
        "failedIndexes": status.failed_indexes,
        "conditions": shown_conditions(world.job),
        "reason": status.conditions[-1].reason if status.conditions else None,
        "message": status.conditions[-1].message if status.conditions else None,
        "started": status.start_time is not None,
        "completed": status.completion_time is not None,
        "notes": [note.reason for note in world.notes],
    }
    assert {name: found[name] for name in expect} == expect


def shown_conditions(job: Job) -> list[str]:
    return [
        condition.type if condition.status == "True" else f"{condition.type}={condition.status}"
        for condition in job.status.conditions
    ]
