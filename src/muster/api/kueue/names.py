"""The names in Kueue's API: conditions, reasons, labels, annotations, finalizers."""

from typing import Final

from muster.api.kueue.fields import GROUP

# The conditions of Workloads.
QUOTA_RESERVED: Final = "QuotaReserved"
ADMITTED: Final = "Admitted"
PODS_READY: Final = "PodsReady"
FINISHED: Final = "Finished"
EVICTED: Final = "Evicted"
PREEMPTED: Final = "Preempted"
REQUEUED: Final = "Requeued"
DEACTIVATION_TARGET: Final = "DeactivationTarget"
WAITING_FOR_REPLACEMENT_PODS: Final = "WaitingForReplacementPods"
BLOCKED_ON_PREEMPTION_GATES: Final = "BlockedOnPreemptionGates"

# The reasons why preemption gates block a workload.
PREEMPTION_GATED: Final = "PreemptionGated"

# The condition of ClusterQueues, LocalQueues, AdmissionChecks and MultiKueueClusters.
ACTIVE: Final = "Active"

# The reasons why quota is not reserved.
WAITING_FOR_QUOTA: Final = "WaitingForQuota"
EXCEEDS_MAX_QUOTA: Final = "ExceedsMaxQuota"
TOPOLOGY_PLACEMENT_FAILED: Final = "TopologyPlacementFailed"
WAITING_FOR_PREEMPTED_WORKLOADS: Final = "WaitingForPreemptedWorkloads"
MISCONFIGURED: Final = "Misconfigured"
SUSPENDED: Final = "Suspended"
PENDING_EVALUATION: Final = "PendingEvaluation"
WAITING_FOR_PODS_READY: Final = "WaitingForPodsReady"
ADMISSION_GATED: Final = "AdmissionGated"
ON_HOLD: Final = "OnHold"
DEACTIVATED: Final = "Deactivated"  # also a reason of an eviction
DEACTIVATED_MESSAGE: Final = "The workload is deactivated"
PENDING: Final = "Pending"  # older releases used this reason and the next two
INADMISSIBLE: Final = "Inadmissible"
WAITING: Final = "Waiting"

# The event of a job for which the engine cannot create a Workload.
ERR_WORKLOAD_COMPOSE: Final = "ErrWorkloadCompose"

# The reasons why a workload is not admitted.
NO_RESERVATION: Final = "NoReservation"
UNSATISFIED_ADMISSION_CHECKS: Final = "UnsatisfiedAdmissionChecks"
PENDING_DELAYED_TOPOLOGY_REQUESTS: Final = "PendingDelayedTopologyRequests"

# The reasons of an eviction, besides PREEMPTED and DEACTIVATED.
PODS_READY_TIMEOUT: Final = "PodsReadyTimeout"
ADMISSION_CHECK_EVICTION: Final = "AdmissionCheck"  # also a cause, and the reason of a requested deactivation
CLUSTER_QUEUE_STOPPED: Final = "ClusterQueueStopped"
LOCAL_QUEUE_STOPPED: Final = "LocalQueueStopped"
NODE_FAILURES: Final = "NodeFailures"
FLAVOR_MIGRATION: Final = "FlavorMigration"
# The end of the message of such an eviction.
FLAVOR_MIGRATION_CAUSE: Final = "migration to more favorable resource flavor"
VARIANT_EVICTED: Final = "VariantEvicted"
CONCURRENT_ADMISSION: Final = "ConcurrentAdmission"
DEACTIVATED_DUE_TO: Final = "DeactivatedDueTo"  # a prefix, which the cause follows
EVICTED_DUE_TO: Final = "EvictedDueTo"  # the prefix of an event, which the reason follows

# The underlying causes of an eviction, besides ADMISSION_CHECK_EVICTION.
WAIT_FOR_START: Final = "WaitForStart"  # also the reason why pods are not ready
WAIT_FOR_RECOVERY: Final = "WaitForRecovery"
REQUEUING_LIMIT_EXCEEDED: Final = "RequeuingLimitExceeded"
MAXIMUM_EXECUTION_TIME_EXCEEDED: Final = "MaximumExecutionTimeExceeded"
EVICTED_ON_MANAGER_CLUSTER: Final = "EvictedOnManagerCluster"

# The reasons of a requeue.
REACTIVATED: Final = "Reactivated"
BACKOFF_FINISHED: Final = "BackoffFinished"
CLUSTER_QUEUE_RESTARTED: Final = "ClusterQueueRestarted"
LOCAL_QUEUE_RESTARTED: Final = "LocalQueueRestarted"

# The reasons why pods are ready.
STARTED: Final = "Started"
RECOVERED: Final = "Recovered"

# The reasons of the end of a workload.
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
OUT_OF_SYNC: Final = "OutOfSync"
OWNER_NOT_FOUND: Final = "OwnerNotFound"
WORKLOAD_SLICE_REPLACED: Final = "WorkloadSliceReplaced"
FAILED_TO_START: Final = "FailedToStart"

# The reasons why a ClusterQueue or LocalQueue is active or not.
READY: Final = "Ready"
TERMINATING: Final = "Terminating"
STOPPED: Final = "Stopped"
FLAVOR_NOT_FOUND: Final = "FlavorNotFound"
ADMISSION_CHECK_NOT_FOUND: Final = "AdmissionCheckNotFound"
ADMISSION_CHECK_INACTIVE: Final = "AdmissionCheckInactive"
MULTIPLE_MULTI_KUEUE_ADMISSION_CHECKS: Final = "MultipleMultiKueueAdmissionChecks"
MULTI_KUEUE_APPLIED_PER_FLAVOR: Final = "MultiKueueAdmissionCheckAppliedPerFlavor"
MULTI_KUEUE_WITH_PROVISIONING_REQUEST: Final = "MultiKueueWithProvisioningRequest"
TOPOLOGY_NOT_FOUND: Final = "TopologyNotFound"
UNKNOWN: Final = "Unknown"
CLUSTER_QUEUE_IS_INACTIVE: Final = "ClusterQueueIsInactive"
CLUSTER_QUEUE_DOES_NOT_EXIST: Final = "ClusterQueueDoesNotExist"

# The reasons why a MultiKueueCluster, or a check that needs some, is not active; also ACTIVE.
CLIENT_CONNECTION_FAILED: Final = "ClientConnectionFailed"
BAD_KUBE_CONFIG: Final = "BadKubeConfig"
INSECURE_KUBE_CONFIG: Final = "InsecureKubeConfig"
BAD_CLUSTER_PROFILE: Final = "BadClusterProfile"
BAD_REST_CONFIG: Final = "BadRestConfig"
MULTI_KUEUE_CLUSTER_PROFILE_FEATURE_DISABLED: Final = "MultiKueueClusterProfileFeatureDisabled"
SOME_ACTIVE_CLUSTERS: Final = "SomeActiveClusters"  # the reason why a check is active
NO_USABLE_CLUSTERS: Final = "NoUsableClusters"
BAD_CONFIG: Final = "BadConfig"

# The condition whether the quota of a ClusterQueue is the sum of its workers' quotas, and its reasons.
MULTI_KUEUE_MANAGER_QUOTA_AUTOMATION: Final = "MultiKueueManagerQuotaAutomation"
QUOTA_AUTOMATED: Final = "QuotaAutomated"
NOT_REQUESTED: Final = "NotRequested"
UNSUPPORTED_CONFIGURATION: Final = "UnsupportedConfiguration"

# The controllers of admission checks.
MULTI_KUEUE_CONTROLLER: Final = f"{GROUP}/multikueue"
PROVISIONING_REQUEST_CONTROLLER: Final = f"{GROUP}/provisioning-request"

# The LocalQueue of jobs that name none, if there is one.
DEFAULT_QUEUE: Final = "default"

# Labels.
QUEUE_NAME_LABEL: Final = f"{GROUP}/queue-name"
PRIORITY_CLASS_LABEL: Final = f"{GROUP}/priority-class"
MAX_EXEC_TIME_SECONDS_LABEL: Final = f"{GROUP}/max-exec-time-seconds"
MANAGED_LABEL: Final = f"{GROUP}/managed"
MULTI_KUEUE_ORIGIN_LABEL: Final = f"{GROUP}/multikueue-origin"
CLUSTER_QUEUE_NAME_LABEL: Final = f"{GROUP}/cluster-queue-name"
LOCAL_QUEUE_NAME_LABEL: Final = f"{GROUP}/local-queue-name"
POD_SET_LABEL: Final = f"{GROUP}/podset"
PARENT_LABEL: Final = f"{GROUP}/concurrent-admission-parent"
JOB_UID_LABEL: Final = f"{GROUP}/job-uid"
POD_GROUP_NAME_LABEL: Final = f"{GROUP}/pod-group-name"  # also an annotation
PREBUILT_WORKLOAD_NAME_LABEL: Final = f"{GROUP}/prebuilt-workload-name"  # also an annotation
POD_GROUP_POD_INDEX_LABEL: Final = f"{GROUP}/pod-group-pod-index"

# Annotations.
ADMISSION_GATED_BY: Final = f"{GROUP}/admission-gated-by"
ALLOWED_FLAVORS: Final = f"{GROUP}/workload-allowed-resource-flavors"
ELASTIC_JOB: Final = f"{GROUP}/elastic-job"  # also a scheduling gate
IS_GROUP_WORKLOAD: Final = f"{GROUP}/is-group-workload"
JOB_COMPLETIONS_EQUAL_PARALLELISM: Final = f"{GROUP}/job-completions-equal-parallelism"
JOB_MIN_PARALLELISM: Final = f"{GROUP}/job-min-parallelism"
MULTI_KUEUE_ORIGIN_UID: Final = f"{GROUP}/multikueue-origin-uid"
POD_GROUP_FAST_ADMISSION: Final = f"{GROUP}/pod-group-fast-admission"
POD_GROUP_POD_INDEX_LABEL_NAME: Final = f"{GROUP}/pod-group-pod-index-label"
POD_GROUP_SERVING: Final = f"{GROUP}/pod-group-serving"
POD_GROUP_TOTAL_COUNT: Final = f"{GROUP}/pod-group-total-count"
POD_INDEX_OFFSET: Final = f"{GROUP}/pod-index-offset"
POD_SUSPENDING_PARENT: Final = f"{GROUP}/pod-suspending-parent"
POD_SET_GROUP_NAME: Final = f"{GROUP}/podset-group-name"
POD_SET_PREFERRED_TOPOLOGY: Final = f"{GROUP}/podset-preferred-topology"
POD_SET_REQUIRED_TOPOLOGY: Final = f"{GROUP}/podset-required-topology"
POD_SET_UNCONSTRAINED_TOPOLOGY: Final = f"{GROUP}/podset-unconstrained-topology"
POD_SET_SLICE_REQUIRED_TOPOLOGY: Final = f"{GROUP}/podset-slice-required-topology"
POD_SET_SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS: Final = f"{GROUP}/podset-slice-required-topology-constraints"
POD_SET_SLICE_SIZE: Final = f"{GROUP}/podset-slice-size"
TOPOLOGY_ANNOTATIONS: Final = frozenset(  # a pod with one of these runs where the assignment of its workload says
    (
        POD_SET_PREFERRED_TOPOLOGY,
        POD_SET_REQUIRED_TOPOLOGY,
        POD_SET_UNCONSTRAINED_TOPOLOGY,
        POD_SET_SLICE_REQUIRED_TOPOLOGY,
        POD_SET_SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS,
    )
)
PRIORITY_BOOST: Final = f"{GROUP}/priority-boost"
RETRIABLE_IN_GROUP: Final = f"{GROUP}/retriable-in-group"
ROLE_HASH: Final = f"{GROUP}/role-hash"
STOPPING: Final = f"{GROUP}/stopping"
WORKLOAD_ANNOTATION: Final = f"{GROUP}/workload"
WORKLOAD_SLICE_NAME: Final = f"{GROUP}/workload-slice-name"
WORKLOAD_SLICE_REPLACEMENT_FOR: Final = f"{GROUP}/workload-slice-replacement-for"
PROVISIONING_REQUEST_PREFIX: Final = "provreq.kueue.x-k8s.io/"  # such annotations become request parameters

# The preemption gate of variants.
CONCURRENT_ADMISSION_GATE: Final = f"{GROUP}/concurrent-admission"

# The scheduling gates of pods.
ADMISSION_GATE: Final = f"{GROUP}/admission"
TOPOLOGY_GATE: Final = f"{GROUP}/topology"

# The finalizers.
RESOURCE_IN_USE_FINALIZER: Final = f"{GROUP}/resource-in-use"  # on ClusterQueues and ResourceFlavors
MANAGED_FINALIZER: Final = f"{GROUP}/managed"  # on pods
