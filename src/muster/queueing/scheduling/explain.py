"""Explain assignments with upstream's messages: why workloads wait, reasons, and the flavors that were tried."""

from muster.api.kueue.names import TOPOLOGY_PLACEMENT_FAILED
from muster.queueing.model import Assignment, Cause, FlavorAttempt, Mode, PodSetAssignment

# All causes, from the least to the most serious.
CAUSES: tuple[Cause, ...] = ("", "TopologyPlacementFailed", "WaitingForQuota", "ExceedsMaxQuota", "NoMatchingFlavor")

_MODES = {
    Mode.NO_FIT: "NoFit",
    Mode.NO_CANDIDATES: "preemptionMode=NoCandidates",
    Mode.PREEMPT: "preemptionMode=Preempt",
    Mode.RECLAIM: "preemptionMode=Reclaim",
    Mode.FIT: "Fit",
}


def explain_wait(assignment: Assignment) -> str:
    """Return why the workload does not get quota now; "" if it fits."""
    for podset in assignment.podsets:
        if podset.error:
            return f"failed to assign flavors to pod set {podset.name}: {podset.error}"
    return "; ".join(
        f"couldn't assign flavors to pod set {podset.name}: {', '.join(podset.reasons)}"
        for podset in assignment.podsets
        if podset.reasons
    )


def describe_considered(assignment: Assignment) -> str:
    """Return the tried flavors that do not fit or would borrow.

    The format is that of the message of the event QuotaReserved.
    """
    notes = ((podset.name, ", ".join(map(_format_attempt, _find_notable(podset)))) for podset in assignment.podsets)
    return " | ".join(f"{name}: {note}" for name, note in notes if note)


def _find_notable(podset: PodSetAssignment) -> list[FlavorAttempt]:
    return [attempt for attempt in podset.attempts if attempt.mode != Mode.FIT or attempt.level]


def _format_attempt(attempt: FlavorAttempt) -> str:
    borrow = [f"borrow={attempt.level}"] if attempt.level else []
    return f"{attempt.flavor}({';'.join([_MODES[attempt.mode], *borrow, *attempt.reasons])})"


def find_reason(assignment: Assignment) -> Cause:
    """Return the reason of the condition QuotaReserved=False of a workload that does not fit; "" if it fits.

    Flavors of a resource group are alternatives, so the least serious cause is chosen. All groups and podsets are
    needed, so the most serious cause of these is chosen.
    """
    return most_serious(
        *(_find_cause(podset) for podset in assignment.podsets if podset.mode == Mode.NO_FIT or podset.unplaced)
    )


def most_serious(*causes: Cause) -> Cause:
    """Return the cause that has to be resolved first."""
    return max(causes, key=CAUSES.index, default="")


def _find_cause(podset: PodSetAssignment) -> Cause:
    if podset.unplaced:
        return TOPOLOGY_PLACEMENT_FAILED
    groups: dict[int, Cause] = {}
    for attempt in podset.attempts:
        if attempt.mode == Mode.NO_FIT:
            least = groups.get(attempt.group, attempt.cause)
            groups[attempt.group] = min(least, attempt.cause, key=CAUSES.index)
    return most_serious(*groups.values()) if podset.attempts else "NoMatchingFlavor"
