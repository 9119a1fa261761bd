"""The defaults of storage (k8s.io/kubernetes/pkg/apis/{core,storage}/v1/defaults.go)."""

from typing import Any

from muster.api.defaults.resources import default_quantity, default_requirements, default_resource_list, fill
from muster.api.defaults.volumes import default_volume_source

Json = dict[str, Any]


def default_claim(claim: Json) -> None:
    """Set the defaults of a PersistentVolumeClaim, whose phase is Pending at first."""
    fill(claim.setdefault("status", {}), "phase", "Pending")
    spec = claim.setdefault("spec", {})
    spec.setdefault("volumeMode", "Filesystem")
    default_requirements(spec.setdefault("resources", {}))
    source = spec.get("dataSource")
    if source and "dataSourceRef" not in spec:
        spec["dataSourceRef"] = dict(source)
    default_resource_list(claim["status"].get("capacity"))


def default_persistent_volume(volume: Json) -> None:
    """Set the defaults of a PersistentVolume."""
    fill(volume.setdefault("status", {}), "phase", "Pending")
    spec = volume.setdefault("spec", {})
    fill(spec, "persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")
    default_volume_source(spec)
    default_resource_list(spec.get("capacity"))


def default_storage_class(storage_class: Json) -> None:
    """Set the defaults of a StorageClass."""
    storage_class.setdefault("reclaimPolicy", "Delete")
    storage_class.setdefault("volumeBindingMode", "Immediate")


def default_csi_driver(driver: Json) -> None:
    """Set the defaults of a CSIDriver."""
    spec = driver.setdefault("spec", {})
    spec.setdefault("attachRequired", True)
    for field in ("podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"):
        spec.setdefault(field, False)
    spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")
    if not spec.get("volumeLifecycleModes"):
        spec["volumeLifecycleModes"] = ["Persistent"]


def default_storage_capacity(capacity: Json) -> None:
    """Set the defaults of a CSIStorageCapacity."""
    default_quantity(capacity, "capacity")
    default_quantity(capacity, "maximumVolumeSize")
