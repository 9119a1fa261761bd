"""Write the bindings of a gang's pods to nodes, so that a restarted scheduler can continue after any single write.

Each binding records on its pod that the pods of the gang's start are bound together (the *intent*). A restarted
scheduler reads from a bound pod which other pods must be bound, even if the carrier is deleted. A binding whose
response is lost may have succeeded, so the scheduler reads that pod again before it decides about the pod. If the
server refuses one binding, the others are still written, and the caller places the refused pod again.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from muster.api.core import POD, Pod
from muster.api.meta import controller_of
from muster.api.ours.elastic import BINDING_ANNOTATION
from muster.api.podgroups.names import TAKEN_BACK_ANNOTATION
from muster.api.status import ApiError
from muster.controllers.gangs import existed_at, note_held_members
from muster.controllers.intents import Intent, note_intent
from muster.controllers.scheduler.carrier import Carrier
from muster.controllers.scheduler.deviceclaims import DeviceClaims
from muster.controllers.scheduler.roster import Roster
from muster.jobs.interruption import make_withdrawal_patch
from muster.runtime.client import Client
from muster.runtime.clock import Clock
from muster.runtime.refusals import ignoring
from muster.runtime.transport import STRATEGIC_MERGE_PATCH

# The maximum number of concurrent bindings for each gang: enough to fill the server's group commits.
BINDINGS_AT_ONCE = 64

# The server's errors that no retry of a binding solves.
_FOR_GOOD = (400, 403, 422)

# By pod UID, the node to which the server refused to bind the pod, and why.
Refusals = dict[str, tuple[str, str]]


class Binder:
    """The writer of bindings, which also deletes the bound pods of half-bound gangs.

    roster: counts each bound pod, and has a version number that shows whether a node has changed since it was chosen.
    """

    def __init__(self, client: Client, clock: Clock, roster: Roster) -> None:
        self._client = client
        self._roster = roster
        self._claims = DeviceClaims(client, clock, roster)
        self._unknown: set[str] = set()  # UIDs of pods whose bindings may have succeeded

    async def record_start(self, carrier: Carrier, held: int | None, intent: Intent | None) -> None:
        """Annotate the carrier with the facts of a start that the pods do not record.

        held: the size of the gang after the start; None to leave the recorded size unchanged.
        intent: the intent of a start that leaves some pods unbound; None for any other start.
        """
        annotations: dict[str, str | None] = {}
        if held is not None:
            annotations |= {BINDING_ANNOTATION: None, TAKEN_BACK_ANNOTATION: None}
            annotations |= note_held_members(carrier.meta, held)
        if intent is not None:
            annotations |= note_intent(carrier.meta, intent)
        if annotations:
            await self._annotate(carrier, annotations)

    async def record_held(self, carrier: Carrier, held: int) -> None:
        """Annotate the carrier with the size of its gang after it grew or shrank."""
        with ignoring("NotFound"):
            await self._annotate(carrier, note_held_members(carrier.meta, held))

    async def forget_intent(self, carrier: Carrier) -> None:
        """Remove the annotation with the binding intent from a carrier whose start is complete.

        The intent does not cover the pods that wait now.
        """
        with ignoring("NotFound"):
            await self._annotate(carrier, {BINDING_ANNOTATION: None})

    async def read(self, carrier: Carrier) -> Carrier | None:
        """Return the carrier as the server has it now, or None if it is deleted."""
        obj = await self._client.find(carrier.kind, carrier.meta.name, carrier.meta.namespace)
        return Carrier(carrier.kind, obj) if obj is not None else None

    async def record_loss(self, carrier: Carrier, message: str) -> None:
        """Annotate the carrier with the message that bound pods were deleted and that no controller recreates them."""
        with ignoring("NotFound"):
            await self._annotate(carrier, {TAKEN_BACK_ANNOTATION: message})

    async def _annotate(self, carrier: Carrier, annotations: Mapping[str, str | None]) -> None:
        patch = {"metadata": {"annotations": annotations}}
        await self._client.patch(carrier.kind, carrier.meta.name, patch, carrier.meta.namespace)

    async def bind(self, bindings: Sequence[tuple[Pod, str]], intent: Intent | None = None) -> Refusals:
        """Write the bindings; return the permanent refusals, by UID, and raise errors that a retry may solve.

        A pod that was deleted or bound before is skipped, because an event reports it.

        intent: recorded on these pods: all pods of the gang up to that age are bound together. None to record no
        intent.
        """
        limit = asyncio.Semaphore(BINDINGS_AT_ONCE)
        refusals: Refusals = {}
        version = self._roster.nodes_version

        async def bind(pod: Pod, node: str) -> None:
            async with limit:
                if self._roster.nodes_version != version and not self._roster.is_open(pod, node):
                    refusals[pod.metadata.uid] = (node, "the node is no longer open to it")
                    return
                try:
                    await self._claims.allocate(pod, node)
                    await self._post_binding(pod, node, intent)
                except ApiError as error:
                    if error.code not in _FOR_GOOD:
                        raise
                    refusals[pod.metadata.uid] = (node, f"the server refuses: {error}")

        outcomes = await asyncio.gather(*(bind(pod, node) for pod, node in bindings), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return refusals

    async def settle(self, pods: Mapping[str, Pod]) -> None:
        """Find out whether bindings whose response was lost succeeded, and count those pods as bound.

        Deallocate the claims of the pods that are not bound.

        pods: the pods of the gang without a node, by UID.
        """
        for pod in [pods[uid] for uid in self._unknown & pods.keys()]:
            uid = pod.metadata.uid
            current = await self._client.find(POD, pod.metadata.name, pod.metadata.namespace)
            if current is not None and current.metadata.uid == uid and current.spec.node_name:
                self._roster.count_as_bound(current, current.spec.node_name)
            self._unknown.discard(uid)
        await self._claims.give_back(pods)

    def may_be_bound(self, uid: str) -> bool:
        """Return whether a pod's binding may have succeeded without a response."""
        return uid in self._unknown

    def forget(self, uid: str) -> None:
        """Forget a deleted pod."""
        self._unknown.discard(uid)

    async def take_back(self, pods: Iterable[Pod]) -> None:
        """Delete the bound pods of a gang."""
        for pod in pods:
            patch = {"metadata": make_withdrawal_patch(pod)}
            # A pod that has ended since its last event still counts. Then the write conflicts, and the gang is
            # reconciled again.
            with ignoring("NotFound"):
                await self._client.patch_object(POD, pod, patch, type=STRATEGIC_MERGE_PATCH)
                await self._client.delete_object(POD, pod)

    async def _post_binding(self, pod: Pod, node: str, intent: Intent | None) -> None:
        meta: dict[str, Any] = {
            "name": pod.metadata.name, "namespace": pod.metadata.namespace, "uid": pod.metadata.uid
        }  # fmt: skip
        if intent is not None and existed_at(pod, intent.since):
            intent_annotations = meta["annotations"] = note_intent(pod.metadata, intent)
            pod = replace(
                pod, metadata=replace(pod.metadata, annotations=pod.metadata.annotations | intent_annotations)
            )
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}
        self._unknown.add(pod.metadata.uid)
        try:
            with ignoring("NotFound", "Conflict"):
                await self._client.post(POD, pod.metadata.name, pod.metadata.namespace, "binding", body)
                self._roster.count_as_bound(pod, node)
        except ApiError as error:
            if error.code in _FOR_GOOD:
                self._unknown.discard(pod.metadata.uid)
            raise
        self._unknown.discard(pod.metadata.uid)


def are_recreated(pods: Iterable[Pod]) -> bool:
    """Return whether each of the pods has a controller, which recreates it after its deletion."""
    return all(controller_of(pod.metadata) is not None for pod in pods)
