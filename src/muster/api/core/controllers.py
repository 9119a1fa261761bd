# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""Controllers of the core group, from before there was `apps`, and templates on their own."""

from muster.api.core.pod import PodTemplateSpec
from muster.api.markers import Int32
from muster.api.meta import ObjectMeta, Struct


class PodTemplate(Struct):
    """Describes pods, for the controllers that make them."""

    metadata: ObjectMeta = ObjectMeta()
    template: PodTemplateSpec = PodTemplateSpec()


class ReplicationControllerSpec(Struct):
    """Which pods a ReplicationController keeps running."""

    replicas: Int32 | None = None
    min_ready_seconds: Int32 = 0
    selector: dict[str, str] = {}
    template: PodTemplateSpec | None = None


class ReplicationController(Struct):
    """Keeps a number of like pods running; ReplicaSets do it better."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicationControllerSpec = ReplicationControllerSpec()
