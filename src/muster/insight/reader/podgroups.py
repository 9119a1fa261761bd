"""The reader of PodGroups in all dialects that a cluster serves, with their pods and Events."""

from collections.abc import Callable

from muster.api.core import EVENT, POD, Event
from muster.insight.jobs.podgroups import PodGroupView, view_groups
from muster.insight.reader.queues import list_or_none, list_or_say
from muster.jobs.podgroup.record import KINDS, NATIVE
from muster.jobs.podgroup.reference import By
from muster.runtime.client import Client
from muster.runtime.eventloop import await_all


async def pod_groups(client: Client, namespace: str, say: Callable[[str], None]) -> list[PodGroupView]:
    """Return the PodGroups of a namespace, or of all namespaces for "".

    say: receives a sentence about each dialect that the user may not list.

    Raises:
        ApiError: the user may not list pods.
    """
    pods = (await client.list(POD, namespace)).items
    reads = (list_or_say(client, kind, namespace, say, f"PodGroups of {kind.group}") for kind in KINDS)
    lists = dict(zip(KINDS, await await_all(*reads), strict=True))
    ways = [by for by in By if by is not By.FIELD or lists[NATIVE] is not None]
    return view_groups([group for groups in lists.values() for group in groups or ()], pods, ways)


async def events_of(client: Client, view: PodGroupView) -> list[Event]:
    """Return the Events of a group, or none if the user may not see Events."""
    if view.group is None:
        return []
    return await list_or_none(client, EVENT, view.namespace, fields=f"involvedObject.uid={view.group.uid}") or []
