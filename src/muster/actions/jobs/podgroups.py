"""Find pod groups that are queued without a job, cancel them, and wait for their end.

The names of the groups are the names that `muster ps` shows.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from muster.api.conditions import is_true
from muster.api.core import POD, Pod
from muster.api.kueue import WORKLOAD, Workload
from muster.api.kueue.names import FINISHED
from muster.insight.jobs.state import Ending, JobState, find_workload_state
from muster.insight.quota.state import display_name, find_quota_state
from muster.insight.reader.jobs.rows import plain_pods, pods_of
from muster.insight.reader.listing.access import list_or_none
from muster.runtime.client import Client
from muster.runtime.realclock import Clock

if TYPE_CHECKING:
    from muster.runtime.ids import Random


class Cancellation(Struct, frozen=True):
    """The outcome of the cancellation of a job, a pod group or a CronJob.

    outcome: a phrase for the user.
    rest: what `--delete` would remove in addition; "" for nothing.
    """

    outcome: str
    rest: str = ""


HAS_ENDED = Cancellation("has ended already", "what is known of it")
"""The outcome where a job or a pod group has ended before it is cancelled."""

_DELETED = Ending(1, "it was deleted")


async def find_pods(client: Client, namespace: str, name: str) -> Workload | None:
    """Return the Workload of the pod group or single pod with this name.

    Returns None if there is none, or if the user may not list Workloads.
    """
    workloads = filter(_is_of_pods, await list_or_none(client, WORKLOAD, namespace) or ())
    named = (one for one in workloads if name in (one.metadata.name, display_name(one.metadata, namespace)))
    return next(named, None)


def _is_of_pods(workload: Workload) -> bool:
    owners = workload.metadata.owner_references
    return bool(owners) and all(map(POD.is_of, owners))


async def cancel_pods(client: Client, workload: Workload, *, also_finished: bool) -> Cancellation:
    """Delete the Workload of pods, and thereby the pods. Raises `ApiError`.

    The pods are deleted together with their Workload (Kueue KEP-976), including pods that a finalizer retains until
    they are replaced. A finished Workload is deleted only if `also_finished` is set.
    """
    if is_true(workload.status.conditions, FINISHED) and not also_finished:
        return HAS_ENDED
    meta = workload.metadata
    await client.delete(WORKLOAD, meta.name, meta.namespace, uid=meta.uid)
    return Cancellation("deleted, with its pods")


async def follow_pods(
    client: Client, clock: Clock, random: "Random", workload: Workload, report: Callable[[JobState], None]
) -> Ending:
    """Wait until the Workload of pods has finished or was deleted; return its ending.

    report: called with each new state.

    Raises `ApiError`, `TransportError`.
    """
    import asyncio  # cancelling needs none of these, and they take long to load

    from muster.runtime.informer import Informer
    from muster.runtime.tasks import run_together

    meta, changed = workload.metadata, asyncio.Event()
    workloads = Informer(client, WORKLOAD, clock, random, namespace=meta.namespace, fields=f"metadata.name={meta.name}")
    workloads.on_change(lambda _old, _new: changed.set())

    async def wait() -> Ending:
        await workloads.synced.wait()
        while True:
            changed.clear()
            now = workloads.get(f"{meta.namespace}/{meta.name}")
            if now is None or now.metadata.uid != meta.uid:
                return _DELETED
            state = find_workload_state(now, find_quota_state(now), await _read_pods(client, now))
            report(state)
            if state.finished:
                failed = state.word == "Failed"
                return Ending(int(failed), f"failed: {state.reason}" if failed else "")
            await changed.wait()

    return await run_together(wait(), workloads.run())


async def _read_pods(client: Client, workload: Workload) -> list[Pod]:
    return pods_of(workload, await plain_pods(client, workload.metadata.namespace, [workload]))
