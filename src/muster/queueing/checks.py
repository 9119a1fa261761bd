"""Two-phase admission (KEP-993): AdmissionChecks stand between the reservation of quota and admission."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from muster.api.kueue import (
    CHECK_PENDING,
    CHECK_READY,
    CHECK_REJECTED,
    CHECK_RETRY,
    AdmissionCheckState,
    RequeueState,
    WorkloadStatus,
)

States = tuple[AdmissionCheckState, ...]


def wanted(checks: Mapping[str, frozenset[str]], flavors: Iterable[str] | None) -> list[str]:
    """Which of a ClusterQueue's checks concern a workload with these flavors; None before it has any.

    A check for certain flavors concerns only those who got one of them, so it is unknown before.
    """
    got = None if flavors is None else frozenset(flavors)
    return [name for name, only in checks.items() if not only or (got is not None and only & got)]


def synced(states: States, names: Sequence[str], now: datetime) -> States:
    """The states with exactly these checks; new ones are Pending. The same tuple if nothing changes."""
    known = {state.name: state for state in states}
    if list(known) == list(names):
        return states
    moment = now.replace(microsecond=0)
    fresh = {
        name: AdmissionCheckState(name=name, state=CHECK_PENDING, message="", last_transition_time=moment)
        for name in names
        if name not in known
    }
    kept = [state for state in states if state.name in names]
    if not fresh and len(kept) == len(states):
        return states
    return (*kept, *fresh.values())


def all_ready(states: States) -> bool:
    """Whether nothing stands between the reservation and admission."""
    return all(state.state == CHECK_READY for state in states)


def named(states: States, state: str) -> list[AdmissionCheckState]:
    """The checks in a state, sorted by name."""
    return sorted((check for check in states if check.state == state), key=lambda check: check.name)


def told(prefix: str, checks: Sequence[AdmissionCheckState]) -> str:
    """A sentence that names the checks, each with its message."""
    return prefix + "; ".join(f'"{check.name}" ({check.message})' for check in checks)


def rejection(states: States) -> str | None:
    """Why the workload is to be deactivated, if a check rejects it."""
    rejected = named(states, CHECK_REJECTED)
    return told("AdmissionCheck in Rejected state: ", rejected) if rejected else None


def retry(states: States) -> str | None:
    """Why the workload is to be evicted, if a check wants another try."""
    again = named(states, CHECK_RETRY)
    return told("Evicted due to AdmissionCheck in Retry state: ", again) if again else None


def retried(status: WorkloadStatus) -> WorkloadStatus:
    """The status of a workload that checks have sent back: how often is counted, and when it may come again."""
    moments = [
        check.last_transition_time + timedelta(seconds=check.requeue_after_seconds)
        for check in named(status.admission_checks, CHECK_RETRY)
        if check.requeue_after_seconds and check.last_transition_time is not None
    ]
    states = tuple(
        msgspec.structs.replace(check, retry_count=(check.retry_count or 0) + 1 if check.state == CHECK_RETRY else None)
        for check in status.admission_checks
    )
    state = status.requeue_state or RequeueState()
    at = max([*moments, *([state.requeue_at] if state.requeue_at else [])], default=None)
    changed = state if at == state.requeue_at else msgspec.structs.replace(state, requeue_at=at)
    return msgspec.structs.replace(
        status, admission_checks=states, requeue_state=changed if at is not None else status.requeue_state
    )
