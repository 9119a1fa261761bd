# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""Claims on storage that outlives pods."""

from muster.api.core.references import TypedLocalObjectReference, TypedObjectReference
from muster.api.meta import LabelSelector, ObjectMeta, Struct
from muster.api.values.quantity import ResourceList


class VolumeResourceRequirements(Struct):
    """The amount of storage that a claim needs."""

    limits: ResourceList = {}
    requests: ResourceList = {}


class PersistentVolumeClaimSpec(Struct):
    """The storage that a claim requests."""

    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: VolumeResourceRequirements = VolumeResourceRequirements()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    data_source: TypedLocalObjectReference | None = None
    data_source_ref: TypedObjectReference | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimStatus(Struct):
    """The observed state of a claim."""

    phase: str = ""
    access_modes: tuple[str, ...] = ()
    capacity: ResourceList = {}


class PersistentVolumeClaim(Struct):
    """A claim on storage that outlives pods."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()
