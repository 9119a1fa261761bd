"""The rules of storage (k8s.io/kubernetes/pkg/apis/{core,storage}/validation)."""

from typing import Any

import msgspec

from muster.api.core import PersistentVolume, PersistentVolumeClaim
from muster.api.core.claims import PersistentVolumeClaimSpec
from muster.api.core.persistent import PersistentVolumeSpec
from muster.api.groups.storage import StorageClass, VolumeAttributesClass
from muster.api.status import FieldError
from muster.api.validation.fields import Errors, forbidden, invalid, required, unsupported, validate_immutable
from muster.api.validation.pods.volumes import ACCESS_MODES, validate_claim_spec
from muster.api.validation.resources import validate_amount
from muster.api.validation.standard import Standard
from muster.api.values.quantity import Quantity, QuantityError, parse

_RECLAIM = ("Delete", "Recycle", "Retain")
_BINDING = ("Immediate", "WaitForFirstConsumer")
_CLAIM_CHANGES = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)
# The fields of a PersistentVolumeSpec that are no source.
_NO_SOURCES = frozenset({
    "capacity", "access_modes", "claim_ref", "persistent_volume_reclaim_policy", "storage_class_name", "mount_options",
    "volume_mode", "node_affinity", "volume_attributes_class_name",
})  # fmt: skip
_SOURCES = tuple(name for name in PersistentVolumeSpec.__struct_fields__ if name not in _NO_SOURCES)
_WIRE_NAMES = dict(
    zip(PersistentVolumeSpec.__struct_fields__, PersistentVolumeSpec.__struct_encode_fields__, strict=True)
)


def _validate_claim(claim: PersistentVolumeClaim) -> Errors:
    yield from validate_claim_spec("spec", claim.spec)


def _validate_claim_change(new: PersistentVolumeClaim, old: PersistentVolumeClaim) -> Errors:
    """Check that a bound claim only grows or gets other volume attributes.

    An unbound claim at most gets its volume, and a storage class if it has none.
    """
    before, now = old.spec, new.spec
    if old.status.phase == "Bound":
        kept = msgspec.structs.replace(
            before, resources=now.resources, volume_attributes_class_name=now.volume_attributes_class_name
        )
    else:
        kept = msgspec.structs.replace(before, volume_name=before.volume_name or now.volume_name)
        if before.storage_class_name is None:  # a class may be set later
            kept = msgspec.structs.replace(kept, storage_class_name=now.storage_class_name)
    if kept != now:
        yield forbidden("spec", _CLAIM_CHANGES)
    elif _is_shrinking(now, before):
        yield forbidden("spec.resources.requests.storage", "field can not be less than status.capacity")


def _is_shrinking(now: PersistentVolumeClaimSpec, before: PersistentVolumeClaimSpec) -> bool:
    try:
        return parse(_get_storage_request(now)) < parse(_get_storage_request(before))
    except QuantityError:
        return False  # the rule of amounts reports the error


def _get_storage_request(spec: PersistentVolumeClaimSpec) -> Quantity:
    return spec.resources.requests.get("storage", 0)


def _validate_volume(volume: PersistentVolume) -> Errors:
    spec = volume.spec
    if not spec.access_modes:
        yield required("spec.accessModes")
    for mode in spec.access_modes:
        if mode not in ACCESS_MODES:
            yield unsupported("spec.accessModes", mode, ACCESS_MODES)
    if not spec.capacity:
        yield required("spec.capacity")
    elif "storage" not in spec.capacity or len(spec.capacity) > 1:
        yield unsupported("spec.capacity", spec.capacity, ("storage",))
    else:
        yield from validate_amount("spec.capacity[storage]", "storage", spec.capacity["storage"])
    if spec.persistent_volume_reclaim_policy not in _RECLAIM:
        yield unsupported("spec.persistentVolumeReclaimPolicy", spec.persistent_volume_reclaim_policy, _RECLAIM)
    given = [name for name in _SOURCES if getattr(spec, name) is not None]
    if not given:
        yield required("spec", "must specify a volume type")
    for name in given[1:]:
        yield forbidden(f"spec.{_WIRE_NAMES[name]}", "may not specify more than 1 volume type")


def _remove_zeroes(value: Any) -> Any:
    """Return a value without the members that mean the same as absent ones. Clients in Go omit these members."""
    if isinstance(value, dict):
        return {name: _remove_zeroes(member) for name, member in value.items() if member not in (False, 0, "", None)}
    return value


def _validate_volume_change(new: PersistentVolume, old: PersistentVolume) -> Errors:
    if any(_remove_zeroes(getattr(new.spec, name)) != _remove_zeroes(getattr(old.spec, name)) for name in _SOURCES):
        yield forbidden("spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation")
    yield from validate_immutable("spec.volumeMode", new.spec.volume_mode, old.spec.volume_mode)


def _validate_storage_class(storage_class: StorageClass) -> Errors:
    if not storage_class.provisioner:
        yield required("provisioner")
    if storage_class.reclaim_policy not in ("Delete", "Retain"):
        yield unsupported("reclaimPolicy", storage_class.reclaim_policy, ("Delete", "Retain"))
    if storage_class.volume_binding_mode not in _BINDING:
        yield unsupported("volumeBindingMode", storage_class.volume_binding_mode, _BINDING)


def _validate_storage_class_change(new: StorageClass, old: StorageClass) -> Errors:
    if new.parameters != old.parameters:
        yield forbidden("parameters", "updates to parameters are forbidden.")
    if new.provisioner != old.provisioner:
        yield forbidden("provisioner", "updates to provisioner are forbidden.")
    if new.reclaim_policy != old.reclaim_policy:
        yield forbidden("reclaimPolicy", "updates to reclaimPolicy are forbidden.")
    yield from validate_immutable("volumeBindingMode", new.volume_binding_mode, old.volume_binding_mode)


def _validate_attributes_class(attributes: VolumeAttributesClass) -> Errors:
    if not attributes.driver_name:
        yield required("driverName")


def _validate_attributes_class_change(new: VolumeAttributesClass, old: VolumeAttributesClass) -> list[FieldError]:
    if new.driver_name != old.driver_name:
        return [forbidden("driverName", "updates to driverName are forbidden.")]
    if new.parameters != old.parameters:
        return [invalid("parameters", new.parameters, "updates to parameters are forbidden.")]
    return []


PERSISTENT_VOLUME_CLAIM = Standard(_validate_claim, _validate_claim_change)
PERSISTENT_VOLUME = Standard(_validate_volume, _validate_volume_change, namespaced=False)
STORAGE_CLASS = Standard(_validate_storage_class, _validate_storage_class_change, namespaced=False)
VOLUME_ATTRIBUTES_CLASS = Standard(_validate_attributes_class, _validate_attributes_class_change, namespaced=False)
