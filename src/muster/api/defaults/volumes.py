"""The defaults of a pod's volumes."""

from typing import Any

from muster.api.defaults.resources import default_quantity, default_requirements

Json = dict[str, Any]

_MODE = 0o644
_WITH_MODE = ("secret", "configMap", "downwardAPI", "projected")
_ONE_HOUR = 3600
# The defaults of the sources, both of pods' volumes and of PersistentVolumes.
_SOURCES: dict[str, Json] = {
    "hostPath": {"type": ""},
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "azureDisk": {"cachingMode": "ReadWrite", "kind": "Shared", "fsType": "ext4", "readOnly": False},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}


def default_volume(volume: Json) -> None:
    """Set the defaults of one volume of a pod. A volume without a source becomes an emptyDir."""
    if not volume.keys() - {"name"}:
        volume["emptyDir"] = {}
    for source in _WITH_MODE:
        if source in volume:
            volume[source].setdefault("defaultMode", _MODE)
    if "emptyDir" in volume:
        default_quantity(volume["emptyDir"], "sizeLimit")
    default_volume_source(volume)
    for file in volume.get("downwardAPI", {}).get("items", ()):
        _default_file(file)
    for source in volume.get("projected", {}).get("sources", ()):
        for file in source.get("downwardAPI", {}).get("items", ()):
            _default_file(file)
        if "serviceAccountToken" in source:
            source["serviceAccountToken"].setdefault("expirationSeconds", _ONE_HOUR)
    claim = volume.get("ephemeral", {}).get("volumeClaimTemplate", {}).get("spec")
    if claim is not None:
        claim.setdefault("volumeMode", "Filesystem")
        default_requirements(claim.setdefault("resources", {}))


def default_volume_source(volume: Json) -> None:
    """Set the defaults of the source of a pod's volume, or of a PersistentVolume."""
    for source, values in _SOURCES.items():
        if source in volume:
            for name, value in values.items():
                volume[source].setdefault(name, value)


def default_field_ref(parent: Json) -> None:
    """Set the default `apiVersion: v1` of a `fieldRef`, if the parent has one."""
    reference = parent.get("fieldRef")
    if reference is not None and not reference.get("apiVersion"):
        reference["apiVersion"] = "v1"


def default_resource_field_ref(parent: Json) -> None:
    """Set the default divisor of a `resourceFieldRef`, if the parent has one: "0", which means 1."""
    reference = parent.get("resourceFieldRef")
    if reference is not None:
        reference.setdefault("divisor", "0")
        default_quantity(reference, "divisor")


def _default_file(file: Json) -> None:
    default_field_ref(file)
    default_resource_field_ref(file)
