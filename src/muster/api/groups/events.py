"""`events.k8s.io/v1`: the newer spelling of core Events; both are views of one stored object."""

from datetime import datetime

from muster.api.core.objects import EventSource
from muster.api.core.references import ObjectReference
from muster.api.kinds import Kind
from muster.api.markers import Int32, MicroTime, Required
from muster.api.meta import ObjectMeta, Struct


class EventSeries(Struct):
    """The repetitions of an event."""

    count: Required[Int32] = 0
    last_observed_time: Required[MicroTime | None] = None


class Event(Struct):
    """A report of something that happened to an object, for people. The server keeps it for about an hour."""

    metadata: ObjectMeta = ObjectMeta()
    event_time: Required[MicroTime | None] = None
    series: EventSeries | None = None
    reporting_controller: str = ""
    reporting_instance: str = ""
    action: str = ""
    reason: str = ""
    regarding: ObjectReference = ObjectReference()
    related: ObjectReference | None = None
    note: str = ""
    type: str = ""
    deprecated_source: EventSource = EventSource()
    deprecated_first_timestamp: datetime | None = None
    deprecated_last_timestamp: datetime | None = None
    deprecated_count: Int32 = 0


EVENTS_V1_EVENT = Kind("events.k8s.io", "v1", "Event", "events", Event)
