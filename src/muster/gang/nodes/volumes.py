"""Decide to which nodes persistent volumes restrict a pod, and why a claim cannot be used.

Only bound claims are supported. A claim with delayed binding (WaitForFirstConsumer) is not bound here; its pod is
refused with a message.
"""

from typing import TypeVar

from muster.api.core import PersistentVolume, PersistentVolumeClaim
from muster.api.values.nodeaffinity import matches_any
from muster.gang.terms import Labels

CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
ZONE = "node(s) had no available volume zone"

_BOUND = "pv.kubernetes.io/bind-completed"
_ONE_POD = "ReadWriteOncePod"

# The separator of several zones in a volume's label.
_SEPARATOR = "__"
_NEW_NAMES = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
_TOPOLOGY = frozenset({*_NEW_NAMES, *_NEW_NAMES.values()})

T = TypeVar("T")


class Volumes:
    """The PersistentVolumeClaims and PersistentVolumes of a cluster."""

    def __init__(self) -> None:
        self._claims: dict[str, PersistentVolumeClaim] = {}
        self._volumes: dict[str, PersistentVolume] = {}

    def set_claim(self, key: str, claim: PersistentVolumeClaim | None) -> bool:
        """Add, update or remove (None) a claim by its `namespace/name`; return whether the change may affect a pod."""
        before = self._claims.get(key)
        _set(self._claims, key, claim)
        return _read_claim(before) != _read_claim(claim)

    def set_volume(self, name: str, volume: PersistentVolume | None) -> bool:
        """Add, update or remove (None) a volume; return whether the change may affect a pod."""
        before = self._volumes.get(name)
        _set(self._volumes, name, volume)
        return _read_volume(before) != _read_volume(volume)

    def is_for_one_pod(self, key: str) -> bool:
        """Return whether only a single pod of the cluster can use a claim."""
        claim = self._claims.get(key)
        return claim is not None and _ONE_POD in claim.spec.access_modes

    def explain_missing(self, key: str) -> str:
        """Return why no node can run a pod with this claim, such as a missing volume; "" if some node may."""
        name, claim = key.partition("/")[2], self._claims.get(key)
        if claim is None:
            return f'persistentvolumeclaim "{name}" not found'
        if claim.metadata.deletion_timestamp is not None:
            return f'persistentvolumeclaim "{name}" is being deleted'
        if claim.status.phase == "Lost":
            volume = claim.spec.volume_name
            return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
        if not claim.spec.volume_name or _BOUND not in claim.metadata.annotations:
            return f'persistentvolumeclaim "{name}" is not bound, and this scheduler binds none to a first consumer'
        return ""

    def obstacle(self, key: str, labels: Labels) -> str | None:
        """Return the reason why a node with these labels cannot run a pod with this claim; None if it can."""
        volume = self._volumes.get(self._claims[key].spec.volume_name)
        if volume is None:
            return NO_VOLUME
        affinity = volume.spec.node_affinity
        required = affinity.required if affinity is not None else None
        if required is not None and not matches_any(required.node_selector_terms, "", labels):
            return CONFLICT
        return None if _is_in_zone(volume, labels) else ZONE


def _read_claim(claim: PersistentVolumeClaim | None) -> object:
    """Return the parts of a claim that decisions depend on."""
    if claim is None:
        return None
    meta, spec = claim.metadata, claim.spec
    return (
        meta.deletion_timestamp is None,
        _BOUND in meta.annotations,
        claim.status.phase == "Lost",
        spec.volume_name,
        spec.access_modes,
    )


def _read_volume(volume: PersistentVolume | None) -> object:
    """Return the parts of a volume that decisions depend on."""
    if volume is None:
        return None
    zones = {key: value for key, value in volume.metadata.labels.items() if key in _TOPOLOGY}
    return zones, volume.spec.node_affinity


def _is_in_zone(volume: PersistentVolume, labels: Labels) -> bool:
    """Return whether a node is in one of a volume's zones.

    Nodes without zone labels accept all volumes. Source: VolumeZone of kube-scheduler.
    """
    if not _TOPOLOGY & labels.keys():
        return True
    for key, value in volume.metadata.labels.items():
        if key in _TOPOLOGY:
            zone = labels.get(key, labels.get(_NEW_NAMES.get(key, key)))
            if zone not in value.split(_SEPARATOR):
                return False
    return True


def _set(table: dict[str, T], key: str, value: T | None) -> None:
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value
