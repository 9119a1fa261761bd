"""The record of one decision of the engine about a job: what was decided, by which rule, and on which numbers.

Builders beside each decision core make the records: `queueing.decisions`, `controllers.scheduler.decisions` and
`multicluster.dispatch.decisions`. `controllers.decisionlog` keeps them. Nothing is decided from a record.
"""

from datetime import datetime
from typing import Final, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

# The path under which a Muster server serves the record of decisions.
PATH: Final = "/muster/decisions"

What: TypeAlias = Literal[
    "Waiting",  # for quota
    "QuotaReserved",
    "Shrinking",  # elastic jobs shrink for the job
    "Preempting",  # other jobs lose their quota or their nodes for the job
    "Preempted",
    "Evicted",  # the job gives its quota back for another reason
    "Unplaced",  # the job waits for nodes
    "Placed",
    "Shrunk",  # the elastic job has fewer pods
    "Grown",
    "Interrupted",  # the job lost pods with a node
    "GaveBack",  # the job gave back its nodes, because its lost pods found no room
    "Nominated",  # worker clusters get a copy of the job
    "Dispatched",  # the job runs in this worker cluster
    "Recalled",  # from a worker cluster
    "Restarted",
]

# Decisions that stay the same until another one follows. They are recorded when their rule changes.
STANDING: Final[frozenset[What]] = frozenset(("Waiting", "Unplaced", "Nominated"))


class Subject(Struct, frozen=True, gc=False):
    """The job that a decision is about.

    job: its `namespace/name`.
    uid: the UID of that object.
    """

    job: str
    uid: str = ""


class Other(Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """Another job that mattered to a decision.

    job: its `namespace/name`; "" where the reader may not see it.
    rule: why this job was chosen.
    """

    job: str
    uid: str = ""
    rule: str = ""
    priority: int | None = None


class Amount(Struct, frozen=True, rename="camel", gc=False):
    """The request of a job for one flavor and resource, and the quota of its ClusterQueue after the decision.

    CPUs are counted in thousandths, everything else in whole units.

    used: the quota that all jobs of the ClusterQueue use.
    available: how much more quota they could use, with borrowing; negative if they use more than there is.
    """

    flavor: str
    resource: str
    asked: int
    nominal: int
    used: int
    available: int


class Decision(Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """One decision about a job.

    job, uid: the job, as `Subject` has it.
    queue: its ClusterQueue.
    rule: the rule that decided, in the words of conditions: `WaitingForQuota`, `InCohortReclamation`.
    because: the reason as a sentence; "" where the rule and the numbers say it all.
    waited: for how many seconds the job had waited for this.
    priority: the priority of the job.
    others: the victims of a preemption, or the job for which this one was preempted or waits.
    others_in_all: how many others there are, if not all of them are recorded.
    nodes: how many of its pods go to each node.
    nodes_in_all: to how many nodes, if not all of them are recorded.
    pods: how many pods the decision is about; the new size of an elastic job.
    pods_before: its size before.
    clusters: the worker clusters.
    attempt: the number of the restart.
    """

    at: datetime
    what: What
    job: str
    uid: str = ""
    queue: str = ""
    rule: str = ""
    because: str = ""
    waited: float | None = None
    priority: int | None = None
    amounts: tuple[Amount, ...] = ()
    others: tuple[Other, ...] = ()
    others_in_all: int | None = None
    nodes: dict[str, int] = {}
    nodes_in_all: int | None = None
    pods: int | None = None
    pods_before: int | None = None
    clusters: tuple[str, ...] = ()
    attempt: int | None = None

    @property
    def namespace(self) -> str:
        """The namespace of the job."""
        return self.job.partition("/")[0]

    @property
    def name(self) -> str:
        """The name of the job."""
        return self.job.partition("/")[2]


class Decisions(Struct, frozen=True):
    """A page of decisions, the newest first.

    more: the position of the next page, for the parameter `before`; 0 on the last page.
    """

    items: tuple[Decision, ...] = ()
    more: int = 0


def without_foreign_jobs(decision: Decision, namespace: str) -> Decision:
    """Return a decision without the names of jobs in other namespaces, for a user who may list only this one."""
    if all(other.job.partition("/")[0] in ("", namespace) for other in decision.others):
        return decision
    others = tuple(
        other if other.job.partition("/")[0] == namespace else replace(other, job="", uid="")
        for other in decision.others
    )
    return replace(decision, others=others)
