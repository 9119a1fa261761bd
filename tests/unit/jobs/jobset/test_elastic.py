"""Changes of a role that its running Jobs follow."""

from tests.unit.jobs.jobset.world import begun, role


def test_running_jobs_follow_the_size_and_the_time_limit_of_their_role():
    world = begun(role("w", pods=2), role("driver"))
    world.set(replicatedJobs=[role("w", pods=3, activeDeadlineSeconds=60), role("driver")])
    followed = {name: (job.spec.completions, job.spec.active_deadline_seconds) for name, job in world.jobs.items()}
    assert followed == {"js-w-0": (3, 60), "js-driver-0": (1, None)}
    world.set(replicatedJobs=[role("w", pods=3), role("driver")])
    assert world.jobs["js-w-0"].spec.active_deadline_seconds is None
