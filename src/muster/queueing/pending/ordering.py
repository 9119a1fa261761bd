"""Order the workloads of a ClusterQueue by a sort key, the smallest first.

A key is computed once, when a workload enters the queue, and only from fields that do not change while it waits. A
comparison of live values could contradict itself (upstream #12740).

The past usage of LocalQueues (admission fair sharing) does change. It is therefore no part of the key: it is compared
before the key, and moves all workloads of a LocalQueue together.
"""

from datetime import datetime
from typing import NamedTuple

from muster.queueing.model import WorkloadInfo


class Place(NamedTuple):
    """The sort key of a workload in its ClusterQueue. Fields compare in this order, the UID as text, as in Kueue.

    loose: whether the workload is not sticky.
    descending: the negated priority.
    since: when its wait began.
    """

    loose: bool
    descending: int
    since: datetime
    uid: str
    key: str


def place(workload: WorkloadInfo, *, sticky: bool = False) -> Place:
    """Return the sort key of a workload in its ClusterQueue.

    sticky: the workload waits for its victims to terminate. In a BestEffortFIFO queue it stays the head even if a more
    important workload arrives. Otherwise other workloads could take the freed quota again and again.
    """
    return Place(not sticky, -workload.priority, workload.queued, workload.uid, workload.key)
