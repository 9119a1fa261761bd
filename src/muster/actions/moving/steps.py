"""Define the steps that move a cluster from Kueue to Muster, or back. Other modules plan and execute them.

A step writes objects, tries a write in a dry run, or waits.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from muster.api.kinds import Kind
from muster.install.options import Json


class RefusedError(Exception):
    """A move that is refused because it would disturb running jobs or cannot continue.

    The message contains the reason.
    """


class AwaitedEvent(Enum):
    """An event that a move waits for. The value is its description for users."""

    KUEUE_STOPPED = "wait until the pods of Kueue's manager have ended"
    LEASE_FREE = "see that no engine renews the Lease"
    MUSTER_LEADS = "wait until Muster leads"
    MUSTER_STOPPED = "wait until the pods of Muster have ended"
    KUEUE_LEADS = "wait until Kueue's manager leads"


@dataclass(frozen=True, slots=True)
class MoveStep:
    """One step of a move.

    text: an imperative sentence that describes the step to users.
    """

    text: str


@dataclass(frozen=True, slots=True)
class Try(MoveStep):
    """A step that sends documents to the server in a dry run."""

    documents: Sequence[Json]


@dataclass(frozen=True, slots=True)
class Install(MoveStep):
    """A step that applies documents with server-side apply and `force`, as the field manager `muster`."""

    documents: Sequence[Json]


@dataclass(frozen=True, slots=True)
class Create(MoveStep):
    """A step that creates an object of Kueue again, with its content from before the takeover."""

    document: Json


@dataclass(frozen=True, slots=True)
class Patch(MoveStep):
    """A step that changes one object with a merge patch."""

    kind: Kind[Any]
    namespace: str
    name: str
    patch: Json


@dataclass(frozen=True, slots=True)
class ReleaseStep(MoveStep):
    """A step that removes Muster from the field managers of objects.

    held: the objects, each with its remaining entries of `managedFields`.
    """

    held: Sequence[tuple[Json, Sequence[Json]]]


@dataclass(frozen=True, slots=True)
class DeleteStep(MoveStep):
    """A step that deletes one object, after all objects that depend on it."""

    kind: Kind[Any]
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class GiveBack(MoveStep):
    """A step that hands the status of Workloads over from Muster to Kueue while no engine runs."""


@dataclass(frozen=True, slots=True)
class Await(MoveStep):
    """A step that waits for an event."""

    event: AwaitedEvent


def await_event(event: AwaitedEvent) -> Await:
    """Return a step that waits until the event has occurred."""
    return Await(event.value, event)


def make_delete_step(kind: Kind[Any], namespace: str, name: str) -> DeleteStep:
    """Return a step that deletes an object."""
    return DeleteStep(f"delete {title_object(kind, namespace, name)}", kind, namespace, name)


def title_object(kind: Kind[Any], namespace: str, name: str) -> str:
    """Return the title of an object: its kind, its namespace if it has one, and its name."""
    return f"{kind.kind} {namespace}/{name}" if namespace else f"{kind.kind} {name}"
