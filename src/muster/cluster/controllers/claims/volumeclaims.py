"""Bind persistent volume claims on a machine without storage drivers: each claim gets a directory of the machine.

A claim is bound as soon as it is created. The directory of a deleted claim is removed after the last pod that uses it
has finished. Pure functions decide from the objects; the controller writes. Sizes are recorded and not enforced.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from muster.api.core import (
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
)
from muster.api.groups.storage import STORAGE_CLASS
from muster.api.kinds import Kind
from muster.api.meta import Object
from muster.api.ours.embedded import SERVER_MACHINE
from muster.api.pods import is_finished
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.events.recorder import Recorder
from muster.runtime.objects import make_reference
from muster.runtime.refusals import ignoring

# Upstream's annotations: the provisioner of a volume, and whether a claim's binding is complete.
PROVISIONER = "muster.dev/directory"
_PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
_BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
_BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"

_BY_CLAIM = "claim"
_RETRY_SECONDS = 10.0
_FILESYSTEM = "Filesystem"

log = logging.getLogger(__name__)

Remove = Callable[[Path], Awaitable[str]]
"""Removes a directory with all that is in it; returns what stays and why, "" if nothing does."""


def find_obstacle(claim: PersistentVolumeClaim, *, class_is_foreign: bool) -> str | None:
    """Return why a claim gets no directory: a sentence, or "" if another controller binds it. None: it gets one.

    class_is_foreign: whether the claim's storage class belongs to another provisioner.
    """
    spec = claim.spec
    if spec.volume_name not in ("", volume_name(claim)) or class_is_foreign or spec.storage_class_name == "":
        return ""
    if spec.volume_mode not in (None, _FILESYSTEM):
        return f"volumeMode {spec.volume_mode}: a directory is no block device"
    if spec.data_source is not None or spec.data_source_ref is not None:
        return "dataSource: a directory begins empty"
    if spec.selector is not None:
        return "selector: directories have no labels to select by"
    return None


def volume_name(claim: PersistentVolumeClaim) -> str:
    """Return the name of the volume that is created for a claim, as upstream's provisioners name it."""
    return f"pvc-{claim.metadata.uid}"


def volume_for(claim: PersistentVolumeClaim, root: Path) -> dict[str, Any]:
    """Return the volume to create for a claim: a directory below the root, accessible to all nodes of this machine."""
    meta, spec = claim.metadata, claim.spec
    name = volume_name(claim)
    claimed_by = {
        "apiVersion": "v1",
        "kind": PERSISTENT_VOLUME_CLAIM.kind,
        "namespace": meta.namespace,
        "name": meta.name,
        "uid": meta.uid,
    }
    here = [{"matchExpressions": [{"key": SERVER_MACHINE, "operator": "Exists"}]}]
    return {
        "metadata": {"name": name, "annotations": {_PROVISIONED_BY: PROVISIONER}},
        "spec": {
            "capacity": {"storage": spec.resources.requests.get("storage", "0")},
            "accessModes": list(spec.access_modes),
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": spec.storage_class_name or "",
            "claimRef": claimed_by,
            "hostPath": {"path": str(root / name), "type": "DirectoryOrCreate"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": here}},
        },
    }


def is_ours(volume: PersistentVolume) -> bool:
    """Return whether this controller created the volume."""
    return volume.metadata.annotations.get(_PROVISIONED_BY) == PROVISIONER


def is_at(volume: PersistentVolume, path: Path) -> bool:
    """Return whether the volume's data are in this directory.

    They are not if a backup was restored to another directory.
    """
    return volume.spec.host_path is not None and volume.spec.host_path.path == str(path)


class ClaimBinder(Reconciler):
    """The controller that binds PersistentVolumeClaims to directories of this machine.

    It removes the directory and the volume of a deleted claim. A `Manager` runs it; its keys are claims.

    root: the directory that contains the directories of the volumes.
    """

    name = "claim-binder"

    def __init__(self, manager: Manager, recorder: Recorder, root: Path, remove: Remove) -> None:
        super().__init__(manager)
        self._recorder = recorder
        self._root = root
        self._remove = remove
        self._claims = manager.informer(PERSISTENT_VOLUME_CLAIM)
        self._volumes = manager.informer(PERSISTENT_VOLUME, indexes={_BY_CLAIM: _list_claim_keys})
        self._pods = manager.informer(POD, indexes={_BY_CLAIM: _list_claims_in_use})
        self._classes: Any = manager.informer(STORAGE_CLASS)
        self._controller.watch(self._claims)
        self._controller.watch(self._volumes, _list_claim_keys)
        # A pod that finishes may be the last that uses a directory.
        self._controller.watch(self._pods, _list_claims_in_use, when=_has_just_ended)

    async def _reconcile(self, key: str) -> Result:
        claim = self._claims.get(key)
        uid = claim.metadata.uid if claim is not None else ""
        waits = False
        for volume in self._volumes.by(_BY_CLAIM, key):
            if is_ours(volume) and (volume.spec.claim_ref is None or volume.spec.claim_ref.uid != uid):
                waits |= not await self._release_volume(key, volume)
        if claim is not None and claim.metadata.deletion_timestamp is None:
            await self._bind_claim(claim)
        return _RETRY_SECONDS if waits else None

    async def _release_volume(self, key: str, volume: PersistentVolume) -> bool:
        """Remove the directory and then the volume of a deleted claim, unless a pod still uses it.

        Return False to retry later.
        """
        if any(not is_finished(pod) for pod in self._pods.by(_BY_CLAIM, key)):
            return True  # the end of the last pod calls this again
        if trouble := await self._remove(self._root / volume.metadata.name):
            log.warning("the directory of %s could not be removed: %s", volume.metadata.name, trouble)
            return False
        with ignoring("NotFound", "Conflict"):
            await self._client.delete_object(PERSISTENT_VOLUME, volume)
        return True

    async def _bind_claim(self, claim: PersistentVolumeClaim) -> None:
        volume = self._volumes.get(volume_name(claim))
        if volume is None:
            why = find_obstacle(claim, class_is_foreign=self._is_class_foreign(claim))
            if why is None:
                await self._create_volume(claim)
            elif why:
                self._recorder.event(
                    make_reference(PERSISTENT_VOLUME_CLAIM, claim), "Warning", "ProvisioningFailed", why
                )
            return
        if not is_ours(volume):
            return
        if not is_at(volume, self._root / volume.metadata.name):
            with ignoring("NotFound", "Conflict"):
                await self._client.delete_object(PERSISTENT_VOLUME, volume)  # it is created again, for this home
            return
        with ignoring("NotFound", "Conflict"):
            await self._mark_bound(claim, volume)

    async def _create_volume(self, claim: PersistentVolumeClaim) -> None:
        kind: Kind[Any] = PERSISTENT_VOLUME.seen_as(dict)
        with ignoring("AlreadyExists"):
            await self._client.create(kind, volume_for(claim, self._root))
            message = f"Successfully provisioned volume {volume_name(claim)}"
            self._recorder.event(
                make_reference(PERSISTENT_VOLUME_CLAIM, claim), "Normal", "ProvisioningSucceeded", message
            )

    async def _mark_bound(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> None:
        """Mark the claim and the volume as bound to each other, if they are not marked yet."""
        if volume.status.phase != "Bound":
            await self._client.patch_object(
                PERSISTENT_VOLUME, volume, {"status": {"phase": "Bound"}}, lock=False, subresource="status"
            )
        if claim.spec.volume_name != volume.metadata.name or _BIND_COMPLETED not in claim.metadata.annotations:
            annotations = {_BIND_COMPLETED: "yes", _BOUND_BY_CONTROLLER: "yes"}
            patch = {"metadata": {"annotations": annotations}, "spec": {"volumeName": volume.metadata.name}}
            await self._client.patch_object(PERSISTENT_VOLUME_CLAIM, claim, patch, lock=False)
        if claim.status.phase != "Bound":
            spec = volume.spec
            status = {"phase": "Bound", "accessModes": spec.access_modes, "capacity": spec.capacity}
            await self._client.patch_object(
                PERSISTENT_VOLUME_CLAIM, claim, {"status": status}, lock=False, subresource="status"
            )

    def _is_class_foreign(self, claim: PersistentVolumeClaim) -> bool:
        """Return whether the claim has an existing StorageClass, whose provisioner is then responsible for it."""
        name = claim.spec.storage_class_name
        if name:
            return self._classes.get(name) is not None
        classes: list[Object] = self._classes.all()
        return any(one.metadata.annotations.get(_DEFAULT_CLASS) == "true" for one in classes)


def _list_claim_keys(volume: PersistentVolume) -> Iterator[str]:
    claim = volume.spec.claim_ref
    if claim is not None:
        yield f"{claim.namespace}/{claim.name}"


def _list_claims_in_use(pod: Pod) -> Iterator[str]:
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield f"{pod.metadata.namespace}/{volume.persistent_volume_claim.claim_name}"


def _has_just_ended(old: Pod | None, new: Pod | None) -> bool:
    return new is None or (is_finished(new) and (old is None or not is_finished(old)))
