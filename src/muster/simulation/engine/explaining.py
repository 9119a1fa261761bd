"""Explain why a job of a simulation does not run, and whether it ever can. Pure."""

from collections.abc import Callable

from msgspec.structs import replace

from muster.api.kueue.names import REQUEUING_LIMIT_EXCEEDED, TOPOLOGY_PLACEMENT_FAILED
from muster.api.ours.teams import NOT_A_USER
from muster.queueing.model import Assignment, PendingReason
from muster.simulation.engine.job import SimulatedJob
from muster.simulation.outcome.record import Waiting

# The reasons for which jobs wait forever, unless a queue changes.
HOPELESS = frozenset(
    ("ExceedsMaxQuota", "NoMatchingFlavor", "Misconfigured", "Suspended", NOT_A_USER, REQUEUING_LIMIT_EXCEEDED)
)


def explain_wait(
    job: SimulatedJob,
    why: PendingReason | None,
    *,
    is_pending: bool,
    runs_anything: Callable[[], bool],
    redefines_later: bool,
    explain_lack: Callable[[], str],
) -> Waiting:
    """Return why a job does not run, and whether it never will.

    why: the reason that its queue reports; None without one.
    is_pending: whether the job waits in a queue.
    runs_anything: returns whether any job runs.
    redefines_later: whether a change of a queue is still planned.
    explain_lack: returns why the job's pods would not fit on empty nodes; "" if they would.
    """
    name = job.submission.name
    if job.given_up:
        why = PendingReason(REQUEUING_LIMIT_EXCEEDED, "its pods were not ready in time too often")
    if why is not None and not redefines_later and _is_hopeless(why, runs_anything):
        return Waiting(name, why.message, never=True)
    if lack := explain_lack():
        return Waiting(name, lack, never=True)
    if why is not None:
        return Waiting(name, why.message, never=False)
    return Waiting(
        name, "other jobs of its queue come first" if is_pending else "the nodes have no room for it", never=False
    )


def _is_hopeless(why: PendingReason, runs_anything: Callable[[], bool]) -> bool:
    """Return whether a job waits forever. If nothing runs, no topology domain will become free."""
    return why.reason in HOPELESS or (why.reason == TOPOLOGY_PLACEMENT_FAILED and not runs_anything())


def drop_places(assignment: Assignment | None) -> Assignment | None:
    """Return an assignment of flavors without its topology domains; None for None."""
    if assignment is None:
        return None
    return replace(assignment, podsets=tuple(replace(one, places=None) for one in assignment.podsets))
