# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""Claims on storage that outlives pods."""

from datetime import datetime
from typing import Annotated

from muster.api.core.references import TypedLocalObjectReference, TypedObjectReference
from muster.api.markers import GRANULAR_MAP, Required, Strings, merged_by, one_of
from muster.api.meta import LabelSelector, ObjectMeta, Struct
from muster.api.values.quantity import ResourceList


class VolumeResourceRequirements(Struct):
    """How much storage a claim needs.

    limits: the most it may get.
    requests: the least it must get.
    """

    limits: ResourceList = {}
    requests: ResourceList = {}


class PersistentVolumeClaimSpec(Struct):
    """What storage is claimed.

    access_modes: ReadWriteOnce, ReadOnlyMany, ReadWriteMany or ReadWriteOncePod.
    selector: which volumes come into question.
    resources: how much.
    volume_name: the volume that is bound.
    storage_class_name: the class of storage.
    volume_mode: Filesystem or Block.
    data_source: what the volume begins with.
    data_source_ref: what the volume begins with, of any kind.
    volume_attributes_class_name: the class of changeable attributes.
    """

    access_modes: Strings = ()
    selector: LabelSelector | None = None
    resources: VolumeResourceRequirements = VolumeResourceRequirements()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    data_source: TypedLocalObjectReference | None = None
    data_source_ref: TypedObjectReference | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimCondition(Struct):
    """One observed aspect of a claim.

    type: Resizing, FileSystemResizePending, ModifyVolumeError, ...
    status: True, False or Unknown.
    last_probe_time: when it was last looked at.
    last_transition_time: when the status last changed.
    reason: one word for the status.
    message: a sentence for people.
    """

    type: Required[str] = ""
    status: Required[str] = ""
    last_probe_time: datetime | None = None
    last_transition_time: datetime | None = None
    reason: str = ""
    message: str = ""


class ModifyVolumeStatus(Struct):
    """How far a change of a volume's attributes is.

    target_volume_attributes_class_name: the class that is being applied.
    status: Pending, InProgress or Infeasible.
    """

    target_volume_attributes_class_name: str = ""
    status: Required[str] = ""


class PersistentVolumeClaimStatus(Struct):
    """What was observed of a claim.

    phase: Pending, Bound or Lost.
    access_modes: what the volume allows.
    capacity: what the volume has.
    conditions: observed aspects.
    allocated_resources: what is being made room for.
    allocated_resource_statuses: how far that is, by resource.
    current_volume_attributes_class_name: the class in effect.
    modify_volume_status: how far a change of attributes is.
    """

    phase: Annotated[str, one_of("Bound", "Lost", "Pending")] = ""
    access_modes: Strings = ()
    capacity: ResourceList = {}
    conditions: Annotated[tuple[PersistentVolumeClaimCondition, ...], merged_by("type")] = ()
    allocated_resources: ResourceList = {}
    allocated_resource_statuses: Annotated[dict[str, str], GRANULAR_MAP] = {}
    current_volume_attributes_class_name: str | None = None
    modify_volume_status: ModifyVolumeStatus | None = None


class PersistentVolumeClaim(Struct):
    """A claim on storage that outlives pods.

    metadata: what every object carries.
    spec: what storage is claimed.
    status: what was observed.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()
