"""Define scenarios: what cluster there is, what work comes, and what is asserted of the outcome.

A scenario is a YAML file of the kind `Scenario`. Queues, flavors, nodes and jobs in it are ordinary manifests.
"""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec

API_VERSION = "muster.dev/v1alpha1"
KIND = "Scenario"


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """A part of a scenario's document. Reading fails for a field that the part does not have."""


class Meta(Part, frozen=True):
    """The metadata of a scenario: its name."""

    name: str


class Range(Part, frozen=True):
    """A distribution of values between `low` and `high`, all equally likely."""

    low: str | float = msgspec.field(name="from")
    high: str | float = msgspec.field(name="to")


class Exponential(Part, frozen=True):
    """An exponential distribution of values with this mean."""

    mean: str | float


class Lognormal(Part, frozen=True):
    """A lognormal distribution: the logarithm of values is normally distributed.

    sigma: the standard deviation of the logarithm.
    """

    median: str | float
    sigma: float


class Distribution(Part, frozen=True):
    """The distribution of a value; exactly one field is set.

    empirical: a file with one value in each line, all equally likely.
    """

    constant: str | float | None = None
    uniform: Range | None = None
    exponential: Exponential | None = None
    lognormal: Lognormal | None = None
    empirical: str | None = None


Value = str | float | Distribution
"""A value of a scenario: the same one always, or drawn anew for each job."""


class Poisson(Part, frozen=True):
    """Random arrivals that do not depend on each other (Poisson). every: the mean time between two."""

    every: str | float


class Regular(Part, frozen=True):
    """Arrivals at regular intervals. every: the time between two."""

    every: str | float


class Burst(Part, frozen=True):
    """Arrivals of many jobs at once. at: the times. count: how many jobs come each time."""

    at: tuple[str | float, ...]
    count: int


class Weekly(Part, frozen=True):
    """Independent arrivals whose rate follows the hour and the day.

    every: the mean time between two, over the week. hours: 24 weights, from midnight. days: 7 weights, from Monday.
    """

    every: str | float
    hours: tuple[float, ...] = (1.0,) * 24
    days: tuple[float, ...] = (1.0,) * 7


class Arrivals(Part, frozen=True):
    """The times at which jobs are submitted; exactly one field is set. uniform: at regular intervals."""

    poisson: Poisson | None = None
    uniform: Regular | None = None
    burst: Burst | None = None
    weekly: Weekly | None = None


class ComputedColumn(Part, frozen=True):
    """A value that is computed from the columns of a table: `(column - minus) * times / per`, in a unit.

    times, per: a column or a number. unit: of times ms, s, m, h or d; of amounts a suffix of Kubernetes (m, Mi, Gi).
    values: numbers for words. separator: what separates alternatives. key: of a cell such as `cpu=4,gres/gpu=2`, which
    of its values.
    """

    column: str
    minus: str | None = None
    times: str | float | None = None
    per: str | float | None = None
    unit: str = ""
    values: dict[str, float] = {}
    separator: str = ""
    key: str = ""


Cell = str | ComputedColumn
"""A column of a table, by its name, or a value that is computed from columns."""


class JobColumns(Part, frozen=True):
    """The columns of a table of jobs.

    submit: a number of seconds, or a date and time. limit: the requested time. pods: 1 if no column says it.
    gang: with how many pods a job may start; by default, with all. requests: what each pod requests, by resource.
    node_selector: what the labels of its nodes must be, by label. id: what the name of a job ends with.
    """

    submit: Cell | None = None
    run_time: Cell | None = None
    limit: Cell | None = None
    pods: Cell | None = None
    gang: Cell | None = None
    requests: dict[str, Cell] | None = None
    node_selector: dict[str, Cell] | None = None
    queue: Cell | None = None
    user: Cell | None = None
    priority: Cell | None = None
    id: Cell | None = None


class NodeColumns(Part, frozen=True):
    """The columns of a table of nodes. allocatable: what a node has, by resource. labels: by name."""

    name: Cell | None = None
    allocatable: dict[str, Cell] | None = None
    labels: dict[str, Cell] | None = None


class Trace(Part, frozen=True):
    """A log of jobs that ran.

    file: beside the scenario.
    format: `swf`, `csv`, or one of `logs.formats`; by default, what the name of the file says.
    columns: of a table; of a known format, those that differ. header: the names of the columns, where no line has them.
    start: the time of the log at which the scenario starts; by default, that of the first job.
    speed: how much faster its jobs come than they did: 1.2 for 20 % more of them at a time.
    queues: the LocalQueue of each queue of the log; other jobs go to the `queue` of the work.
    limits: the time limits of its jobs: those that the log has, or exactly their run times, or none.
    """

    file: str
    format: str = ""
    columns: JobColumns = JobColumns()
    header: tuple[str, ...] = ()
    start: str | float | None = None
    speed: float = 1.0
    queues: dict[str, str] = {}
    limits: Literal["logged", "exact", "none"] = "logged"


class Checkpoint(Part, frozen=True):
    """The way in which a job writes checkpoints.

    every: the work between two checkpoints. cost: how long writing one takes.
    """

    every: str | float
    cost: str | float = 0


class Work(Part, frozen=True):
    """Jobs that come from one source.

    name: the name of the source, which begins the names of its jobs.
    template: the manifest of a Job or JobSet. For a trace: of a Job with the pod that stands for one processor; a trace
    that says what pods request needs none.
    queue: the LocalQueue, as `name` or `namespace/name`; by default, the queue that the template names.
    arrivals, count: when its jobs come, and how many of them at the most.
    trace: the log that gives arrivals, run times and sizes instead. history: the same, of `muster history -o jsonl`.
    run_time: how long a job runs once its pods have started.
    limit: the time after which a job is ended, which backfill counts on; by default, as the template says.
    size: how many pods run side by side, instead of the template's number; of a JobSet, the replicas of its first role.
    priority: the priority, instead of that of the template's class.
    checkpoint: how its jobs keep what they have done; without it, an interrupted job starts from nothing.
    startup: how long its pods need to be ready once all have a node; run_time begins then.
    pod_group: the manifest of a PodGroup that each of its jobs has, which says how close to each other its pods run.
    """

    name: str = ""
    template: dict[str, Any] = {}
    queue: str = ""
    arrivals: Arrivals | None = None
    count: int | None = None
    trace: Trace | None = None
    history: str | None = None
    run_time: Value | None = None
    limit: Value | None = None
    size: Value | None = None
    priority: Value | None = None
    checkpoint: Checkpoint | None = None
    startup: Value | None = None
    pod_group: dict[str, Any] = {}


class State(Part, frozen=True):
    """The state of a cluster at the start of a scenario.

    file: the output of `muster snapshot`, beside the scenario. remaining: how long running jobs still run. run_time:
    how long waiting jobs will run. By default, a job runs as long as its user expects, or until its time limit.
    """

    file: str
    remaining: Value | None = None
    run_time: Value | None = None


class NodePool(Part, frozen=True):
    """Nodes that are alike, made from a template or a table.

    template: a Node manifest; each node's name is the pool's name and a number. count: how many there are at the start.
    like: the name of a Node of the manifests or of the state instead, which all nodes of the pool are like.
    file: a table of nodes instead, with its format and columns as of a trace; `template` is then what all of them have
    in common.
    """

    name: str = ""
    count: int = 1
    template: dict[str, Any] = {}
    like: str = ""
    file: str = ""
    format: str = "csv"
    columns: NodeColumns = NodeColumns()
    header: tuple[str, ...] = ()


class Loss(Part, frozen=True):
    """A time in which the manager cannot reach a worker cluster, whose jobs run on. lasts: by default, for ever."""

    at: str | float
    lasts: str | float | None = msgspec.field(default=None, name="for")


class WorkerCluster(Part, frozen=True):
    """A cluster that runs jobs of the manager, or several that are alike.

    name: the name of its MultiKueueCluster; of several, what comes before their numbers. count: how many there are.
    manifests: its queues, flavors and nodes: manifests, or files of them beside the scenario.
    nodes: its pools of nodes. lost: when the manager cannot reach it.
    """

    name: str
    count: int | None = None
    manifests: tuple[str | dict[str, Any], ...] = ()
    nodes: tuple[NodePool, ...] = ()
    lost: tuple[Loss, ...] = ()


class NodeChoice(Part, frozen=True):
    """A selection of nodes: those that match all fields that are set; all nodes if none is.

    nodes: their names. pool: the name of a pool. labels: labels that they have.
    """

    nodes: tuple[str, ...] = ()
    pool: str = ""
    labels: dict[str, str] = {}


class Outage(NodeChoice, frozen=True):
    """Nodes that are out of use for a time.

    count: how many of the selected nodes, drawn at random; by default, all. lasts: for how long; by default, for ever.
    """

    count: int | None = None
    lasts: Value | None = msgspec.field(name="for", default=None)


class Failures(NodeChoice, frozen=True, kw_only=True):
    """Nodes that break at random, each by itself.

    mtbf: the mean time until a node breaks. mttr: the mean time until it is back.
    """

    mtbf: str | float
    mttr: str | float


class Scaling(Part, frozen=True):
    """A new size of a pool of nodes. The nodes with the highest numbers are removed or added."""

    pool: str
    count: int


class PlannedQuotaChange(Part, frozen=True):
    """New quotas of a ClusterQueue or Cohort, by resource.

    flavor: the flavor whose quotas change; by default, the only one with the resource.
    """

    cluster_queue: str = ""
    cohort: str = ""
    flavor: str = ""
    nominal_quota: dict[str, str | float] = {}
    borrowing_limit: dict[str, str | float] = {}
    lending_limit: dict[str, str | float] = {}


class QueueStop(Part, frozen=True):
    """A queue that is stopped, or released by the policy `None`. lasts: when it is released; by default, never."""

    cluster_queue: str = ""
    local_queue: str = ""
    policy: Literal["None", "Hold", "HoldAndDrain"] = "Hold"
    lasts: str | float | None = msgspec.field(name="for", default=None)


class EngineRestart(Part, frozen=True):
    """A restart of the engine. lasts: the time between its stop and its start, in which nothing is decided."""

    lasts: str | float = msgspec.field(name="for")


class ClusterChange(Part, frozen=True):
    """A change of the cluster; exactly one of the fields after the first two is set.

    at: when. arrivals: when, instead, at random or regularly.
    lose: nodes break, and what runs on them is interrupted. fail: nodes break and come back at random.
    cordon: nodes take nothing new. drain: nodes take nothing new, and what runs on them is interrupted.
    scale: a pool grows or shrinks. quota: quotas change. stop: a queue is stopped or released.
    apply: the changed fields of a ClusterQueue, Cohort or LocalQueue, as a manifest.
    restart: the engine stops, and starts again.
    """

    at: str | float | tuple[str | float, ...] | None = None
    arrivals: Arrivals | None = None
    lose: Outage | None = None
    fail: Failures | None = None
    cordon: Outage | None = None
    drain: Outage | None = None
    scale: Scaling | None = None
    quota: PlannedQuotaChange | None = None
    stop: QueueStop | None = None
    apply: dict[str, Any] | None = None
    restart: EngineRestart | None = None


class Variant(Part, frozen=True):
    """What is different in a variant of a scenario.

    spec: is merged into the spec of the scenario. manifests: are merged into the manifests of the same kind and name.
    settings: values by path, such as `clusterQueues.team-a.nominalQuota.cpu`.
    """

    name: str
    spec: dict[str, Any] = {}
    manifests: tuple[dict[str, Any], ...] = ()
    settings: dict[str, Any] = msgspec.field(default={}, name="set")


class Spec(Part, frozen=True):
    """The body of a scenario.

    seed: the source of everything that is drawn. start: the time of day at which the simulation begins.
    state: the state of a cluster from which it begins, at the time of that state.
    until: when it ends at the latest; by default, when all work has ended.
    manifests: files beside the scenario with queues, flavors, classes and nodes; they may also follow it in its file.
    clusters: the worker clusters to which its queues send jobs by MultiKueue.
    changes: what breaks, and what administrators change, while the scenario is played.
    assertions: what must hold of the outcome, such as `p99(wait, queue=prod) < 30m`.
    forecasts: for which jobs that wait a start is forecast as they come; `some` costs a fixed share of the time.
    variants: what the scenario is compared with.
    """

    seed: int = 1
    start: Annotated[datetime, msgspec.Meta(tz=True)] = datetime(2026, 1, 5, tzinfo=UTC)  # a Monday
    state: str | State | None = None
    until: str | float | None = None
    manifests: tuple[str, ...] = ()
    nodes: tuple[NodePool, ...] = ()
    work: tuple[Work, ...] = ()
    clusters: tuple[WorkerCluster, ...] = ()
    changes: tuple[ClusterChange, ...] = ()
    assertions: tuple[str, ...] = msgspec.field(default=(), name="assert")
    forecasts: Literal["all", "some", "none"] = "some"
    variants: tuple[Variant, ...] = ()


class Scenario(Part, frozen=True):
    """A scenario: the document that a user writes."""

    api_version: str
    kind: str
    metadata: Meta
    spec: Spec
