# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""The plain objects of the core group: namespaces, configuration, identities, events."""

from datetime import datetime

from muster.api.core.references import LocalObjectReference, ObjectReference
from muster.api.markers import Base64, Int32, MicroTime, Required
from muster.api.meta import ObjectMeta, Struct


class NamespaceSpec(Struct):
    """What holds a namespace."""

    finalizers: tuple[str, ...] = ()


class NamespaceCondition(Struct):
    """One observed aspect of a namespace, most of them about what its deletion waits for."""

    type: Required[str] = ""
    status: Required[str] = ""
    last_transition_time: datetime | None = None
    reason: str = ""
    message: str = ""


class NamespaceStatus(Struct):
    """What was observed of a namespace."""

    phase: str = ""
    conditions: tuple[NamespaceCondition, ...] = ()


class Namespace(Struct):
    """A space for names."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NamespaceSpec = NamespaceSpec()
    status: NamespaceStatus = NamespaceStatus()


class ConfigMap(Struct):
    """Configuration for pods: keys and texts."""

    metadata: ObjectMeta = ObjectMeta()
    immutable: bool | None = None
    data: dict[str, str] = {}
    binary_data: dict[str, Base64] = {}


class Secret(Struct):
    """What only some may know: keys and bytes."""

    metadata: ObjectMeta = ObjectMeta()
    immutable: bool | None = None
    data: dict[str, Base64] = {}
    string_data: dict[str, str] = {}
    type: str = ""


class ServiceAccount(Struct):
    """An identity for processes in pods."""

    metadata: ObjectMeta = ObjectMeta()
    secrets: tuple[ObjectReference, ...] = ()
    image_pull_secrets: tuple[LocalObjectReference, ...] = ()
    automount_service_account_token: bool | None = None


class EventSource(Struct):
    """Who reported an event."""

    component: str = ""
    host: str = ""


class EventSeries(Struct):
    """How often an event has happened again."""

    count: Int32 = 0
    last_observed_time: MicroTime | None = None


class Event(Struct):
    """Something that happened to an object, for people to read; kept for an hour or so."""

    metadata: Required[ObjectMeta] = ObjectMeta()
    involved_object: Required[ObjectReference] = ObjectReference()
    reason: str = ""
    message: str = ""
    source: EventSource = EventSource()
    first_timestamp: datetime | None = None
    last_timestamp: datetime | None = None
    count: Int32 = 0
    type: str = ""
    event_time: MicroTime | None = None
    series: EventSeries | None = None
    action: str = ""
    related: ObjectReference | None = None
    reporting_component: str = ""
    reporting_instance: str = ""
