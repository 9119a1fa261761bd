"""Writes bindings so that another scheduler can go on from any of them.

Before the first of several, the intent is recorded on the gang's carrier. A binding whose answer is lost may have
happened: its pod is read again before anything new is decided for it. One that the server will not have is no reason
to stop: the others are written, and the caller decides anew for it.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from muster.api.batch import TRACKING_FINALIZER
from muster.api.core import POD, Pod
from muster.api.meta import controller_of
from muster.api.podgroups.names import TAKEN_BACK_ANNOTATION
from muster.api.status import ApiError
from muster.controllers.gangs import BINDING_ANNOTATION
from muster.controllers.scheduler.carrier import Carrier
from muster.controllers.scheduler.roster import Roster
from muster.runtime.client import Client
from muster.runtime.clock import Clock
from muster.runtime.refusals import ignoring

# Bindings under way for each gang: enough to fill the server's group commits.
BINDINGS_AT_ONCE = 64

# What the server says of a binding that will not do, however often it is asked.
_FOR_GOOD = (400, 403, 422)

# For each pod, by its UID, the node to which it was not bound, and why.
Refusals = dict[str, tuple[str, str]]


class Binder:
    """Binds pods, and takes back what is half bound.

    roster: hears of each pod that has got its node, and says whether a node is still as it was when it was chosen.
    """

    def __init__(self, client: Client, clock: Clock, roster: Roster) -> None:
        self._client = client
        self._clock = clock
        self._roster = roster
        self._unknown: set[str] = set()  # pods whose bindings may have happened, by UID

    async def record_intent(self, carrier: Carrier) -> None:
        """Say on the carrier that its gang is being bound from now on."""
        since = self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        await self._annotate(carrier, {BINDING_ANNOTATION: since, TAKEN_BACK_ANNOTATION: None})

    async def forget_intent(self, carrier: Carrier) -> None:
        """Its gang is bound but for its surplus: should one go that runs, that is no half bound gang."""
        with ignoring("NotFound"):
            await self._annotate(carrier, {BINDING_ANNOTATION: None})

    async def record_loss(self, carrier: Carrier, message: str) -> None:
        """Say on the carrier which of its pods are deleted, that are not made anew."""
        with ignoring("NotFound"):
            await self._annotate(carrier, {TAKEN_BACK_ANNOTATION: message})

    async def _annotate(self, carrier: Carrier, annotations: dict[str, str | None]) -> None:
        patch = {"metadata": {"annotations": annotations}}
        await self._client.patch(carrier.kind, carrier.meta.name, patch, carrier.meta.namespace)

    async def bind(self, bindings: Sequence[tuple[Pod, str]]) -> Refusals:
        """Write the bindings. Returns those refused for good, by UID; what may go well later is raised.

        If a pod is gone or bound already, its own event tells.
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
                    await self._post(pod, node)
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
        """Read those pods again, given by UID, whose bindings may have happened."""
        for pod in [pods[uid] for uid in self._unknown & pods.keys()]:
            uid = pod.metadata.uid
            found = await self._client.find(POD, pod.metadata.name, pod.metadata.namespace)
            if found is not None and found.metadata.uid == uid and found.spec.node_name:
                self._roster.is_bound(pod, found.spec.node_name)
            self._unknown.discard(uid)

    def may_be_bound(self, uid: str) -> bool:
        """Whether a pod's binding may have happened though no answer came."""
        return uid in self._unknown

    def forget(self, uid: str) -> None:
        """A pod is gone."""
        self._unknown.discard(uid)

    async def take_back(self, pods: Iterable[Pod]) -> None:
        """Delete the bound pods of a gang."""
        for pod in pods:
            # Without its finalizer a pod goes uncounted: this is no failure of the Job's.
            kept = [finalizer for finalizer in pod.metadata.finalizers if finalizer != TRACKING_FINALIZER]
            # A pod that has ended meanwhile counts: then this is a conflict, and all is looked at again.
            with ignoring("NotFound"):
                await self._client.patch_object(POD, pod, {"metadata": {"finalizers": kept}})
                await self._client.delete_object(POD, pod)

    async def _post(self, pod: Pod, node: str) -> None:
        meta = {"name": pod.metadata.name, "namespace": pod.metadata.namespace, "uid": pod.metadata.uid}
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}
        self._unknown.add(pod.metadata.uid)
        try:
            with ignoring("NotFound", "Conflict"):
                await self._client.post(POD, pod.metadata.name, pod.metadata.namespace, "binding", body)
                self._roster.is_bound(pod, node)
        except ApiError as error:
            if error.code in _FOR_GOOD:
                self._unknown.discard(pod.metadata.uid)
            raise
        self._unknown.discard(pod.metadata.uid)


def come_again(pods: Iterable[Pod]) -> bool:
    """Whether each of them has a controller, which makes it anew when it is gone."""
    return all(controller_of(pod.metadata) is not None for pod in pods)
