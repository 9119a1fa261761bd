"""Order the workloads of a ClusterQueue by a key: the smallest comes first.

A key is computed once, when a workload enters, and never from anything that changes while the workload waits. A
comparison that looked values up each time could contradict itself (upstream #12740).

The past usage of LocalQueues (admission fair sharing) does change. The usage is kept apart from the key, comes before
the key, and moves the LocalQueue as a whole.
"""

from datetime import datetime
from typing import NamedTuple

from muster.queueing.model import WorkloadInfo


class Place(NamedTuple):
    """The sort key of a workload in its ClusterQueue. Fields compare in this order, the UID as text, as in Kueue.

    loose: whether the workload is not sticky. descending: the negated priority. since: when its wait began.
    """

    loose: bool
    descending: int
    since: datetime
    uid: str
    key: str


def place(workload: WorkloadInfo, *, sticky: bool = False) -> Place:
    """Return the place of a workload in its ClusterQueue.

    sticky: the workload waits for its victims to leave. In a BestEffortFIFO queue it stays the head even if a more
    important workload arrives. Otherwise the quota freed for it could go to others again and again.
    """
    return Place(not sticky, -workload.priority, workload.queued, workload.uid, workload.key)
