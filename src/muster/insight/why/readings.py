"""The observed objects that explain why a job does not run, and one level of the answer. Pure values."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field

from muster.api.core import Pod
from muster.api.kueue import Workload
from muster.api.kueue.visibility import PendingWorkload
from muster.api.pods import is_finished
from muster.insight.clusters import WorkerClusterState
from muster.insight.jobs.state import OPEN, JobState, NeverVerdict
from muster.insight.quota.state import QuotaState
from muster.insight.record import JobRecord
from muster.insight.text import format_table

if TYPE_CHECKING:
    from muster.insight.forecasts.forecast import Holder, Need
    from muster.queueing.scheduling.estimate import StartEstimate

# The form in which messages name another workload.
_ANOTHER = r"a workload \(UID: ([^,)]+), JobUID: [^)]*\)"

State = Literal["done", "here", "later", "none"]


class JobReadings(Struct, frozen=True):
    """All objects that were read about one job.

    ahead: the workloads before it in its queue, in order; None if the server does not serve them.
    waiting: how many workloads wait in that queue.
    strict: whether the queue is StrictFIFO.
    head: why the first workload of the queue waits.
    verdict: why the job can never start, or the nodes for which it waits.
    names: the names of other workloads' jobs, by workload UID.
    owners: the users who submitted them, by namespace and name.
    clusters: the clusters in which the job may run, if MultiKueue dispatches it.
    needs, holders: the job's requests, and which workloads use the missing quota; empty if the user may not see that.
    apart: the jobs whose nodes a waiting pod of the job must avoid.
    stopped: the kind and name of each of the job's queues that a user stopped.
    unseen: why Workloads cannot be read; "" if they can.
    """

    namespace: str
    name: str
    now: datetime
    state: JobState
    job: JobRecord | None = None
    workload: Workload | None = None
    quota_state: QuotaState | None = None
    pods: Sequence[Pod] = ()
    cluster_queue: str = ""
    ahead: Sequence[PendingWorkload] | None = None
    waiting: int = 0
    strict: bool = False
    head: str = ""
    apart: Sequence[str] = ()
    stopped: Sequence[tuple[str, str]] = ()
    needs: "Sequence[Need]" = ()
    holders: "Sequence[Holder]" = ()
    estimate: "StartEstimate | None" = None
    verdict: NeverVerdict = OPEN
    names: Mapping[str, str] = field(default_factory=dict)
    owners: Mapping[tuple[str, str], str] = field(default_factory=dict)
    clusters: Sequence[WorkerClusterState] = ()
    unseen: str = ""

    @property
    def live(self) -> list[Pod]:
        """The job's pods that have not ended."""
        return [pod for pod in self.pods if not is_finished(pod)]

    def name_others(self, message: str) -> str:
        """Return the message with other workloads replaced by the names of their jobs, if those are known."""
        return re.sub(_ANOTHER, lambda match: self.names.get(match[1], match[0]), message)


class DetailTable(Struct, frozen=True):
    """A table among the details of a level. Its first row contains the titles of the columns."""

    rows: tuple[tuple[str, ...], ...]

    @property
    def lines(self) -> list[str]:
        """The rows as lines of text in columns."""
        return format_table(self.rows[0], self.rows[1:]).splitlines()


class JobLevel(Struct, frozen=True):
    """One of the six levels that a job passes.

    state: `done`; `here` if this level holds the job; `later` if the job has not reached it; `none` if the level does
    not apply to the job.
    """

    name: str
    state: State
    text: str
    details: tuple[str | DetailTable, ...] = ()

    @property
    def lines(self) -> list[str]:
        """The details as lines of text: each sentence, and each row of a table in columns."""
        return [line for one in self.details for line in ([one] if isinstance(one, str) else one.lines)]
