"""The order of a ClusterQueue, as a key: what comes first is the smallest.

A key is computed once, when a workload enters, and never from anything that changes while it waits: a comparison that
looked things up anew could contradict itself (upstream #12740). Past usage of LocalQueues (admission fair sharing) does
change; it stands before the key, kept apart, and moves the LocalQueue as a whole.
"""

from datetime import datetime

from muster.queueing.model import WorkloadInfo

# Not sticky, priority downwards, since when it waits, UID (a comparison of texts, as upstream), key.
Place = tuple[bool, int, datetime, str, str]


def place(workload: WorkloadInfo, *, sticky: bool = False) -> Place:
    """Where a workload stands in its ClusterQueue.

    sticky: it waits for its victims to go; of a BestEffortFIFO queue it stays the head even where a workload more
    important comes, or what is freed for it would be given to others again and again.
    """
    return not sticky, -workload.priority, workload.queued, workload.uid, workload.key
