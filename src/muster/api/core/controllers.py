# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""Controllers of the core group, from before there was `apps`, and templates on their own."""

from typing import Annotated

from muster.api.core.pod import PodTemplateSpec
from muster.api.markers import ATOMIC_MAP, Default, Int32, Required, merged_by
from muster.api.meta import ObjectMeta, PlainCondition, Struct


class PodTemplate(Struct):
    """Describes pods, for the controllers that make them.

    metadata: what every object carries.
    template: what the pods are like.
    """

    metadata: ObjectMeta = ObjectMeta()
    template: PodTemplateSpec = PodTemplateSpec()


class ReplicationControllerSpec(Struct):
    """Which pods a ReplicationController keeps running.

    replicas: how many; 1 if absent.
    min_ready_seconds: how long a new pod must be ready to count as available.
    selector: labels of the pods that belong to it; the template's if empty.
    template: what the pods are like.
    """

    replicas: Annotated[Int32, Default(1)] | None = None
    min_ready_seconds: Annotated[Int32, Default(0)] = 0
    selector: Annotated[dict[str, str], ATOMIC_MAP] = {}
    template: PodTemplateSpec | None = None


class ReplicationControllerCondition(PlainCondition):
    """One observed aspect of a ReplicationController.

    type: ReplicaFailure.
    """


class ReplicationControllerStatus(Struct):
    """What was observed of a ReplicationController.

    replicas: pods that are not ending.
    fully_labeled_replicas: those with all labels of the template.
    ready_replicas: those that are ready.
    available_replicas: those that have been ready for long enough.
    observed_generation: the generation that the status is about.
    conditions: observed aspects.
    """

    replicas: Required[Int32] = 0
    fully_labeled_replicas: Int32 = 0
    ready_replicas: Int32 = 0
    available_replicas: Int32 = 0
    observed_generation: int = 0
    conditions: Annotated[tuple[ReplicationControllerCondition, ...], merged_by("type")] = ()


class ReplicationController(Struct):
    """Keeps a number of like pods running; ReplicaSets do it better.

    metadata: what every object carries.
    spec: which pods it keeps running.
    status: what was observed.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicationControllerSpec = ReplicationControllerSpec()
    status: ReplicationControllerStatus = ReplicationControllerStatus()
