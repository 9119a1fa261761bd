"""Read groups of pods, with their pods and Events: PodGroups in all dialects, and Kueue's groups that do not queue."""

from collections.abc import Callable, Sequence

from muster.api.core import EVENT, Event, Pod
from muster.api.kueue.names import POD_GROUP_NAME_LABEL, POD_GROUP_TOTAL_COUNT
from muster.api.managed.podgroup import group_name
from muster.api.podgroups.names import GROUP_NAME_ANNOTATION, VOLCANO_GROUP_NAME_ANNOTATION
from muster.insight.jobs.podgroups import PodGroupView, view_groups, view_unqueued_groups
from muster.insight.reader.listing.access import list_or_none, list_or_say
from muster.insight.reader.listing.views import POD_LINES, WORKLOAD_LINES, PodSharer
from muster.jobs.podgroup.record import KINDS, NATIVE
from muster.jobs.podgroup.reference import By
from muster.runtime.client import Client
from muster.runtime.eventloop import await_all

# The annotations with which pods name their group, and its size.
GROUP_ANNOTATIONS = (
    GROUP_NAME_ANNOTATION, POD_GROUP_NAME_LABEL, POD_GROUP_TOTAL_COUNT, VOLCANO_GROUP_NAME_ANNOTATION,
)  # fmt: skip


async def pod_groups(client: Client, namespace: str, say: Callable[[str], None]) -> list[PodGroupView]:
    """Return the PodGroups of a namespace ("" for all), and Kueue's pod groups that do not queue, all by name.

    say: receives a sentence about each dialect that the user may not list.

    Raises:
        ApiError: the user may not list pods.
    """
    pods = (await client.list(POD_LINES, namespace, transform=PodSharer(GROUP_ANNOTATIONS))).items
    reads = (list_or_say(client, kind, namespace, say, f"PodGroups of {kind.group}") for kind in KINDS)
    lists = dict(zip(KINDS, await await_all(*reads), strict=True))
    ways = [by for by in By if by is not By.FIELD or lists[NATIVE] is not None]
    views = view_groups([group for groups in lists.values() for group in groups or ()], pods, ways)
    views += await _list_unqueued_groups(client, namespace, pods)
    return sorted(views, key=lambda view: (view.namespace, view.name))


async def _list_unqueued_groups(client: Client, namespace: str, pods: Sequence[Pod]) -> list[PodGroupView]:
    """Return the pod groups of Kueue that have no Workload yet; none if the user may not see Workloads."""
    grouped = [pod for pod in pods if group_name(pod.metadata)]
    workloads = await list_or_none(client, WORKLOAD_LINES, namespace) if grouped else None
    if workloads is None:
        return []
    return view_unqueued_groups(grouped, {(one.metadata.namespace, one.metadata.name) for one in workloads})


async def events_of(client: Client, view: PodGroupView) -> list[Event]:
    """Return the Events of a group's object; [] if there is no object or the user may not see Events."""
    if view.group is None:
        return []
    return await list_or_none(client, EVENT, view.namespace, fields=f"involvedObject.uid={view.group.uid}") or []
