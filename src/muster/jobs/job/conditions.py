"""Read the conditions of a Job, and change one without affecting the others.

A Job ends in two steps. The interim condition (SuccessCriteriaMet or FailureTarget) is written when the end is decided.
The terminal condition (Complete or Failed) copies its reason and message once all pods are counted. All four conditions
are final: kube-apiserver refuses to remove one.
"""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from muster.api.batch import Job, JobCondition
from muster.api.conditions import find_true
from muster.api.core import Pod
from muster.api.meta import ObjectMeta
from muster.jobs.interruption import (
    INTERRUPTED,
    INTERRUPTIONS,
    add_interruptions,
    describe_suspension,
    interruption_of,
)

SUSPENDED = "Suspended"
SUCCESS_CRITERIA_MET = "SuccessCriteriaMet"
FAILURE_TARGET = "FailureTarget"
COMPLETE = "Complete"
FAILED = "Failed"

# The reason of the condition of a job that a user has cancelled.
CANCELLED = "Cancelled"

# The reason of a Job's end by its podFailurePolicy.
POD_FAILURE_POLICY = "PodFailurePolicy"

Conditions = tuple[JobCondition, ...]


class Verdict(Struct, frozen=True):
    """The decided end of a Job: success or failure, with reason and message."""

    success: bool
    reason: str
    message: str

    @property
    def interim(self) -> str:
        """The condition that announces the end."""
        return SUCCESS_CRITERIA_MET if self.success else FAILURE_TARGET

    @property
    def terminal(self) -> str:
        """The condition that marks the end."""
        return COMPLETE if self.success else FAILED


COMPLETIONS_REACHED = Verdict(True, "CompletionsReached", "Reached expected number of succeeded pods")
DEADLINE_EXCEEDED = Verdict(False, "DeadlineExceeded", "Job was active longer than specified deadline")
MAX_FAILED_INDEXES_EXCEEDED = Verdict(
    False, "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes"
)
FAILED_INDEXES = Verdict(False, "FailedIndexes", "Job has failed indexes")
OTHERS_CANCELLED = Verdict(True, "CompletionsReached", "All indexes that were not cancelled have succeeded")
ALL_CANCELLED = Verdict(False, CANCELLED, "All its indexes were cancelled")


def backoff_limit_verdict(evidence: str) -> Verdict:
    """Return the verdict that a Job fails because too many of its pods failed.

    evidence: a phrase that says how pods failed; "" if a failed pod is kept and shows it.
    """
    message = "Job has reached the specified backoff limit"
    return Verdict(False, "BackoffLimitExceeded", f"{message}: {evidence}" if evidence else message)


def pod_failure_verdict(message: str) -> Verdict:
    """Return the verdict for a pod that matched a FailJob rule."""
    return Verdict(False, POD_FAILURE_POLICY, message)


def interrupted_verdict(message: str) -> Verdict:
    """Return the verdict that fails a Job of a JobSet because the platform ended a pod.

    The JobSet then restarts all its Jobs, or this Job alone if a rule of its failure policy says so.
    """
    return Verdict(False, INTERRUPTED, message)


def success_policy_verdict(message: str) -> Verdict:
    """Return the verdict that a Job succeeds because its succeeded indexes satisfy a rule of the success policy."""
    return Verdict(True, "SuccessPolicy", message)


def finish(job: Job) -> JobCondition | None:
    """Return the terminal condition of a Job; None if the Job has not ended."""
    return find_true(job.status.conditions, COMPLETE) or find_true(job.status.conditions, FAILED)


def find_announced_end(job: Job) -> Verdict | None:
    """Return the end that an interim condition has announced; None without one.

    Success comes first, because it is final.
    """
    for type, success in ((SUCCESS_CRITERIA_MET, True), (FAILURE_TARGET, False)):
        if (condition := find_true(job.status.conditions, type)) is not None:
            return Verdict(success, condition.reason, condition.message)
    return None


def ensure(
    conditions: Conditions, type: str, status: str, reason: str, message: str, now: datetime
) -> tuple[Conditions, bool]:
    """Return the conditions with the condition of this type set, and whether that changes any condition.

    A missing condition is never added as False. `lastTransitionTime` changes only if the status changes.
    """
    for at, old in enumerate(conditions):
        if old.type == type:
            if (old.status, old.reason, old.message) == (status, reason, message):
                return conditions, False
            since = old.last_transition_time if old.status == status else now
            return (
                *conditions[:at],
                _make_condition(type, status, reason, message, now, since),
                *conditions[at + 1 :],
            ), True
    if status == "False":
        return conditions, False
    return (*conditions, _make_condition(type, status, reason, message, now, now)), True


def with_interruptions(before: Conditions, pods: Sequence[Pod], now: datetime) -> Conditions:
    """Return the conditions with the count of interruptions increased by the number of these interrupted pods."""
    if not pods:
        return before
    last = interruption_of(pods[-1])
    detail = f"Pod {pods[-1].metadata.name} {last.message}" if last is not None else ""
    message = add_interruptions(before, len(pods), detail)
    return ensure(before, INTERRUPTIONS, "True", INTERRUPTED, message, now)[0]


def with_suspension(before: Conditions, job: ObjectMeta, now: datetime) -> Conditions:
    """Return the conditions with the count of interruptions increased by one, for a suspension of the Job.

    job: the metadata of the Job.
    """
    message = add_interruptions(before, 1, describe_suspension(job), by_suspension=True)
    return ensure(before, INTERRUPTIONS, "True", INTERRUPTED, message, now)[0]


def _make_condition(
    type: str, status: str, reason: str, message: str, probed: datetime, since: datetime | None
) -> JobCondition:
    return JobCondition(
        type=type, status=status, reason=reason, message=message, last_probe_time=probed, last_transition_time=since
    )
