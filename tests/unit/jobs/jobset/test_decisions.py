"""The record of a restart."""

from datetime import UTC, datetime

from msgspec.structs import replace

from muster.api.jobset import JobSet
from muster.api.meta import ObjectMeta
from muster.api.notes import Note
from muster.jobs.jobset.decisions import describe_restart
from muster.jobs.jobset.plan import JobSetPlan

NOW = datetime(2026, 1, 1, tzinfo=UTC)
JOBSET = JobSet(metadata=ObjectMeta(name="j", namespace="ns", uid="u"))


def test_a_plan_that_raises_the_number_of_restarts_is_a_restart():
    plan = JobSetPlan(replace(JOBSET.status, restarts=2), notes=(Note("Warning", "Restarting", "a Job failed"),))
    restart = describe_restart(JOBSET, plan, NOW)
    assert restart is not None
    assert (restart.job, restart.uid, restart.attempt, restart.because) == ("ns/j", "u", 2, "a Job failed")


def test_any_other_plan_is_none():
    assert describe_restart(JOBSET, JobSetPlan(JOBSET.status), NOW) is None
