"""Allocate the ResourceClaims of a pod before the pod is bound, and deallocate the claims of pods that are not bound.

The event of an allocated claim arrives later. Until then the roster reserves the devices that were picked for it.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from muster.api.core import POD, Pod
from muster.api.groups.resource import RESOURCE_CLAIM, ResourceClaim, ResourceClaimConsumerReference
from muster.api.status import not_found
from muster.controllers.scheduler.roster import Roster
from muster.gang.nodes.allocation import allocation_of
from muster.runtime.client import Client
from muster.runtime.clock import Clock
from muster.runtime.refusals import ignoring

# Kubernetes' finalizer. Its claim controller removes it, with the allocation, when no pod uses the claim.
PROTECTION: Final = "resource.kubernetes.io/delete-protection"


class DeviceClaims:
    """The writer of ResourceClaims, which allocates and deallocates devices."""

    def __init__(self, client: Client, clock: Clock, roster: Roster) -> None:
        self._client = client
        self._clock = clock
        self._roster = roster

    async def allocate(self, pod: Pod, node: str) -> None:
        """Write the picked devices to the claims of a pod. Raises `ApiError`, also if a claim is deleted."""
        devices = self._roster.devices
        for key, picks in devices.get_picks(pod.metadata.uid).items():
            claim = devices.claim(key)
            if claim is None:
                raise not_found(RESOURCE_CLAIM.resource, key.partition("/")[2])
            allocation = allocation_of(claim, picks, node, devices.device_class, self._clock.now())
            user = ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)
            status = {"allocation": msgspec.to_builtins(allocation), "reservedFor": [msgspec.to_builtins(user)]}
            claim = await self._add_finalizer(claim)
            await self._client.patch_object(RESOURCE_CLAIM, claim, {"status": status}, subresource="status")

    async def give_back(self, pods: Mapping[str, Pod]) -> None:
        """Deallocate the claims of pods that were finally not bound.

        The pods are read from the server first, because a binding of an earlier scheduler may have arrived since they
        were observed.

        pods: the pods by UID.
        """
        status = {"allocation": None, "reservedFor": None}
        # A pod that was observed as bound in the meantime is no longer in `pods`.
        holding = [(pods[uid], claims) for uid, claims in self._roster.devices.list_allocated(pods).items()]
        for pod, claims in holding:
            if await self._has_node(pod):
                continue
            for claim in claims:
                with ignoring("NotFound", "Conflict"):  # the event of that change will show the claim
                    await self._client.patch_object(RESOURCE_CLAIM, claim, {"status": status}, subresource="status")

    async def _has_node(self, pod: Pod) -> bool:
        there = await self._client.find(POD, pod.metadata.name, pod.metadata.namespace)
        return there is not None and there.metadata.uid == pod.metadata.uid and bool(there.spec.node_name)

    async def _add_finalizer(self, claim: ResourceClaim) -> ResourceClaim:
        if PROTECTION in claim.metadata.finalizers:
            return claim
        patch = {"metadata": {"finalizers": [*claim.metadata.finalizers, PROTECTION]}}
        return await self._client.patch_object(RESOURCE_CLAIM, claim, patch)
