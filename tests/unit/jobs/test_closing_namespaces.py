"""A Job in a namespace that is being deleted: no pod can be created there, and none waits for another."""

from datetime import timedelta
from typing import Any

import pytest
from tests.unit.jobs.world import World, job_of

from muster.api.batch import TRACKING_FINALIZER

SPEC = {"completionMode": "Indexed", "completions": 3, "parallelism": 3}


def world_of(**spec: Any) -> World:
    world = World(job_of(SPEC | spec))
    world.settle()
    return world


@pytest.mark.parametrize("spec", [{}, {"backoffLimitPerIndex": 3}])
def test_no_pod_is_created(spec: dict[str, Any]) -> None:
    world = world_of(**spec)
    world.closing = True
    for pod in world.active():
        world.set_phase(pod, "Failed")
    world.now += timedelta(hours=1)
    world.settle()
    assert (len(world.created), world.wake_at) == (3, None)


def test_failed_pods_count_and_wait_for_no_replacement() -> None:
    """Elsewhere each stays until the next pod of its index has taken over the count of its failures."""
    world = world_of(backoffLimitPerIndex=3)
    first, *others = world.active()
    world.set_phase(first, "Failed")
    world.settle()
    assert world.pods[first.metadata.uid].metadata.finalizers == (TRACKING_FINALIZER,)
    world.closing = True
    world.settle()
    assert world.pods[first.metadata.uid].metadata.finalizers == ()
    assert world.job.status.failed == 1
    for pod in others:  # a pod that runs is held until it has ended, and counts
        assert world.pods[pod.metadata.uid].metadata.finalizers == (TRACKING_FINALIZER,)
        world.set_phase(pod, "Succeeded")
    world.settle()
    assert (world.job.status.succeeded, world.job.status.completed_indexes) == (2, "1,2")
