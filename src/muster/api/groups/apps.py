"""`apps/v1`: controllers of pods that never end, with the fields that rules read. Muster runs no such controller."""

from typing import Any

from muster.api.core.claims import PersistentVolumeClaim
from muster.api.core.pod import PodTemplateSpec
from muster.api.kinds import Kind
from muster.api.meta import LabelSelector, ObjectMeta, Struct


class DeploymentStrategy(Struct):
    """The strategy by which a Deployment replaces its pods."""

    type: str = ""
    rolling_update: dict[str, Any] | None = None


class DeploymentSpec(Struct):
    """The desired state of a Deployment."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    strategy: DeploymentStrategy = DeploymentStrategy()
    min_ready_seconds: int = 0
    revision_history_limit: int | None = None
    progress_deadline_seconds: int | None = None


class Deployment(Struct):
    """A controller that keeps identical pods running and replaces them gradually when their template changes."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DeploymentSpec = DeploymentSpec()


class ReplicaSetSpec(Struct):
    """The desired state of a ReplicaSet."""

    replicas: int | None = None
    min_ready_seconds: int = 0
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class ReplicaSet(Struct):
    """A controller that keeps a number of identical pods running."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicaSetSpec = ReplicaSetSpec()


class UpdateStrategy(Struct):
    """The strategy by which a StatefulSet or a DaemonSet replaces its pods."""

    type: str = ""
    rolling_update: dict[str, Any] | None = None


class StatefulSetOrdinals(Struct):
    """The ordinals in the names of pods."""

    start: int = 0


class StatefulSetSpec(Struct):
    """The desired state of a StatefulSet."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    volume_claim_templates: tuple[PersistentVolumeClaim, ...] = ()
    service_name: str = ""
    pod_management_policy: str = ""
    update_strategy: UpdateStrategy = UpdateStrategy()
    min_ready_seconds: int = 0
    ordinals: StatefulSetOrdinals | None = None


class StatefulSet(Struct):
    """A controller that keeps pods running, each with a name and storage of its own."""

    metadata: ObjectMeta = ObjectMeta()
    spec: StatefulSetSpec = StatefulSetSpec()


class DaemonSetSpec(Struct):
    """The desired state of a DaemonSet."""

    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    update_strategy: UpdateStrategy = UpdateStrategy()
    min_ready_seconds: int = 0
    revision_history_limit: int | None = None


class DaemonSet(Struct):
    """A controller that keeps one pod running on every suitable node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DaemonSetSpec = DaemonSetSpec()


class ControllerRevision(Struct):
    """A revision of a controller's template, present or past."""

    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, Any] | None = None


DEPLOYMENT = Kind("apps", "v1", "Deployment", "deployments", Deployment)
REPLICA_SET = Kind("apps", "v1", "ReplicaSet", "replicasets", ReplicaSet)
STATEFUL_SET = Kind("apps", "v1", "StatefulSet", "statefulsets", StatefulSet)
DAEMON_SET = Kind("apps", "v1", "DaemonSet", "daemonsets", DaemonSet)
CONTROLLER_REVISION = Kind("apps", "v1", "ControllerRevision", "controllerrevisions", ControllerRevision)
