"""Names on pods of a PodGroup and in its status and events: the words of all dialects."""

from typing import Final

GROUP_NAME_ANNOTATION: Final = "scheduling.k8s.io/group-name"  # scheduler KEP-34, kube-batch, Volcano
VOLCANO_GROUP_NAME_ANNOTATION: Final = "scheduling.volcano.sh/group-name"
GROUP_ANNOTATIONS: Final = frozenset({GROUP_NAME_ANNOTATION, VOLCANO_GROUP_NAME_ANNOTATION})
POD_GROUP_LABEL: Final = "scheduling.x-k8s.io/pod-group"
# Volcano's queue of a pod, and the same as its controller of Jobs writes it.
QUEUE_ANNOTATIONS: Final = ("scheduling.volcano.sh/queue-name", "volcano.sh/queue-name")
TASK_SPEC_ANNOTATION: Final = "volcano.sh/task-spec"

# Ours. On a PodGroup: "true" if a PodDisruptionBudget is to keep as many of its pods as start together.
DISRUPTION_BUDGET_ANNOTATION: Final = "muster.dev/disruption-budget"
# On a PodGroup: which of its pods were deleted, as the rest found no room; until it starts again.
TAKEN_BACK_ANNOTATION: Final = "muster.dev/taken-back"
# On pods: the group that they name in an annotation, or in spec.schedulingGroup, where selectors see it.
GROUP_LABEL: Final = "muster.dev/pod-group"
SCHEDULING_GROUP_LABEL: Final = "muster.dev/scheduling-group"

# Conditions.
UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULED: Final = "Scheduled"
FAILED: Final = "Failed"
INITIALLY_SCHEDULED: Final = "PodGroupInitiallyScheduled"

# Reasons.
NOT_ENOUGH_TASKS: Final = "NotEnoughTasks"
NOT_ENOUGH_PODS_OF_TASK: Final = "NotEnoughPodsOfTask"
NOT_ENOUGH_RESOURCES: Final = "NotEnoughResources"
READY: Final = "tasks in the gang are ready to be scheduled"
