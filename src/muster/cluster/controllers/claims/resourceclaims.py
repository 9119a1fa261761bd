"""Create ResourceClaims from templates for pods, and release claims that no pod uses any more.

This is what kube-controller-manager's controller of resource claims does. `ClaimMaker` creates the claims of a pod and
writes their names into the pod's status. `ClaimReleaser` removes finished pods from a claim, deallocates the claim's
devices when no pod is left, and deletes a claim that was created for a finished pod. Pure functions decide; the
controllers write.

The pod determines the name of its claim. So a claim that the informer has not seen yet is not created twice.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from msgspec import Struct

from muster.api.core import POD, Pod
from muster.api.groups.resource import (
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimTemplate,
)
from muster.api.meta import ObjectMeta
from muster.api.pods import is_deleting, is_finished
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.events.recorder import Recorder
from muster.runtime.objects import ignores_status, make_reference
from muster.runtime.refusals import ignoring
from muster.runtime.transport import STRATEGIC_MERGE_PATCH

# Names of Kubernetes: the annotation with the pod's entry for the claim, and the finalizer of a claim with devices.
ENTRY_ANNOTATION: Final = "resource.kubernetes.io/pod-claim-name"
PROTECTION: Final = "resource.kubernetes.io/delete-protection"

_BY_TEMPLATE: Final = "resourceclaimtemplate"
_BASE_LENGTH: Final = 57  # a hyphen and five characters follow, and a name has at most 63


def claim_name(pod: Pod, entry: str) -> str:
    """Return the name of the claim that is created for an entry of a pod's `resourceClaims`."""
    base = f"{pod.metadata.name}-{entry}"
    if (length := len(base)) > _BASE_LENGTH:
        parts = (pod.metadata.name, entry)
        base = "-".join(part[: len(part) * (_BASE_LENGTH - 1) // length].rstrip("-.") for part in parts)
    digest = hashlib.sha256(f"{pod.metadata.uid}/{entry}".encode()).hexdigest()
    return f"{base}-{digest[:5]}"


def claim_for(pod: Pod, entry: str, template: ResourceClaimTemplate) -> ResourceClaim:
    """Return the claim to create from a template, for an entry of a pod's `resourceClaims`."""
    template_meta, meta = template.spec.metadata, pod.metadata
    owner = POD.refer_to_controller(meta)
    metadata = ObjectMeta(
        name=claim_name(pod, entry),
        namespace=meta.namespace,
        labels=template_meta.labels,
        annotations=template_meta.annotations | {ENTRY_ANNOTATION: entry},
        owner_references=(owner,),
    )
    return ResourceClaim(metadata=metadata, spec=template.spec.spec)


class Release(Struct, frozen=True):
    """The change of a claim some of whose pods have finished.

    reserved_for: the pods for which the claim stays reserved.
    deallocate: whether its devices are freed.
    delete: whether to delete the claim, because the pod that it was created for has finished.
    """

    reserved_for: tuple[ResourceClaimConsumerReference, ...] = ()
    deallocate: bool = False
    delete: bool = False


def release_of(claim: ResourceClaim, find: Callable[[str], Pod | None]) -> Release:
    """Return how to change a ResourceClaim, given which of its pods have finished.

    find: returns a pod by `namespace/name`; None if there is no such pod.
    """

    def runs(name: str, uid: str) -> bool:
        pod = find(f"{claim.metadata.namespace}/{name}")
        return pod is not None and pod.metadata.uid == uid and not _is_done(pod)

    others = [one for one in claim.status.reserved_for if one.api_group or one.resource != "pods"]
    pods = [one for one in claim.status.reserved_for if one not in others and runs(one.name, one.uid)]
    left = (*others, *pods)
    owners = [one for one in claim.metadata.owner_references if one.kind == POD.kind and one.controller]
    ended = bool(owners) and not any(runs(one.name, one.uid) for one in owners)
    was_used = len(left) < len(claim.status.reserved_for)
    unused = not left and (was_used or ended or claim.metadata.deletion_timestamp is not None)
    return Release(left, deallocate=unused and PROTECTION in claim.metadata.finalizers, delete=ended and not left)


def _is_done(pod: Pod) -> bool:
    """Return whether a pod uses no claim now and will not use one later."""
    return is_finished(pod) or (is_deleting(pod) and not pod.spec.node_name)


class ClaimMaker(Reconciler):
    """The controller that creates the ResourceClaims of pods from their templates.

    A `Manager` runs it; its keys are pods.
    """

    name = "resource-claim-maker"

    def __init__(self, manager: Manager, recorder: Recorder) -> None:
        super().__init__(manager)
        self._recorder = recorder
        self._pods = manager.informer(POD, indexes={_BY_TEMPLATE: _list_template_keys})
        self._claims = manager.informer(RESOURCE_CLAIM)
        self._templates = manager.informer(RESOURCE_CLAIM_TEMPLATE)
        self._controller.watch(self._pods, when=lambda _, new: new is not None and bool(new.spec.resource_claims))
        self._controller.watch(self._templates, self._find_waiting_pods, when=lambda old, _: old is None)
        self._controller.watch(self._claims, _list_owner_keys, when=lambda _, new: new is None)

    async def _reconcile(self, key: str) -> Result:
        pod = self._pods.get(key)
        if pod is None or is_deleting(pod) or is_finished(pod):
            return None
        names = {}
        for entry in pod.spec.resource_claims:
            template = entry.resource_claim_template_name
            if template is not None and await self._ensure_claim(pod, entry.name, template):
                names[entry.name] = claim_name(pod, entry.name)
        known = {one.name: one.resource_claim_name for one in pod.status.resource_claim_statuses}
        if not names.items() <= known.items():
            statuses = [{"name": entry, "resourceClaimName": name} for entry, name in names.items()]
            patch = {"status": {"resourceClaimStatuses": statuses}}
            with ignoring("NotFound", "Conflict"):
                await self._client.patch_object(
                    POD, pod, patch, lock=False, type=STRATEGIC_MERGE_PATCH, subresource="status"
                )
        return None

    async def _ensure_claim(self, pod: Pod, entry: str, name: str) -> bool:
        """Create a claim unless it exists; return False if the template does not exist yet."""
        namespace, template = pod.metadata.namespace, self._templates.get(f"{pod.metadata.namespace}/{name}")
        if self._claims.get(f"{namespace}/{claim_name(pod, entry)}") is not None:
            return True
        if template is None:
            missing = f'{RESOURCE_CLAIM_TEMPLATE.kind.lower()}.resource.k8s.io "{name}" not found'
            message = f'PodResourceClaim {entry}: resource claim template "{name}": {missing}'
            self._recorder.event(make_reference(POD, pod), "Warning", "FailedResourceClaimCreation", message)
            return False
        with ignoring("AlreadyExists"):
            await self._client.create(RESOURCE_CLAIM, claim_for(pod, entry, template))
        return True

    def _find_waiting_pods(self, template: ResourceClaimTemplate) -> Iterator[str]:
        key = f"{template.metadata.namespace}/{template.metadata.name}"
        yield from (f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in self._pods.by(_BY_TEMPLATE, key))


class ClaimReleaser(Reconciler):
    """The controller that frees the ResourceClaims of finished pods.

    It removes the reservations of finished pods, deallocates unused claims, and deletes claims that were created for
    one pod. A `Manager` runs it; its keys are claims.
    """

    name = "resource-claim-releaser"

    def __init__(self, manager: Manager) -> None:
        super().__init__(manager)
        self._pods = manager.informer(POD)
        self._claims = manager.informer(RESOURCE_CLAIM)
        self._controller.watch(self._claims, when=lambda _, new: new is not None)
        self._controller.watch(self._pods, _claim_keys, when=_has_just_ended)

    async def _reconcile(self, key: str) -> Result:
        claim = self._claims.get(key)
        if claim is None:
            return None
        release = release_of(claim, self._pods.get)
        with ignoring("NotFound", "Conflict"):  # the claim changed, which calls this again
            await self._write(claim, release)
        return None

    async def _write(self, claim: ResourceClaim, release: Release) -> None:
        status: dict[str, Any] = {}
        if release.reserved_for != claim.status.reserved_for:
            status["reservedFor"] = list(release.reserved_for) or None
        if release.deallocate and claim.status.allocation is not None:
            status["allocation"] = None
        if status:
            claim = await self._client.patch_object(RESOURCE_CLAIM, claim, {"status": status}, subresource="status")
        if release.deallocate:
            remaining = [one for one in claim.metadata.finalizers if one != PROTECTION]
            patch = {"metadata": {"finalizers": remaining or None}}
            claim = await self._client.patch_object(RESOURCE_CLAIM, claim, patch)
        if release.delete and claim.metadata.deletion_timestamp is None:
            await self._client.delete_object(RESOURCE_CLAIM, claim)


@ignores_status
def _list_template_keys(pod: Pod) -> Iterable[str]:
    names = (one.resource_claim_template_name for one in pod.spec.resource_claims)
    return {f"{pod.metadata.namespace}/{name}" for name in names if name is not None}


def _list_owner_keys(claim: ResourceClaim) -> Iterator[str]:
    for one in claim.metadata.owner_references:
        if one.kind == POD.kind and one.controller:
            yield f"{claim.metadata.namespace}/{one.name}"


def _claim_keys(pod: Pod) -> Iterator[str]:
    existing = (one.resource_claim_name for one in pod.spec.resource_claims)
    from_templates = (one.resource_claim_name for one in pod.status.resource_claim_statuses)
    yield from (f"{pod.metadata.namespace}/{name}" for name in {*existing, *from_templates} if name)


def _has_just_ended(old: Pod | None, new: Pod | None) -> bool:
    """Return whether a change means that a pod with claims has finished or was deleted."""
    pod = new if new is not None else old
    if pod is None or not pod.spec.resource_claims:
        return False
    return new is None or (_is_done(new) and (old is None or not _is_done(old)))
