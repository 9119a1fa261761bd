"""What an assignment says to people, in upstream's words: pending messages, reasons and what was considered."""

from muster.api.kueue.names import TOPOLOGY_PLACEMENT_FAILED
from muster.queueing.model import Assignment, Cause, FlavorAttempt, Mode, PodSetAssignment

# From the least to the most serious.
CAUSES: tuple[Cause, ...] = ("", "TopologyPlacementFailed", "WaitingForQuota", "ExceedsMaxQuota", "NoMatchingFlavor")

_MODES = {
    Mode.NO_FIT: "NoFit",
    Mode.NO_CANDIDATES: "preemptionMode=NoCandidates",
    Mode.PREEMPT: "preemptionMode=Preempt",
    Mode.RECLAIM: "preemptionMode=Reclaim",
    Mode.FIT: "Fit",
}


def message(assignment: Assignment) -> str:
    """Why the workload does not get quota now; "" if it fits."""
    for podset in assignment.podsets:
        if podset.error:
            return f"failed to assign flavors to pod set {podset.name}: {podset.error}"
    return "; ".join(
        f"couldn't assign flavors to pod set {podset.name}: {', '.join(podset.reasons)}"
        for podset in assignment.podsets
        if podset.reasons
    )


def considered(assignment: Assignment) -> str:
    """Which flavors were looked at and were not simply free, as the event QuotaReserved has it."""
    notes = ((podset.name, ", ".join(map(_note, _notable(podset)))) for podset in assignment.podsets)
    return " | ".join(f"{name}: {note}" for name, note in notes if note)


def _notable(podset: PodSetAssignment) -> list[FlavorAttempt]:
    return [attempt for attempt in podset.attempts if attempt.mode != Mode.FIT or attempt.level]


def _note(attempt: FlavorAttempt) -> str:
    borrow = [f"borrow={attempt.level}"] if attempt.level else []
    return f"{attempt.flavor}({';'.join([_MODES[attempt.mode], *borrow, *attempt.reasons])})"


def cause(assignment: Assignment) -> Cause:
    """Of a workload that does not fit, the reason of its condition QuotaReserved=False; "" for others.

    Flavors of a resource group are alternatives, so the least serious of them counts; groups and podsets are needed
    all together, so of those the most serious counts.
    """
    return most_serious(
        *(_cause(podset) for podset in assignment.podsets if podset.mode == Mode.NO_FIT or podset.unplaced)
    )


def most_serious(*causes: Cause) -> Cause:
    """Of several, the one that has to be seen to first."""
    return max(causes, key=CAUSES.index, default="")


def _cause(podset: PodSetAssignment) -> Cause:
    if podset.unplaced:
        return TOPOLOGY_PLACEMENT_FAILED
    groups: dict[int, Cause] = {}
    for attempt in podset.attempts:
        if attempt.mode == Mode.NO_FIT:
            least = groups.get(attempt.group, attempt.cause)
            groups[attempt.group] = min(least, attempt.cause, key=CAUSES.index)
    return most_serious(*groups.values()) if podset.attempts else "NoMatchingFlavor"
