"""When the group of a JobSet has a new epoch, and what its Jobs wait for: what one decision says."""

import pytest
from tests.unit.jobs.jobset.world import World, begun, jobset, role

from muster.jobs.jobset.decide import decide
from muster.jobs.jobset.plan import JobSetPlan
from muster.jobs.jobset.start.decide import NOTHING_SEEN, StartedPods

GROUP = {"targetReplicatedJobs": ["w"]}
USED = {"groupScheduling": {"epoch": 3, "releasedEpoch": 3}}
UNUSED = {"groupScheduling": {"epoch": 3, "releasedEpoch": 2}}


def plan(world: World, group: StartedPods = NOTHING_SEEN) -> JobSetPlan:
    return decide(world.jobset, tuple(world.jobs.values()), now=world.now, group=group)


def epoch(found: JobSetPlan) -> int:
    assert found.status.group_scheduling is not None
    return found.status.group_scheduling.epoch


def test_the_write_that_counts_a_restart_has_the_new_epoch():
    world = begun(role("w"), groupSchedulingConfig=GROUP, failurePolicy={"maxRestarts": 1})
    world.end("js-w-0", "Failed")
    found = plan(world)
    assert (found.status.restarts, epoch(found)) == (1, 2)


@pytest.mark.parametrize(("status", "after"), [(USED, 4), (UNUSED, 3)])
def test_a_jobset_that_is_suspended_has_a_new_epoch_if_its_own_is_used(status, after):
    world = World(jobset(role("w"), groupSchedulingConfig=GROUP, suspend=True, status=status))
    assert epoch(plan(world)) == after
    world.settle()
    assert epoch(plan(world)) == after


def test_no_job_of_the_group_is_made_or_resumed_before_its_config_map_is_known_to_be_its_own():
    world = World(jobset(role("w"), role("driver"), groupSchedulingConfig=GROUP))
    taken, kept = StartedPods({}, kept=False), StartedPods({})
    assert [job.metadata.name for job in plan(world, taken).create] == ["js-driver-0"]
    assert [job.metadata.name for job in plan(world, kept).create] == ["js-w-0", "js-driver-0"]
    world.set(suspend=True)
    world.change(suspend=False)
    assert [change.job.metadata.name for change in plan(world, taken).change] == ["js-driver-0"]
    assert {change.job.metadata.name for change in plan(world, kept).change} == {"js-w-0", "js-driver-0"}


def test_a_group_that_is_resumed_waits_for_no_job_that_has_succeeded():
    world = begun(role("w", 2), groupSchedulingConfig=GROUP, status=UNUSED)
    world.end("js-w-0", "Complete")
    seen = StartedPods({world.jobs["js-w-1"].metadata.uid: {"0"}})
    found = plan(world, seen).status.group_scheduling
    assert found is not None
    assert (found.released_epoch, found.started, found.expected) == (3, 1, 1)
