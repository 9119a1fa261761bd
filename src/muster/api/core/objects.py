# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""The plain objects of the core group: namespaces, configuration, identities, events."""

from datetime import datetime
from typing import Annotated

from muster.api.core.references import LocalObjectReference, ObjectReference
from muster.api.markers import ATOMIC, Base64, Int32, MicroTime, Required, Strings, merged_by, one_of
from muster.api.meta import ObjectMeta, Struct


class NamespaceSpec(Struct):
    """What holds a namespace.

    finalizers: who must still act before the namespace is removed.
    """

    finalizers: Strings = ()


class NamespaceCondition(Struct):
    """One observed aspect of a namespace, most of them about what its deletion waits for.

    type: NamespaceDeletionContentFailure, NamespaceContentRemaining, NamespaceFinalizersRemaining, ...
    status: True, False or Unknown.
    last_transition_time: when the status last changed.
    reason: one word for the status.
    message: a sentence for people.
    """

    type: Required[str] = ""
    status: Required[str] = ""
    last_transition_time: datetime | None = None
    reason: str = ""
    message: str = ""


class NamespaceStatus(Struct):
    """What was observed of a namespace.

    phase: Active or Terminating.
    conditions: observed aspects.
    """

    phase: Annotated[str, one_of("Active", "Terminating")] = ""
    conditions: Annotated[tuple[NamespaceCondition, ...], merged_by("type")] = ()


class Namespace(Struct):
    """A space for names.

    metadata: what every object carries.
    spec: what holds it.
    status: what was observed.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: NamespaceSpec = NamespaceSpec()
    status: NamespaceStatus = NamespaceStatus()


class ConfigMap(Struct):
    """Configuration for pods: keys and texts.

    metadata: what every object carries.
    immutable: whether the data can never change.
    data: keys and texts; a key has letters, digits, -, _ and dots.
    binary_data: keys and bytes; no key is in both.
    """

    metadata: ObjectMeta = ObjectMeta()
    immutable: bool | None = None
    data: dict[str, str] = {}
    binary_data: dict[str, Base64] = {}


class Secret(Struct):
    """What only some may know: keys and bytes.

    metadata: what every object carries.
    immutable: whether the data can never change.
    data: keys and bytes; a key has letters, digits, -, _ and dots.
    string_data: keys and texts, put into data on write and never read back.
    type: what the data mean; Opaque if empty.
    """

    metadata: ObjectMeta = ObjectMeta()
    immutable: bool | None = None
    data: dict[str, Base64] = {}
    string_data: dict[str, str] = {}
    type: str = ""


class ServiceAccount(Struct):
    """An identity for processes in pods.

    metadata: what every object carries.
    secrets: secrets that pods of the account may use.
    image_pull_secrets: credentials that pods of the account get for pulling images.
    automount_service_account_token: whether its pods get a token, where they say nothing else.
    """

    metadata: ObjectMeta = ObjectMeta()
    secrets: Annotated[tuple[ObjectReference, ...], merged_by("name")] = ()
    image_pull_secrets: Annotated[tuple[LocalObjectReference, ...], ATOMIC] = ()
    automount_service_account_token: bool | None = None


class EventSource(Struct):
    """Who reported an event.

    component: the part of the system.
    host: the node it ran on.
    """

    component: str = ""
    host: str = ""


class EventSeries(Struct):
    """How often an event has happened again.

    count: how many times.
    last_observed_time: when it was last seen.
    """

    count: Int32 = 0
    last_observed_time: MicroTime | None = None


class Event(Struct):
    """Something that happened to an object, for people to read; kept for an hour or so.

    metadata: what every object carries.
    involved_object: what it happened to.
    reason: one word in CamelCase, for machines.
    message: a sentence, for people.
    source: who reported it.
    first_timestamp: when it was first seen.
    last_timestamp: when it was last seen.
    count: how many times it was seen.
    type: Normal or Warning.
    event_time: when it was first seen, to the microsecond.
    series: how often it has happened again.
    action: what was being done.
    related: another object that has to do with it.
    reporting_component: who reported it, by a domain-prefixed name.
    reporting_instance: which instance of that.
    """

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
