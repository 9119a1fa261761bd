"""The labels, annotations and conditions of JobSets and of the objects that they create, as upstream names them."""

from typing import Final

CONTROLLER_NAME: Final = "jobset.sigs.k8s.io/jobset-controller"

_PREFIX: Final = "jobset.sigs.k8s.io/"

# Labels and annotations of child Jobs and their pods.
JOBSET_NAME: Final = _PREFIX + "jobset-name"
JOBSET_UID: Final = _PREFIX + "jobset-uid"
REPLICATED_JOB_NAME: Final = _PREFIX + "replicatedjob-name"
REPLICATED_JOB_REPLICAS: Final = _PREFIX + "replicatedjob-replicas"
GLOBAL_REPLICAS: Final = _PREFIX + "global-replicas"
JOB_INDEX: Final = _PREFIX + "job-index"
JOB_GLOBAL_INDEX: Final = _PREFIX + "job-global-index"
JOB_KEY: Final = _PREFIX + "job-key"
RESTART_ATTEMPT: Final = _PREFIX + "restart-attempt"
JOB_RESTART_ATTEMPT: Final = _PREFIX + "job-restart-attempt"
GROUP_NAME: Final = _PREFIX + "group-name"
GROUP_REPLICAS: Final = _PREFIX + "group-replicas"
JOB_GROUP_INDEX: Final = _PREFIX + "job-group-index"
COORDINATOR: Final = _PREFIX + "coordinator"

# Labels and annotations of pods only.
PRIORITY_LABEL: Final = _PREFIX + "priority"
IN_PLACE_RESTART_ATTEMPT: Final = _PREFIX + "in-place-restart-attempt"

# Annotations of a JobSet or the template of a replicated job that request exclusive placement.
EXCLUSIVE_TOPOLOGY: Final = "alpha.jobset.sigs.k8s.io/exclusive-topology"
NODE_SELECTOR_STRATEGY: Final = "alpha.jobset.sigs.k8s.io/node-selector"
NAMESPACED_JOB: Final = "alpha.jobset.sigs.k8s.io/namespaced-job"
NO_SCHEDULE_TAINT: Final = "alpha.jobset.sigs.k8s.io/no-schedule"

# The group start (jobset KEP-498).
GROUP_SCHEDULING_INIT: Final = "group-scheduling-init"
GROUP_SCHEDULING_VOLUME: Final = "group-scheduling"
GROUP_SCHEDULING_SUFFIX: Final = "-group-scheduling"
# The exit code of the waiting container after the timeout, for podFailurePolicy.onExitCodes: EX_TEMPFAIL.
GROUP_SCHEDULING_EXIT_CODE: Final = 75
GROUP_SCHEDULING_EPOCH: Final = _PREFIX + "group-scheduling-epoch"

# Conditions.
COMPLETED: Final = "Completed"
FAILED: Final = "Failed"
SUSPENDED: Final = "Suspended"
RESTARTING: Final = "RestartingJobSet"
STARTUP_IN_PROGRESS: Final = "StartupPolicyInProgress"
STARTUP_COMPLETED: Final = "StartupPolicyCompleted"
GROUP_SCHEDULING_READY: Final = "GroupSchedulingReady"
CONFIG_MAP_CONFLICT: Final = "ConfigMapConflict"  # the reason if GroupSchedulingReady is False

# The values of fields.
ALL: Final = "All"
ANY: Final = "Any"
ANY_ORDER: Final = "AnyOrder"
IN_ORDER: Final = "InOrder"
READY: Final = "Ready"
COMPLETE: Final = "Complete"
RECREATE: Final = "Recreate"
BLOCKING_RECREATE: Final = "BlockingRecreate"
IN_PLACE_RESTART: Final = "InPlaceRestart"
FAIL_JOBSET: Final = "FailJobSet"
RESTART_JOBSET: Final = "RestartJobSet"
RESTART_JOBSET_IGNORING_MAX: Final = "RestartJobSetAndIgnoreMaxRestarts"
RESTART_JOB: Final = "RestartJob"
RESTART_JOB_IGNORING_MAX: Final = "RestartJobAndIgnoreMaxRestarts"
DELETE: Final = "Delete"
RETAIN: Final = "Retain"
