"""Marks on pods that the platform ends, and on their replacements."""

from typing import Final

# On a pod: for whom the scheduler preempts it, from before the first pod of the gangs that go is evicted.
PREEMPTED_ANNOTATION: Final = "muster.dev/preempted-by"

# On a pod of an index that counts its own failures: how many pods of the index were interrupted before this one, and
# how many there were in all.
INTERRUPTIONS_ANNOTATION: Final = "muster.dev/interruptions"
ATTEMPT_ANNOTATION: Final = "muster.dev/attempt"

# On a pod of such an index that ran: its own UID. Its Job is suspended, and the pod is deleted for that.
SUSPENDED_ANNOTATION: Final = "muster.dev/suspended"

# On a job that its queue stopped: why.
STOPPED_ANNOTATION: Final = "muster.dev/stopped-for"
