"""Order the workloads of a ClusterQueue by a sort key, the smallest first.

A key is computed when a workload enters the queue, and only from fields that do not change while it waits. A comparison
of values that change could contradict itself (upstream #12740).

The past usage of LocalQueues (admission fair sharing) does change. Therefore the key does not contain it: usage is
compared before the key, and a change of it moves all workloads of a LocalQueue.
"""

from datetime import datetime
from typing import NamedTuple

from muster.queueing.model import WorkloadInfo


class Place(NamedTuple):
    """The sort key of a workload in its ClusterQueue. The fields are compared in this order.

    loose: False for a workload that waits for its victims and so stays the head; True for all others.
    descending: the negated priority.
    since: when its wait began.

    The UID is compared as text, as in Kueue.
    """

    loose: bool
    descending: int
    since: datetime
    uid: str
    key: str


def place(workload: WorkloadInfo, *, sticky: bool = False) -> Place:
    """Return the sort key of a workload in its ClusterQueue.

    sticky: whether the workload waits for its victims to terminate. In a BestEffortFIFO queue such a workload stays the
    head even if a workload of higher priority arrives. Otherwise other workloads could repeatedly use the freed quota.
    """
    return Place(not sticky, -workload.priority, workload.queued, workload.uid, workload.key)
