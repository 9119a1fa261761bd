"""Decide the consequence of failed Jobs for their JobSet, by its failure policy.

The first matching rule applies; without one, all Jobs are recreated.

A Job with a pod that the platform ended has not failed. Then all Jobs are recreated, whatever else failed in the same
attempt, and `maxRestarts` does not count that. But if a rule restarts such a Job alone, that rule applies.

A restart only raises a number in the status. The next decision deletes the Jobs with a lower number. So a controller
that is killed in between continues the same restart.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from msgspec.structs import replace

from muster.api.conditions import find_true
from muster.api.core import Pod
from muster.api.jobset import FailurePolicyRule, JobSet, ReplicatedJobStatus, names
from muster.api.notes import Note
from muster.api.pods import job_reference
from muster.api.values.patterns import PatternError, compile_pattern
from muster.jobs.interruption import INTERRUPTED, is_interrupted, last_interruption
from muster.jobs.job.conditions import FAILED, FAILURE_TARGET, POD_FAILURE_POLICY
from muster.jobs.job.evidence import describe_interruption
from muster.jobs.job.terms import JobTerms
from muster.jobs.jobset.census import Census, Member
from muster.jobs.jobset.conditions import StatusRecord
from muster.jobs.jobset.start.decide import waiting_again
from muster.jobs.jobset.start.group import begin_next_epoch

_LAST = datetime.max.replace(tzinfo=UTC)


def apply(jobset: JobSet, record: StatusRecord, failed: Sequence[Member]) -> StatusRecord:
    """Return the record after the failure policy has handled some failed Jobs.

    The JobSet fails, or it restarts one Job or all Jobs.
    """
    policy = jobset.spec.failure_policy
    if policy is None:
        return record.mark_failed(
            "FailedJobs", _name_job("jobset failed due to one or more job failures", find_first(failed))
        )
    rule, job = find_matching_rule(policy.rules, failed)
    action = rule.action if rule is not None else names.RESTART_JOBSET
    about = _name_job(f"applying {action} failure policy action", job)
    counts = action in (names.RESTART_JOBSET, names.RESTART_JOB)
    if action == names.FAIL_JOBSET:
        return record.mark_failed(f"{action}FailurePolicyAction", about)
    if counts and restarts_so_far(jobset, record) >= policy.max_restarts:
        message = _name_job("jobset failed due to reaching max number of restarts", job)
        return record.mark_failed("ReachedMaxRestarts", message)
    if action in (names.RESTART_JOB, names.RESTART_JOB_IGNORING_MAX):
        record = _restart_job(jobset, record, job, counts=counts)
    else:
        reason = f"FailurePolicy_{rule.name}" if rule is not None else "DefaultFailurePolicy"
        record = _restart_all(jobset, record, counts=counts).mark_restarting(reason, about)
    return record.with_notes(Note("Warning", f"{action}FailurePolicyAction", about))


def find_interruption(
    jobset: JobSet, census: Census, pods: Iterable[Pod] = (), *, in_place: bool = False
) -> tuple[Member, str] | None:
    """Return the first Job of this attempt that ends because the platform ended a pod, with the message.

    Return None if there is none. Jobs whose conditions record an interruption come before Jobs with an interrupted pod.

    pods: the JobSet's pods, if a Job has failed. The Job of an interrupted pod may not have its condition yet.
    in_place: whether pods restart in place. Then each recorded interruption of a Job counts, even if the Job continues.
    """
    members = (*census.active, *census.failed)
    for member in members:
        if (end_message := _find_interrupted_end(member)) is not None:
            return member, end_message
        if in_place and (last_message := last_interruption(member.job.status.conditions)):
            return member, last_message
    by_job = {member.job.metadata.uid: member for member in members}
    for pod in filter(is_interrupted, pods):
        owner = job_reference(pod)
        owning_member = by_job.get(owner.uid) if owner is not None else None
        if owning_member is not None and (message := _describe_loss(owning_member, pod, or_fails=is_excused(jobset))):
            return owning_member, message
    return None


def _find_interrupted_end(member: Member) -> str | None:
    """Return the message of the condition by which an interruption ends the Job; None if there is none."""
    conditions = member.job.status.conditions
    end = find_true(conditions, FAILURE_TARGET) or find_true(conditions, FAILED)
    return end.message if end is not None and end.reason == INTERRUPTED else None


def _describe_loss(member: Member, pod: Pod, *, or_fails: bool) -> str:
    """Return how the platform ended a pod of a Job; "" if the Job continues without the pod.

    or_fails: whether to describe also a pod whose podFailurePolicy rule fails the Job.
    """
    terms = JobTerms.of(member.job)
    return describe_interruption((pod,), terms.pod_failure_policy, or_fails=or_fails) if terms.restarts_whole else ""


def is_excused(jobset: JobSet) -> bool:
    """Return whether a failure policy rule restarts the JobSet, uncounted, if a Job fails by its podFailurePolicy.

    Users write that rule for the Job controller of Kubernetes. With that controller, too, another Job may fail before
    the Job with the interrupted pod fails.
    """
    rules = jobset.spec.failure_policy.rules if jobset.spec.failure_policy is not None else ()
    return any(
        rule.action == names.RESTART_JOBSET_IGNORING_MAX and POD_FAILURE_POLICY in rule.on_job_failure_reasons
        for rule in rules
    )


def restart_interrupted(jobset: JobSet, record: StatusRecord, member: Member, message: str) -> StatusRecord:
    """Return the record after an interruption: all Jobs restart, and `maxRestarts` does not count the restart.

    If a rule restarts the interrupted Job alone, only that Job restarts.
    """
    policy, record = jobset.spec.failure_policy, record.add_interruption(message)
    rule = next((rule for rule in policy.rules if _is_for_role(rule, member)), None) if policy is not None else None
    if rule is not None and rule.action in (names.RESTART_JOB, names.RESTART_JOB_IGNORING_MAX):
        return _restart_job(jobset, record, member, counts=False).with_notes(Note("Normal", INTERRUPTED, message))
    return _restart_all(jobset, record, counts=False).mark_restarting(INTERRUPTED, message)


def _is_for_role(rule: FailurePolicyRule, member: Member) -> bool:
    """Return whether a rule covers a Job by its role alone, whatever the reason of its failure."""
    ends = rule.on_job_failure_reasons or rule.on_job_failure_message_patterns
    return not ends and (not rule.target_replicated_jobs or member.role in rule.target_replicated_jobs)


def find_matching_rule(
    rules: Iterable[FailurePolicyRule], failed: Sequence[Member]
) -> tuple[FailurePolicyRule | None, Member]:
    """Return the first rule that a failed Job matches, with the Job that failed first among the Jobs that match it.

    If no rule matches, return None with the Job that failed first of all.
    """
    for rule in rules:
        if met := [member for member in failed if is_met(rule, member)]:
            return rule, find_first(met)
    return None, find_first(failed)


def is_met(rule: FailurePolicyRule, member: Member) -> bool:
    """Return whether a failed Job matches the rule by role, reason and message."""
    condition = find_true(member.job.status.conditions, FAILED)
    if condition is None:
        return False
    if rule.target_replicated_jobs and member.role not in rule.target_replicated_jobs:
        return False
    if rule.on_job_failure_reasons and condition.reason not in rule.on_job_failure_reasons:
        return False
    patterns = rule.on_job_failure_message_patterns
    return not patterns or any(_has_match(pattern, condition.message) for pattern in patterns)


def find_first(failed: Sequence[Member]) -> Member:
    """Return the Job that failed first."""
    return min(failed, key=_find_failure_time)


def restarts_so_far(jobset: JobSet, record: StatusRecord) -> int:
    """Return how many restarts count towards `maxRestarts`: restarts of all Jobs, and restarts of single Jobs."""
    own = sum(sum(role.job_restarts_count_towards_max) for role in record.status.replicated_jobs_status)
    return jobset.status.restarts_count_towards_max + own


def _find_failure_time(member: Member) -> datetime:
    condition = find_true(member.job.status.conditions, FAILED)
    return (condition.last_transition_time if condition is not None else None) or _LAST


def _has_match(pattern: str, message: str) -> bool:
    """Return whether a pattern matches.

    Old objects may contain invalid patterns, which the server now refuses; they match nothing.
    """
    try:
        return compile_pattern(pattern)(message)
    except PatternError:
        return False


def _name_job(message: str, member: Member) -> str:
    return f"{message} (first failed job: {member.job.metadata.name})"


def _restart_all(jobset: JobSet, record: StatusRecord, *, counts: bool) -> StatusRecord:
    status = record.status
    counted = status.restarts_count_towards_max + counts
    return record.with_status(
        replace(
            status,
            restarts=status.restarts + 1,
            restarts_count_towards_max=counted,
            group_scheduling=begin_next_epoch(jobset),
        )
    )


def _restart_job(jobset: JobSet, record: StatusRecord, member: Member, *, counts: bool) -> StatusRecord:
    replicas = next(role.replicas for role in jobset.spec.replicated_jobs if role.name == member.role)

    def restarted(role: ReplicatedJobStatus) -> ReplicatedJobStatus:
        if role.name != member.role:
            return role
        return replace(
            role,
            job_restarts=_raise_count(role.job_restarts, member.index, replicas),
            job_restarts_count_towards_max=_raise_count(
                role.job_restarts_count_towards_max, member.index, replicas, by=int(counts)
            ),
        )

    roles = tuple(map(restarted, record.status.replicated_jobs_status))
    start = waiting_again(jobset, member.role)
    return record.with_status(replace(record.status, replicated_jobs_status=roles, group_scheduling=start))


def _raise_count(counts: tuple[int, ...], index: int, replicas: int, by: int = 1) -> tuple[int, ...]:
    if not by:
        return counts
    counts = counts or (0,) * replicas
    return (*counts[:index], counts[index] + by, *counts[index + 1 :])
