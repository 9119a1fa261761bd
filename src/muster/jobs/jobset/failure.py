"""What is done about failed Jobs: the first rule that one of them meets says it; without one, all Jobs are made anew.

A restart only raises a number in the status. What is older by that number goes at the next look, so that a controller
that is killed in between goes on with the same restart.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from msgspec.structs import replace

from muster.api.conditions import find_true
from muster.api.jobset import FailurePolicyRule, JobSet, ReplicatedJobStatus, names
from muster.api.notes import Note
from muster.api.values.patterns import PatternError, compile_pattern
from muster.jobs.job.conditions import FAILED
from muster.jobs.jobset.census import Member
from muster.jobs.jobset.conditions import Record
from muster.jobs.jobset.start.decide import waiting_again
from muster.jobs.jobset.start.group import renewed

_LAST = datetime.max.replace(tzinfo=UTC)


def apply(jobset: JobSet, record: Record, failed: Sequence[Member]) -> Record:
    """What the failure policy makes of some Jobs that have failed."""
    policy = jobset.spec.failure_policy
    if policy is None:
        return record.failed("FailedJobs", _about("jobset failed due to one or more job failures", first(failed)))
    rule, job = matching(policy.rules, failed)
    action = rule.action if rule is not None else names.RESTART_JOBSET
    about = _about(f"applying {action} failure policy action", job)
    counts = action in (names.RESTART_JOBSET, names.RESTART_JOB)
    if action == names.FAIL_JOBSET:
        return record.failed(f"{action}FailurePolicyAction", about)
    if counts and restarts_so_far(jobset, record) >= policy.max_restarts:
        message = _about("jobset failed due to reaching max number of restarts", job)
        return record.failed("ReachedMaxRestarts", message)
    if action in (names.RESTART_JOB, names.RESTART_JOB_IGNORING_MAX):
        record = _with_job_restarted(jobset, record, job, counts=counts)
    else:
        reason = f"FailurePolicy_{rule.name}" if rule is not None else "DefaultFailurePolicy"
        record = _with_all_restarted(jobset, record, counts=counts).restarting(reason, about)
    return record.told(Note("Warning", f"{action}FailurePolicyAction", about))


def matching(rules: Iterable[FailurePolicyRule], failed: Sequence[Member]) -> tuple[FailurePolicyRule | None, Member]:
    """The first rule that a failed Job meets, and of those that meet it the one that failed first."""
    for rule in rules:
        if met := [member for member in failed if meets(rule, member)]:
            return rule, first(met)
    return None, first(failed)


def meets(rule: FailurePolicyRule, member: Member) -> bool:
    """Whether a failed Job is what the rule is about: of a role, for a reason, with a message."""
    condition = find_true(member.job.status.conditions, FAILED)
    if condition is None:
        return False
    if rule.target_replicated_jobs and member.role not in rule.target_replicated_jobs:
        return False
    if rule.on_job_failure_reasons and condition.reason not in rule.on_job_failure_reasons:
        return False
    patterns = rule.on_job_failure_message_patterns
    return not patterns or any(_is_found(pattern, condition.message) for pattern in patterns)


def first(failed: Sequence[Member]) -> Member:
    """The Job that failed first."""
    return min(failed, key=_failed_at)


def restarts_so_far(jobset: JobSet, record: Record) -> int:
    """The restarts that count, of all Jobs together and of each by itself."""
    own = sum(sum(role.job_restarts_count_towards_max) for role in record.status.replicated_jobs_status)
    return jobset.status.restarts_count_towards_max + own


def _failed_at(member: Member) -> datetime:
    condition = find_true(member.job.status.conditions, FAILED)
    return (condition.last_transition_time if condition is not None else None) or _LAST


def _is_found(pattern: str, message: str) -> bool:
    """A pattern that is none finds nothing: the server refuses them, but did not always."""
    try:
        return compile_pattern(pattern)(message)
    except PatternError:
        return False


def _about(message: str, member: Member) -> str:
    return f"{message} (first failed job: {member.job.metadata.name})"


def _with_all_restarted(jobset: JobSet, record: Record, *, counts: bool) -> Record:
    status = record.status
    counted = status.restarts_count_towards_max + counts
    return record.with_status(
        replace(
            status,
            restarts=status.restarts + 1,
            restarts_count_towards_max=counted,
            group_scheduling=renewed(jobset),
        )
    )


def _with_job_restarted(jobset: JobSet, record: Record, member: Member, *, counts: bool) -> Record:
    replicas = next(role.replicas for role in jobset.spec.replicated_jobs if role.name == member.role)

    def restarted(role: ReplicatedJobStatus) -> ReplicatedJobStatus:
        if role.name != member.role:
            return role
        return replace(
            role,
            job_restarts=_raised(role.job_restarts, member.index, replicas),
            job_restarts_count_towards_max=_raised(
                role.job_restarts_count_towards_max, member.index, replicas, by=int(counts)
            ),
        )

    roles = tuple(map(restarted, record.status.replicated_jobs_status))
    start = waiting_again(jobset, member.role)
    return record.with_status(replace(record.status, replicated_jobs_status=roles, group_scheduling=start))


def _raised(counts: tuple[int, ...], index: int, replicas: int, by: int = 1) -> tuple[int, ...]:
    if not by:
        return counts
    counts = counts or (0,) * replicas
    return (*counts[:index], counts[index] + by, *counts[index + 1 :])
