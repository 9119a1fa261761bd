"""The marks of pods that the platform ends, and of their replacements."""

from typing import Final

# The annotation of a pod that the scheduler preempts: the gang that gets its room. The scheduler writes it before it
# evicts the first pod of the victims.
PREEMPTED_ANNOTATION: Final = "muster.dev/preempted-by"

# The annotation of a pod of an index that counts its own failures: how many pods of the index were interrupted before
# this one, and how many pods there were in all.
INTERRUPTIONS_ANNOTATION: Final = "muster.dev/interruptions"
ATTEMPT_ANNOTATION: Final = "muster.dev/attempt"

# The annotation, with its own UID, of a pod of such an index that ran and is deleted because its Job was suspended.
SUSPENDED_ANNOTATION: Final = "muster.dev/suspended"

# The annotation, with its own UID, of a pod that is about to be deleted because its gang starts over. The patch that
# writes it also removes the tracking finalizer, which the Job controller may add again before the pod is deleted.
WITHDRAWN_ANNOTATION: Final = "muster.dev/withdrawn"

# The annotation of a job that its queue stopped, with the reason.
STOPPED_ANNOTATION: Final = "muster.dev/stopped-for"
