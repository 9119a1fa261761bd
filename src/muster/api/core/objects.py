# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""The basic objects of the core group: namespaces, configuration, identities, events."""

from datetime import datetime

from muster.api.core.references import LocalObjectReference, ObjectReference
from muster.api.markers import Base64, Int32, MicroTime, Required
from muster.api.meta import ObjectMeta, Struct


class NamespaceSpec(Struct):
    """The desired state of a namespace: its finalizers."""

    finalizers: tuple[str, ...] = ()


class NamespaceCondition(Struct):
    """One observed aspect of a namespace, usually an obstacle to its deletion."""

    type: Required[str] = ""
    status: Required[str] = ""
    last_transition_time: datetime | None = None
    reason: str = ""
    message: str = ""


class NamespaceStatus(Struct):
    """The observed state of a namespace."""

    phase: str = ""
    conditions: tuple[NamespaceCondition, ...] = ()


class Namespace(Struct):
    """A scope of names of objects."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NamespaceSpec = NamespaceSpec()
    status: NamespaceStatus = NamespaceStatus()


class ConfigMap(Struct):
    """Configuration for pods, as keys and texts."""

    metadata: ObjectMeta = ObjectMeta()
    immutable: bool | None = None
    data: dict[str, str] = {}
    binary_data: dict[str, Base64] = {}


class Secret(Struct):
    """Confidential data, as keys and bytes."""

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
    """The reporter of an event."""

    component: str = ""
    host: str = ""


class EventSeries(Struct):
    """The repetitions of an event."""

    count: Int32 = 0
    last_observed_time: MicroTime | None = None


class Event(Struct):
    """A report of something that happened to an object, for people. The server keeps it for about an hour."""

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
