# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""`storage.k8s.io/v1`: classes of storage, with the fields that rules read."""

from muster.api.kinds import Kind
from muster.api.meta import ObjectMeta, Struct


class StorageClass(Struct):
    """A class of storage that claims can request."""

    metadata: ObjectMeta = ObjectMeta()
    provisioner: str = ""
    parameters: dict[str, str] = {}
    reclaim_policy: str | None = None
    volume_binding_mode: str | None = None


class VolumeAttributesClass(Struct):
    """A class of changeable attributes of volumes, which claims can request."""

    metadata: ObjectMeta = ObjectMeta()
    driver_name: str = ""
    parameters: dict[str, str] = {}


_GROUP = "storage.k8s.io"
STORAGE_CLASS = Kind(_GROUP, "v1", "StorageClass", "storageclasses", StorageClass, namespaced=False)
VOLUME_ATTRIBUTES_CLASS = Kind(
    _GROUP, "v1", "VolumeAttributesClass", "volumeattributesclasses", VolumeAttributesClass, namespaced=False
)
