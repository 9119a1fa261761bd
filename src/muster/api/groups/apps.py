"""`apps/v1`: controllers of pods that never end, with the fields that rules read. Nothing here acts on them."""

from typing import Any

from muster.api.core.claims import PersistentVolumeClaim
from muster.api.core.pod import PodTemplateSpec
from muster.api.kinds import Kind
from muster.api.meta import LabelSelector, ObjectMeta, Struct


class DeploymentStrategy(Struct):
    """How a Deployment replaces its pods."""

    type: str = ""
    rolling_update: dict[str, Any] | None = None


class DeploymentSpec(Struct):
    """Which pods a Deployment keeps running."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    strategy: DeploymentStrategy = DeploymentStrategy()
    min_ready_seconds: int = 0
    revision_history_limit: int | None = None
    progress_deadline_seconds: int | None = None


class Deployment(Struct):
    """Keeps a number of like pods running, and replaces them bit by bit when their template changes."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DeploymentSpec = DeploymentSpec()


class ReplicaSetSpec(Struct):
    """Which pods a ReplicaSet keeps running."""

    replicas: int | None = None
    min_ready_seconds: int = 0
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class ReplicaSet(Struct):
    """Keeps a number of like pods running."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicaSetSpec = ReplicaSetSpec()


class UpdateStrategy(Struct):
    """When a StatefulSet or a DaemonSet replaces its pods."""

    type: str = ""
    rolling_update: dict[str, Any] | None = None


class StatefulSetOrdinals(Struct):
    """The numbers that pods are named by."""

    start: int = 0


class StatefulSetSpec(Struct):
    """Which pods a StatefulSet keeps running."""

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
    """Keeps pods running that each have a name and storage of their own."""

    metadata: ObjectMeta = ObjectMeta()
    spec: StatefulSetSpec = StatefulSetSpec()


class DaemonSetSpec(Struct):
    """Which pods a DaemonSet keeps running."""

    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    update_strategy: UpdateStrategy = UpdateStrategy()
    min_ready_seconds: int = 0
    revision_history_limit: int | None = None


class DaemonSet(Struct):
    """Keeps one pod running on every node that suits it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DaemonSetSpec = DaemonSetSpec()


class ControllerRevision(Struct):
    """What a controller's template was at some time."""

    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, Any] | None = None


DEPLOYMENT = Kind("apps", "v1", "Deployment", "deployments", Deployment)
REPLICA_SET = Kind("apps", "v1", "ReplicaSet", "replicasets", ReplicaSet)
STATEFUL_SET = Kind("apps", "v1", "StatefulSet", "statefulsets", StatefulSet)
DAEMON_SET = Kind("apps", "v1", "DaemonSet", "daemonsets", DaemonSet)
CONTROLLER_REVISION = Kind("apps", "v1", "ControllerRevision", "controllerrevisions", ControllerRevision)
