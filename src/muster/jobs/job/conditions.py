"""The conditions of a Job: reading them, and changing one without disturbing the others.

A Job ends in two steps. The interim condition (SuccessCriteriaMet or FailureTarget) is written when the end is
decided; the terminal one (Complete or Failed) copies its reason and message once no pod is left to count. All four
are for ever: kube-apiserver refuses to take one back.
"""

from datetime import datetime

from msgspec import Struct

from muster.api.batch import Job, JobCondition
from muster.api.conditions import find_true

SUSPENDED = "Suspended"
SUCCESS_CRITERIA_MET = "SuccessCriteriaMet"
FAILURE_TARGET = "FailureTarget"
COMPLETE = "Complete"
FAILED = "Failed"

Conditions = tuple[JobCondition, ...]


class Verdict(Struct, frozen=True):
    """How the Job ends, and why."""

    success: bool
    reason: str
    message: str

    @property
    def interim(self) -> str:
        """The condition that announces the end."""
        return SUCCESS_CRITERIA_MET if self.success else FAILURE_TARGET

    @property
    def terminal(self) -> str:
        """The condition that is the end."""
        return COMPLETE if self.success else FAILED


COMPLETIONS_REACHED = Verdict(True, "CompletionsReached", "Reached expected number of succeeded pods")
DEADLINE_EXCEEDED = Verdict(False, "DeadlineExceeded", "Job was active longer than specified deadline")
MAX_FAILED_INDEXES_EXCEEDED = Verdict(
    False, "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes"
)
FAILED_INDEXES = Verdict(False, "FailedIndexes", "Job has failed indexes")


def backoff_limit_verdict(evidence: str) -> Verdict:
    """Too many pods failed. evidence: what befell the last of them, where the pod itself will not be there to tell."""
    message = "Job has reached the specified backoff limit"
    return Verdict(False, "BackoffLimitExceeded", f"{message}: {evidence}" if evidence else message)


def pod_failure_verdict(message: str) -> Verdict:
    """A pod matched a FailJob rule."""
    return Verdict(False, "PodFailurePolicy", message)


def success_policy_verdict(message: str) -> Verdict:
    """The indexes that succeeded satisfy a rule of the success policy."""
    return Verdict(True, "SuccessPolicy", message)


def finish(job: Job) -> JobCondition | None:
    """The terminal condition of a Job that has ended."""
    return find_true(job.status.conditions, COMPLETE) or find_true(job.status.conditions, FAILED)


def announced(job: Job) -> Verdict | None:
    """The end that an interim condition has announced. Success comes first: it may not be revised."""
    for type, success in ((SUCCESS_CRITERIA_MET, True), (FAILURE_TARGET, False)):
        if (condition := find_true(job.status.conditions, type)) is not None:
            return Verdict(success, condition.reason, condition.message)
    return None


def ensure(
    conditions: Conditions, type: str, status: str, reason: str, message: str, now: datetime
) -> tuple[Conditions, bool]:
    """The conditions with one of them as given, and whether that changes anything.

    A condition that is not there is never added as False. `lastTransitionTime` stays unless the status flips.
    """
    for at, old in enumerate(conditions):
        if old.type == type:
            if (old.status, old.reason, old.message) == (status, reason, message):
                return conditions, False
            since = old.last_transition_time if old.status == status else now
            return (
                *conditions[:at],
                _condition(type, status, reason, message, now, since),
                *conditions[at + 1 :],
            ), True
    if status == "False":
        return conditions, False
    return (*conditions, _condition(type, status, reason, message, now, now)), True


def _condition(
    type: str, status: str, reason: str, message: str, probed: datetime, since: datetime | None
) -> JobCondition:
    return JobCondition(
        type=type, status=status, reason=reason, message=message, last_probe_time=probed, last_transition_time=since
    )
