"""Read the Events about a job: about its own object, its Jobs and its Workload."""

from collections.abc import Iterable
from datetime import datetime

from msgspec import Struct

from muster.api.core import EVENT, Event
from muster.api.kueue import Workload
from muster.insight.reader.listing.access import list_or_none
from muster.insight.record import JobRecord
from muster.runtime.client import Client

# The maximum number of Jobs of a JobSet whose Events are read, and of Events that are returned.
_MOST_JOBS, _MOST = 10, 50


class EventSummary(Struct, frozen=True):
    """The content of an Event.

    about: the kind and name of the object that the Event is about.
    count: how many times it occurred.
    """

    at: datetime | None
    reason: str
    message: str
    about: str
    is_warning: bool
    count: int


async def read_events(
    client: Client, namespace: str, job: JobRecord | None, workload: Workload | None
) -> list[EventSummary]:
    """Return the newest Events about a job, the newest first; none if the user may not see Events."""
    uids = [one.metadata.uid for one in (job, workload) if one is not None]
    uids += [one.metadata.uid for one in (job.jobs if job is not None else ())[:_MOST_JOBS]]
    return await read_events_about(client, namespace, uids)


async def read_events_about(client: Client, namespace: str, uids: Iterable[str]) -> list[EventSummary]:
    """Return the newest Events about objects, by their UIDs, the newest first; none if the user may not see Events."""
    lists = [await _read(client, namespace, uid) for uid in dict.fromkeys(uids) if uid]
    return select_newest(event for events in lists for event in events)


async def _read(client: Client, namespace: str, uid: str) -> list[Event]:
    return await list_or_none(client, EVENT, namespace, fields=f"involvedObject.uid={uid}") or []


def select_newest(events: Iterable[Event]) -> list[EventSummary]:
    """Return the content of the newest of these Events, the newest first."""
    summaries = [_summarize_event(event) for event in events]
    return sorted(summaries, key=lambda one: one.at.timestamp() if one.at is not None else 0.0, reverse=True)[:_MOST]


def _summarize_event(event: Event) -> EventSummary:
    about = event.involved_object
    last = event.series.last_observed_time if event.series is not None else None
    return EventSummary(
        last or event.last_timestamp or event.event_time or event.first_timestamp,
        event.reason,
        event.message,
        f"{about.kind} {about.name}",
        event.type == "Warning",
        max(event.count, event.series.count if event.series is not None else 0, 1),
    )
