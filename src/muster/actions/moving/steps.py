"""The steps of a move. Each is one write to the cluster, or a wait. Values only."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from muster.api.kinds import Kind
from muster.install.options import Json


class RefusedError(Exception):
    """The error of a move that would disturb running jobs, or cannot continue; the message says why."""


class AwaitedEvent(Enum):
    """An event that a move waits for; the value describes it to users."""

    KUEUE_STOPPED = "wait until the pods of Kueue's manager have ended"
    LEASE_FREE = "see that no engine renews the Lease"
    MUSTER_LEADS = "wait until Muster leads"
    MUSTER_STOPPED = "wait until the pods of Muster have ended"
    KUEUE_LEADS = "wait until Kueue's manager leads"


@dataclass(frozen=True, slots=True)
class MoveStep:
    """One step of a move. text: an imperative sentence for users."""

    text: str


@dataclass(frozen=True, slots=True)
class Try(MoveStep):
    """The step that sends documents to the server in a dry run, which changes nothing."""

    documents: Sequence[Json]


@dataclass(frozen=True, slots=True)
class Install(MoveStep):
    """The step that applies documents with server-side apply, by force, as the field manager `muster`."""

    documents: Sequence[Json]


@dataclass(frozen=True, slots=True)
class Create(MoveStep):
    """The step that creates an object of Kueue again, as it was before the takeover."""

    document: Json


@dataclass(frozen=True, slots=True)
class Patch(MoveStep):
    """The step that changes one object by a merge patch."""

    kind: Kind[Any]
    namespace: str
    name: str
    patch: Json


@dataclass(frozen=True, slots=True)
class ReleaseStep(MoveStep):
    """The step that removes Muster from the field managers of objects.

    held: each object with its remaining entries.
    """

    held: Sequence[tuple[Json, Sequence[Json]]]


@dataclass(frozen=True, slots=True)
class DeleteStep(MoveStep):
    """The step that deletes one object, after all objects that depend on it."""

    kind: Kind[Any]
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class GiveBack(MoveStep):
    """The step that hands over Muster's status of Workloads to Kueue, while no engine runs."""


@dataclass(frozen=True, slots=True)
class Await(MoveStep):
    """The step that waits for an event."""

    event: AwaitedEvent


def await_event(event: AwaitedEvent) -> Await:
    """Return the step that waits until an event has occurred."""
    return Await(event.value, event)


def make_delete_step(kind: Kind[Any], namespace: str, name: str) -> DeleteStep:
    """Return the step that deletes an object."""
    return DeleteStep(f"delete {title_object(kind, namespace, name)}", kind, namespace, name)


def title_object(kind: Kind[Any], namespace: str, name: str) -> str:
    """Return the title of an object: its kind, its namespace if it has one, and its name."""
    return f"{kind.kind} {namespace}/{name}" if namespace else f"{kind.kind} {name}"
