# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""The controllers of the core group, which is older than the group `apps`, and pod templates."""

from muster.api.core.pod import PodTemplateSpec
from muster.api.markers import Int32
from muster.api.meta import ObjectMeta, Struct


class PodTemplate(Struct):
    """A template of pods, for the controllers that create them."""

    metadata: ObjectMeta = ObjectMeta()
    template: PodTemplateSpec = PodTemplateSpec()


class ReplicationControllerSpec(Struct):
    """The desired state of a ReplicationController."""

    replicas: Int32 | None = None
    min_ready_seconds: Int32 = 0
    selector: dict[str, str] = {}
    template: PodTemplateSpec | None = None


class ReplicationController(Struct):
    """A controller that keeps a number of identical pods running. ReplicaSets replace it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicationControllerSpec = ReplicationControllerSpec()
