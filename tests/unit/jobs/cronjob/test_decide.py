"""What one decision about a CronJob asks for."""

from typing import Any

import pytest
from tests.unit.jobs.cronjob.cronjobs import active, cron_job, job, moment

from muster.api.batch import CronJob, Job
from muster.api.ours.submitter import SUBMITTER_ANNOTATION
from muster.jobs.cronjob.decide import add_started, decide, make_job

NOON = moment("2026-01-01T12:00")
DUE_NAME = "c-29454480"  # minutes since 1970


def reasons(plan: Any) -> list[str]:
    return [note.reason for note in plan.notes]


def names(status: Any) -> list[str]:
    return [each.name for each in status.active]


def test_a_job_is_made_from_the_template() -> None:
    made = make_job(cron_job(timeZone="Europe/Berlin"), NOON)
    assert (made.metadata.name, made.metadata.namespace) == (DUE_NAME, "default")
    assert made.metadata.labels == {"kueue.x-k8s.io/queue-name": "night"}
    scheduled = {"batch.kubernetes.io/cronjob-scheduled-timestamp": "2026-01-01T13:00:00+01:00"}
    assert made.metadata.annotations == {"a": "b"} | scheduled
    [owner] = made.metadata.owner_references
    assert (owner.kind, owner.name, owner.uid, owner.controller) == ("CronJob", "c", "c-uid", True)
    assert owner.block_owner_deletion
    assert made.spec.parallelism == 2


def test_a_start_without_a_zone_is_told_in_utc() -> None:
    annotations = make_job(cron_job(), NOON).metadata.annotations
    assert annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"] == "2026-01-01T12:00:00Z"


def test_a_template_cannot_name_another_submitter() -> None:
    claimed = {"metadata": {"annotations": {SUBMITTER_ANNOTATION: "root"}}}
    for annotations in ({SUBMITTER_ANNOTATION: "ada"}, {}):
        made = make_job(cron_job(jobTemplate=claimed, meta={"annotations": annotations}), NOON)
        assert made.metadata.annotations.get(SUBMITTER_ANNOTATION) == annotations.get(SUBMITTER_ANNOTATION)


@pytest.mark.parametrize(
    ("policy", "starts", "replaces", "still_active", "told"),
    [
        ("Allow", True, (), ["old"], []),
        ("Forbid", False, (), ["old"], ["JobAlreadyActive"]),
        ("Replace", True, ("old",), [], []),
    ],
)
def test_concurrency(policy: str, starts: bool, replaces: Any, still_active: Any, told: Any) -> None:
    plan = decide(
        cron_job(concurrencyPolicy=policy, status={"active": active("old")}), [job("old")], now=NOON, missing=()
    )
    assert (plan.start is not None) == starts
    if plan.start is not None:
        assert (plan.start.at, tuple(job.metadata.name for job in plan.start.replaces)) == (NOON, replaces)
    assert names(plan.status) == still_active
    assert reasons(plan) == told
    assert plan.wake_at == moment("2026-01-01T13:00")


def test_only_its_own_jobs_are_replaced() -> None:
    """A user may write any name into the status."""
    one = cron_job(concurrencyPolicy="Replace", status={"active": active("old", "another's")})
    plan = decide(one, [job("old")], now=NOON)
    assert plan.start is not None
    assert [each.metadata.name for each in plan.start.replaces] == ["old"]
    assert names(plan.status) == ["another's"]


def test_a_forbidden_start_comes_once_the_other_job_has_ended() -> None:
    one = cron_job(concurrencyPolicy="Forbid", status={"active": active("old")})
    plan = decide(one, [job("old", "Complete", completed="2026-01-01T12:20:00Z")], now=moment("2026-01-01T12:20"))
    assert plan.start is not None
    assert plan.start.at == NOON
    assert reasons(plan) == ["SawCompletedJob"]
    assert plan.notes[0].message == "Saw completed job: old, condition: Complete"
    assert plan.status.last_successful_time == moment("2026-01-01T12:20")


@pytest.mark.parametrize(
    "paused", [cron_job(suspend=True), cron_job(meta={"deletionTimestamp": "2026-01-01T12:00:00Z"})]
)
def test_what_is_suspended_or_deleted_starts_nothing(paused: CronJob) -> None:
    plan = decide(paused, [], now=NOON)
    assert (plan.start, plan.wake_at, plan.notes) == (None, None, ())


def test_a_job_that_went_is_no_longer_active() -> None:
    one = cron_job(status={"active": active("gone", "new"), "lastScheduleTime": "2026-01-01T12:00:00Z"})
    plan = decide(one, [], now=NOON, missing=["gone"])
    assert names(plan.status) == ["new"]
    assert [(note.reason, note.message) for note in plan.notes] == [("MissingJob", "Active job went missing: gone")]


def test_a_job_of_somebody_else_is_told() -> None:
    one = cron_job(status={"lastScheduleTime": "2026-01-01T12:00:00Z"})
    going = job("going", deletionTimestamp="2026-01-01T12:00:00Z")
    plan = decide(one, [job("stranger"), job("done", "Failed"), going], now=NOON)
    told = ("Warning", "UnexpectedJob", "Saw a job that the controller did not create or forgot: stranger")
    assert [(note.type, note.reason, note.message) for note in plan.notes] == [told]


def test_a_job_whose_creation_was_cut_off_is_no_surprise() -> None:
    plan = decide(cron_job(), [job(DUE_NAME)], now=NOON)
    assert plan.start is not None
    assert plan.start.job.metadata.name == DUE_NAME
    assert plan.notes == ()


def finished(count: int, condition: str) -> list[Job]:
    """The newest first."""
    return [job(f"{condition}-{n}", condition, started=f"2026-01-01T0{n}:00:00Z") for n in reversed(range(count))]


@pytest.mark.parametrize(
    ("spec", "removed"),
    [
        ({}, ["Complete-0", "Failed-0", "Failed-1", "Failed-2"]),
        ({"successfulJobsHistoryLimit": 0, "failedJobsHistoryLimit": 9}, [f"Complete-{n}" for n in range(4)]),
        ({"successfulJobsHistoryLimit": None, "failedJobsHistoryLimit": None}, []),
    ],
)
def test_the_oldest_jobs_go(spec: Any, removed: list[str]) -> None:
    jobs = [*finished(4, "Complete"), *finished(4, "Failed"), job("runs")]
    plan = decide(cron_job(suspend=True, **spec), jobs, now=NOON)
    assert [each.metadata.name for each in plan.remove] == removed


def test_a_job_without_a_start_time_goes_last() -> None:
    jobs = [job("a", "Failed", started=""), job("b", "Failed")]
    plan = decide(cron_job(suspend=True, failedJobsHistoryLimit=1), jobs, now=NOON)
    assert [each.metadata.name for each in plan.remove] == ["b"]


def test_a_job_that_goes_already_is_not_removed_again() -> None:
    jobs = [job(name, "Failed", deletionTimestamp="2026-01-01T12:00:00Z") for name in ("a", "b")]
    assert decide(cron_job(suspend=True), jobs, now=NOON).remove == ()


def test_the_status_names_a_job_that_was_created() -> None:
    status = add_started(cron_job(status={"active": active("old")}).status, job("new", resourceVersion="7"), NOON)
    assert names(status) == ["old", "new"]
    reference = status.active[1]
    assert (reference.kind, reference.api_version, reference.uid) == ("Job", "batch/v1", "new")
    assert reference.resource_version == "7"
    assert status.last_schedule_time == NOON
    assert add_started(status, job("new"), NOON) == status
    assert names(add_started(cron_job().status, job("over", "Failed"), NOON)) == []
