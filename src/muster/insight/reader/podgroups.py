"""Reads PodGroups of every dialect that a cluster serves, with their pods and what was said of them."""

import asyncio
from collections.abc import Callable

from muster.api.core import EVENT, POD, Event
from muster.insight.jobs.podgroups import PodGroupView, view_groups
from muster.insight.reader.queues import list_or_none, list_or_say
from muster.jobs.podgroup.record import KINDS, NATIVE
from muster.jobs.podgroup.reference import By
from muster.runtime.client import Client


async def pod_groups(client: Client, namespace: str, say: Callable[[str], None]) -> list[PodGroupView]:
    """Those of a namespace, "" for all; a dialect that is not served has none, and one that may not be seen is said.

    Raises `ApiError` if the user may not list pods.
    """
    pods = (await client.list(POD, namespace)).items
    reads = (list_or_say(client, kind, namespace, say, f"PodGroups of {kind.group}") for kind in KINDS)
    lists = dict(zip(KINDS, await asyncio.gather(*reads), strict=True))
    ways = [by for by in By if by is not By.FIELD or lists[NATIVE] is not None]
    return view_groups([group for found in lists.values() for group in found or ()], pods, ways)


async def events_of(client: Client, view: PodGroupView) -> list[Event]:
    """What was said of a group, the oldest first; nothing if the user may not see it."""
    if view.group is None:
        return []
    return await list_or_none(client, EVENT, view.namespace, fields=f"involvedObject.uid={view.group.uid}") or []
