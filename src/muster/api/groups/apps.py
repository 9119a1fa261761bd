"""`apps/v1`: controllers of pods that never end. They are kept and shown; nothing here acts on them."""

from datetime import datetime
from typing import Annotated, Any

from muster.api.core.claims import PersistentVolumeClaim
from muster.api.core.pod import PodTemplateSpec
from muster.api.kinds import Kind
from muster.api.markers import ATOMIC, Int32, IntOrString, Patched, Required, merged_by, one_of
from muster.api.meta import LabelSelector, ObjectMeta, PlainCondition, Struct


class RollingUpdateDeployment(Struct):
    """How fast a Deployment replaces its pods.

    max_unavailable: how many may be missing, or which part; 25% if absent.
    max_surge: how many may be there beyond the wanted number, or which part; 25% if absent.
    """

    max_unavailable: IntOrString | None = None
    max_surge: IntOrString | None = None


class DeploymentStrategy(Struct):
    """How a Deployment replaces its pods.

    type: RollingUpdate, or Recreate: all go before the first new one comes.
    rolling_update: how fast, for RollingUpdate.
    """

    type: Annotated[str, one_of("Recreate", "RollingUpdate")] = ""
    rolling_update: RollingUpdateDeployment | None = None


class DeploymentSpec(Struct):
    """Which pods a Deployment keeps running.

    replicas: how many; 1 if absent.
    selector: which pods belong to it; never changes.
    template: what the pods are like.
    strategy: how old pods are replaced.
    min_ready_seconds: how long a new pod must be ready to count as available.
    revision_history_limit: how many old ReplicaSets are kept; 10 if absent.
    paused: whether changes of the template wait.
    progress_deadline_seconds: without progress for so long, the rollout has failed; 600 if absent.
    """

    replicas: Int32 | None = None
    selector: Required[LabelSelector | None] = None
    template: Required[PodTemplateSpec] = PodTemplateSpec()
    strategy: Annotated[DeploymentStrategy, Patched("retainKeys")] = DeploymentStrategy()
    min_ready_seconds: Int32 = 0
    revision_history_limit: Int32 | None = None
    paused: bool = False
    progress_deadline_seconds: Int32 | None = None


class DeploymentCondition(Struct):
    """One observed aspect of a Deployment.

    type: Available, Progressing or ReplicaFailure.
    status: True, False or Unknown.
    last_update_time: when the condition last changed in any way.
    last_transition_time: when the status last changed.
    reason: one word for the status.
    message: a sentence for people.
    """

    type: Required[str] = ""
    status: Required[str] = ""
    last_update_time: datetime | None = None
    last_transition_time: datetime | None = None
    reason: str = ""
    message: str = ""


class DeploymentStatus(Struct):
    """What was observed of a Deployment.

    observed_generation: the generation that the status is about.
    replicas: pods that are not ending.
    updated_replicas: those of the current template.
    ready_replicas: those that are ready.
    available_replicas: those that have been ready for long enough.
    unavailable_replicas: those that are still missing.
    terminating_replicas: pods that are being deleted.
    conditions: observed aspects.
    collision_count: how often a name for a ReplicaSet was taken.
    """

    observed_generation: int = 0
    replicas: Int32 = 0
    updated_replicas: Int32 = 0
    ready_replicas: Int32 = 0
    available_replicas: Int32 = 0
    unavailable_replicas: Int32 = 0
    terminating_replicas: Int32 | None = None
    conditions: Annotated[tuple[DeploymentCondition, ...], merged_by("type")] = ()
    collision_count: Int32 | None = None


class Deployment(Struct):
    """Keeps a number of like pods running, and replaces them bit by bit when their template changes.

    metadata: what every object carries.
    spec: which pods it keeps running.
    status: what was observed.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


class ReplicaSetSpec(Struct):
    """Which pods a ReplicaSet keeps running.

    replicas: how many; 1 if absent.
    min_ready_seconds: how long a new pod must be ready to count as available.
    selector: which pods belong to it; never changes.
    template: what the pods are like.
    """

    replicas: Int32 | None = None
    min_ready_seconds: Int32 = 0
    selector: Required[LabelSelector | None] = None
    template: PodTemplateSpec = PodTemplateSpec()


class ReplicaSetCondition(PlainCondition):
    """One observed aspect of a ReplicaSet.

    type: ReplicaFailure.
    """


class ReplicaSetStatus(Struct):
    """What was observed of a ReplicaSet.

    replicas: pods that are not ending.
    fully_labeled_replicas: those with all labels of the template.
    ready_replicas: those that are ready.
    available_replicas: those that have been ready for long enough.
    terminating_replicas: pods that are being deleted.
    observed_generation: the generation that the status is about.
    conditions: observed aspects.
    """

    replicas: Required[Int32] = 0
    fully_labeled_replicas: Int32 = 0
    ready_replicas: Int32 = 0
    available_replicas: Int32 = 0
    terminating_replicas: Int32 | None = None
    observed_generation: int = 0
    conditions: Annotated[tuple[ReplicaSetCondition, ...], merged_by("type")] = ()


class ReplicaSet(Struct):
    """Keeps a number of like pods running.

    metadata: what every object carries.
    spec: which pods it keeps running.
    status: what was observed.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


class RollingUpdateStatefulSetStrategy(Struct):
    """How a StatefulSet replaces its pods.

    partition: only pods with this ordinal or a greater one are replaced; 0 if absent.
    max_unavailable: how many may be missing meanwhile, or which part.
    """

    partition: Int32 | None = None
    max_unavailable: IntOrString | None = None


class StatefulSetUpdateStrategy(Struct):
    """When a StatefulSet replaces its pods.

    type: RollingUpdate, or OnDelete: only pods that a user deletes.
    rolling_update: how, for RollingUpdate.
    """

    type: Annotated[str, one_of("OnDelete", "RollingUpdate")] = ""
    rolling_update: RollingUpdateStatefulSetStrategy | None = None


class StatefulSetPersistentVolumeClaimRetentionPolicy(Struct):
    """What becomes of claims that were made for pods.

    when_deleted: Retain or Delete, once the StatefulSet is deleted.
    when_scaled: Retain or Delete, once it has fewer pods.
    """

    when_deleted: str = ""
    when_scaled: str = ""


class StatefulSetOrdinals(Struct):
    """The numbers that pods are named by.

    start: the first of them; 0 if absent.
    """

    start: Int32 = 0


class StatefulSetSpec(Struct):
    """Which pods a StatefulSet keeps running.

    replicas: how many; 1 if absent.
    selector: which pods belong to it; never changes.
    template: what the pods are like.
    volume_claim_templates: claims that each pod gets for itself.
    service_name: the headless service that gives the pods their names.
    pod_management_policy: OrderedReady, one after the other, or Parallel.
    update_strategy: when old pods are replaced.
    revision_history_limit: how many old templates are kept; 10 if absent.
    min_ready_seconds: how long a new pod must be ready to count as available.
    persistent_volume_claim_retention_policy: what becomes of claims.
    ordinals: the numbers that pods are named by.
    """

    replicas: Int32 | None = None
    selector: Required[LabelSelector | None] = None
    template: Required[PodTemplateSpec] = PodTemplateSpec()
    volume_claim_templates: Annotated[tuple[PersistentVolumeClaim, ...], ATOMIC] = ()
    service_name: str = ""
    pod_management_policy: Annotated[str, one_of("OrderedReady", "Parallel")] = ""
    update_strategy: StatefulSetUpdateStrategy = StatefulSetUpdateStrategy()
    revision_history_limit: Int32 | None = None
    min_ready_seconds: Int32 = 0
    persistent_volume_claim_retention_policy: StatefulSetPersistentVolumeClaimRetentionPolicy | None = None
    ordinals: StatefulSetOrdinals | None = None


class StatefulSetCondition(PlainCondition):
    """One observed aspect of a StatefulSet.

    type: what it is about.
    """


class StatefulSetStatus(Struct):
    """What was observed of a StatefulSet.

    observed_generation: the generation that the status is about.
    replicas: pods that it has made.
    ready_replicas: those that are ready.
    current_replicas: those of the current revision.
    updated_replicas: those of the revision that is being rolled out.
    current_revision: name of the current revision.
    update_revision: name of the revision that is being rolled out.
    collision_count: how often a name for a revision was taken.
    conditions: observed aspects.
    available_replicas: pods that have been ready for long enough.
    """

    observed_generation: int = 0
    replicas: Required[Int32] = 0
    ready_replicas: Int32 = 0
    current_replicas: Int32 = 0
    updated_replicas: Int32 = 0
    current_revision: str = ""
    update_revision: str = ""
    collision_count: Int32 | None = None
    conditions: Annotated[tuple[StatefulSetCondition, ...], merged_by("type")] = ()
    available_replicas: Int32 = 0


class StatefulSet(Struct):
    """Keeps pods running that each have a name and storage of their own.

    metadata: what every object carries.
    spec: which pods it keeps running.
    status: what was observed.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()


class RollingUpdateDaemonSet(Struct):
    """How fast a DaemonSet replaces its pods.

    max_unavailable: how many nodes may be without one, or which part; 1 if absent.
    max_surge: how many nodes may have two of them, or which part; 0 if absent.
    """

    max_unavailable: IntOrString | None = None
    max_surge: IntOrString | None = None


class DaemonSetUpdateStrategy(Struct):
    """When a DaemonSet replaces its pods.

    type: RollingUpdate, or OnDelete: only pods that a user deletes.
    rolling_update: how fast, for RollingUpdate.
    """

    type: Annotated[str, one_of("OnDelete", "RollingUpdate")] = ""
    rolling_update: RollingUpdateDaemonSet | None = None


class DaemonSetSpec(Struct):
    """Which pods a DaemonSet keeps running.

    selector: which pods belong to it; never changes.
    template: what the pods are like, and on which nodes they run.
    update_strategy: when old pods are replaced.
    min_ready_seconds: how long a new pod must be ready to count as available.
    revision_history_limit: how many old templates are kept; 10 if absent.
    """

    selector: Required[LabelSelector | None] = None
    template: Required[PodTemplateSpec] = PodTemplateSpec()
    update_strategy: DaemonSetUpdateStrategy = DaemonSetUpdateStrategy()
    min_ready_seconds: Int32 = 0
    revision_history_limit: Int32 | None = None


class DaemonSetCondition(PlainCondition):
    """One observed aspect of a DaemonSet.

    type: what it is about.
    """


class DaemonSetStatus(Struct):
    """What was observed of a DaemonSet.

    current_number_scheduled: nodes that have a pod and should.
    number_misscheduled: nodes that have a pod and should not.
    desired_number_scheduled: nodes that should have a pod.
    number_ready: nodes whose pod is ready.
    observed_generation: the generation that the status is about.
    updated_number_scheduled: nodes with a pod of the current template.
    number_available: nodes whose pod has been ready for long enough.
    number_unavailable: nodes that should have an available pod and do not.
    collision_count: how often a name for a revision was taken.
    conditions: observed aspects.
    """

    current_number_scheduled: Required[Int32] = 0
    number_misscheduled: Required[Int32] = 0
    desired_number_scheduled: Required[Int32] = 0
    number_ready: Required[Int32] = 0
    observed_generation: int = 0
    updated_number_scheduled: Int32 = 0
    number_available: Int32 = 0
    number_unavailable: Int32 = 0
    collision_count: Int32 | None = None
    conditions: Annotated[tuple[DaemonSetCondition, ...], merged_by("type")] = ()


class DaemonSet(Struct):
    """Keeps one pod running on every node that suits it.

    metadata: what every object carries.
    spec: which pods it keeps running.
    status: what was observed.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()


class ControllerRevision(Struct):
    """What a controller's template was at some time.

    metadata: what every object carries.
    data: the state that is remembered; never changes.
    revision: its number; the greater, the later.
    """

    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, Any] | None = None
    revision: Required[int] = 0


DEPLOYMENT = Kind("apps", "v1", "Deployment", "deployments", Deployment)
REPLICA_SET = Kind("apps", "v1", "ReplicaSet", "replicasets", ReplicaSet)
STATEFUL_SET = Kind("apps", "v1", "StatefulSet", "statefulsets", StatefulSet)
DAEMON_SET = Kind("apps", "v1", "DaemonSet", "daemonsets", DaemonSet)
CONTROLLER_REVISION = Kind("apps", "v1", "ControllerRevision", "controllerrevisions", ControllerRevision)
