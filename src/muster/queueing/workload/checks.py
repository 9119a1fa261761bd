"""Compute the states of a workload's AdmissionChecks, which run between quota and admission (Kueue KEP-993)."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

import msgspec

from muster.api.kueue import (
    CHECK_PENDING,
    CHECK_READY,
    CHECK_REJECTED,
    CHECK_RETRY,
    AdmissionCheckState,
    ClusterQueueSpec,
)
from muster.queueing.moments import shift_moment

States = tuple[AdmissionCheckState, ...]


def of_queue(spec: ClusterQueueSpec) -> dict[str, frozenset[str]]:
    """Return the admission checks of a ClusterQueue, each with the flavors to which it applies (empty for all)."""
    if spec.admission_checks_strategy is None:
        return {}
    everything = {flavor.name for group in spec.resource_groups for flavor in group.flavors}
    return {
        check.name: frozenset() if everything.issubset(check.on_flavors) else frozenset(check.on_flavors)
        for check in spec.admission_checks_strategy.admission_checks
    }


def list_required_checks(checks: Mapping[str, frozenset[str]], flavors: Iterable[str] | None) -> list[str]:
    """Return the ClusterQueue's checks that apply to a workload with these flavors.

    flavors: the flavors; None if they are not assigned yet. Checks that apply only to certain flavors are then left
    out.
    """
    own = frozenset(flavors or ())
    return [name for name, only in checks.items() if not only or only & own]


def match_required_checks(states: States, names: Iterable[str], now: datetime) -> States:
    """Return the states of the checks with these names, sorted by name; a check without a state is Pending.

    The same tuple is returned if nothing changes.
    """
    by_name, required = {state.name: state for state in states}, set(names)
    if by_name.keys() == required:
        return states
    moment = now.replace(microsecond=0)
    return tuple(
        by_name.get(name)
        or AdmissionCheckState(name=name, state=CHECK_PENDING, message="", last_transition_time=moment)
        for name in sorted(required)
    )


def all_ready(states: States) -> bool:
    """Return whether all checks are ready, so that the workload may be admitted."""
    return all(state.state == CHECK_READY for state in states)


def find_rejection(states: States) -> str | None:
    """Return why a check rejects the workload, which is then deactivated; None if no check does."""
    return _describe_checks(states, CHECK_REJECTED)


def retry(states: States) -> str | None:
    """Return why a check demands a retry, for which the workload is evicted; None if no check does."""
    why = _describe_checks(states, CHECK_RETRY)
    return why and f"Evicted due to {why}"


def retry_at(states: States) -> datetime | None:
    """Return the time before which a workload must not be requeued after a retry; None if no check sets a time.

    If several checks set times, the latest applies.
    """
    moments = (
        shift_moment(check.last_transition_time, timedelta(seconds=check.requeue_after_seconds))
        for check in states
        if check.state == CHECK_RETRY and check.requeue_after_seconds and check.last_transition_time is not None
    )
    return max(moments, default=None)


def reset_checks(states: States, now: datetime) -> States:
    """Return the states of the checks after an eviction: all are Pending again.

    The retry count of a check that demanded a retry increases by 1; other checks lose their count. A check that is
    already Pending stays unchanged.
    """
    moment = now.replace(microsecond=0)
    return tuple(
        check
        if check.state == CHECK_PENDING
        else msgspec.structs.replace(
            check,
            state=CHECK_PENDING,
            last_transition_time=moment,
            message=f"Reset to Pending after eviction. Previously: {check.state}",
            retry_count=(check.retry_count or 0) + 1 if check.state == CHECK_RETRY else None,
            pod_set_updates=(),
        )
        for check in states
    )


def _describe_checks(states: States, state: str) -> str | None:
    """Return a sentence that names the checks in a state, each with its message; None if there are none."""
    matching = sorted((check.name, check.message) for check in states if check.state == state)
    if not matching:
        return None
    names = "; ".join(f'"{name}" ({message})' if message else f'"{name}"' for name, message in matching)
    return f"AdmissionCheck{'s' if len(matching) > 1 else ''} in {state} state: {names}"
