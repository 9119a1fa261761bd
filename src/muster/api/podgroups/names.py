"""The names on pods of a PodGroup and in its status and events, for all dialects."""

from typing import Final

GROUP_NAME_ANNOTATION: Final = "scheduling.k8s.io/group-name"  # scheduler KEP-34, kube-batch, Volcano
VOLCANO_GROUP_NAME_ANNOTATION: Final = "scheduling.volcano.sh/group-name"
GROUP_ANNOTATIONS: Final = frozenset({GROUP_NAME_ANNOTATION, VOLCANO_GROUP_NAME_ANNOTATION})
POD_GROUP_LABEL: Final = "scheduling.x-k8s.io/pod-group"
# Volcano's queue of a pod, and the spelling of its controller of Jobs.
QUEUE_ANNOTATIONS: Final = ("scheduling.volcano.sh/queue-name", "volcano.sh/queue-name")
TASK_SPEC_ANNOTATION: Final = "volcano.sh/task-spec"

# Muster's annotation of a PodGroup: "true" if a PodDisruptionBudget shall keep as many pods as start together.
DISRUPTION_BUDGET_ANNOTATION: Final = "muster.dev/disruption-budget"
# The annotation of a PodGroup with the pods that were deleted because the rest found no room, until it starts again.
TAKEN_BACK_ANNOTATION: Final = "muster.dev/taken-back"
# The label of pods with the group that they name in an annotation or in spec.schedulingGroup, for selectors.
GROUP_LABEL: Final = "muster.dev/pod-group"
SCHEDULING_GROUP_LABEL: Final = "muster.dev/scheduling-group"

# The conditions.
UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULED: Final = "Scheduled"
FAILED: Final = "Failed"
INITIALLY_SCHEDULED: Final = "PodGroupInitiallyScheduled"

# The reasons.
NOT_ENOUGH_TASKS: Final = "NotEnoughTasks"
NOT_ENOUGH_RESOURCES: Final = "NotEnoughResources"
READY: Final = "tasks in the gang are ready to be scheduled"
