"""The data model of scenarios: the cluster, the submitted work, and the assertions on the outcome.

A scenario is a YAML file of the kind `Scenario`. Queues, flavors, nodes and jobs in it are ordinary manifests.
"""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec

API_VERSION = "muster.dev/v1alpha1"
KIND = "Scenario"


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """A part of a scenario's document. Decoding fails for unknown fields."""


class Meta(Part, frozen=True):
    """The metadata of a scenario: its name."""

    name: str


class Range(Part, frozen=True):
    """A uniform distribution of values between `low` and `high`."""

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
    """The distribution of a value. Exactly one field is set.

    empirical: a file with one value per line, all equally likely.
    """

    constant: str | float | None = None
    uniform: Range | None = None
    exponential: Exponential | None = None
    lognormal: Lognormal | None = None
    empirical: str | None = None


Value = str | float | Distribution
"""A value of a scenario: the same one always, or drawn anew for each job."""


class Poisson(Part, frozen=True):
    """Random, independent arrivals (Poisson).

    every: the mean interval between two arrivals.
    """

    every: str | float


class Regular(Part, frozen=True):
    """Arrivals at regular intervals.

    every: the interval between two arrivals.
    """

    every: str | float


class Burst(Part, frozen=True):
    """Arrivals of several jobs at the same time.

    at: the times of the bursts.
    count: the number of jobs in each burst.
    """

    at: tuple[str | float, ...]
    count: int


class Weekly(Part, frozen=True):
    """Random, independent arrivals with a rate that depends on the hour and the day.

    every: the mean interval between two arrivals, over the week.
    hours: 24 weights, from midnight.
    days: 7 weights, from Monday.
    """

    every: str | float
    hours: tuple[float, ...] = (1.0,) * 24
    days: tuple[float, ...] = (1.0,) * 7


class Arrivals(Part, frozen=True):
    """The times at which jobs are submitted. Exactly one field is set.

    uniform: regular intervals.
    """

    poisson: Poisson | None = None
    uniform: Regular | None = None
    burst: Burst | None = None
    weekly: Weekly | None = None


class ComputedColumn(Part, frozen=True):
    """A value that is computed from the columns of a table: `(column - minus) * times / per`, in a unit.

    times, per: a column or a number.
    unit: for times ms, s, m, h or d; for amounts a Kubernetes suffix (m, Mi, Gi).
    values: the numbers that stand for words.
    separator: for a label, the text between the values in a cell, each of which is acceptable.
    key: in a cell such as `cpu=4,gres/gpu=2`, the key of the value to use.
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

    submit: the time of submission, as a number of seconds, or as a date and time.
    limit: the requested time limit.
    pods: the number of pods; 1 without a column.
    gang: the number of pods with which a job may start; by default all of them.
    requests: the requests of each pod, by resource.
    node_selector: the required values of node labels, by label.
    id: the suffix of the job's name.
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
    """The columns of a table of nodes.

    allocatable: the allocatable amounts of a node, by resource.
    labels: the labels of a node, by name.
    """

    name: Cell | None = None
    allocatable: dict[str, Cell] | None = None
    labels: dict[str, Cell] | None = None


class Trace(Part, frozen=True):
    """A log of jobs that ran.

    file: the path of the log, relative to the scenario.
    format: `swf`, `csv`, or one of `logs.formats`; by default, the format for the name of the file.
    columns: the columns of a table; for a known format, only those that differ.
    header: the names of the columns, if the file has no header line.
    start: the time of the log at which the scenario starts; by default, the submission of the first job.
    speed: the factor by which jobs arrive faster than in the log: 1.2 for 20 % more jobs in the same time.
    queues: the LocalQueue for each queue of the log; other jobs go to the `queue` of the work.
    limits: the time limits of the jobs: those in the log, or exactly their run times, or none.
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
    """How a job writes checkpoints.

    every: the work between two checkpoints.
    cost: the time that writing a checkpoint takes.
    """

    every: str | float
    cost: str | float = 0


class Work(Part, frozen=True):
    """Jobs from one source.

    name: the name of the source, and the prefix of its jobs' names.
    template: the manifest of a Job or JobSet. With a trace, its pod represents one processor; if the trace records the
    requests of pods, no template is needed.
    queue: the LocalQueue, as `name` or `namespace/name`; by default, the queue in the template.
    arrivals, count: the times at which jobs arrive, and their maximum number.
    trace: a log that defines arrivals, run times and sizes instead.
    history: a log like `trace`, from `muster history -o jsonl`.
    run_time: the run time of a job, from when its pods have started.
    limit: the time limit of a job, on which backfill relies; by default, the limit in the template.
    size: the number of concurrent pods, instead of the template's; for a JobSet, the replicas of its first role.
    priority: the priority, instead of the priority of the template's class.
    checkpoint: how its jobs write checkpoints; without it, an interrupted job restarts from the beginning.
    startup: the time from when all pods have a node until they are ready; run_time starts then.
    pod_group: the manifest of a PodGroup for each of its jobs, which defines how close together its pods run.
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

    file: the path of the output of `muster snapshot`, relative to the scenario.
    remaining: the remaining run time of running jobs.
    run_time: the run time of waiting jobs.

    By default, a job runs for the time that its user expects, or until its time limit.
    """

    file: str
    remaining: Value | None = None
    run_time: Value | None = None


class NodePool(Part, frozen=True):
    """Equal nodes, made from a template or a table.

    template: a Node manifest. The name of each node is the pool's name and a number.
    count: the number of nodes at the start.
    like: instead of a template, the name of a Node in the manifests or in the state, which the pool's nodes copy.
    file: a table of nodes instead, with format and columns as in a trace; `template` then contains the common fields.
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
    """An interval in which the manager cannot connect to a worker cluster, whose jobs continue.

    lasts: the duration; by default, no end.
    """

    at: str | float
    lasts: str | float | None = msgspec.field(default=None, name="for")


class WorkerCluster(Part, frozen=True):
    """One or several equal clusters that run jobs of the manager.

    name: the name of its MultiKueueCluster; with several clusters, the prefix before their numbers.
    count: the number of clusters.
    manifests: its queues, flavors and nodes, as manifests or as paths of files relative to the scenario.
    nodes: its pools of nodes.
    lost: the intervals in which the manager cannot connect to it.
    """

    name: str
    count: int | None = None
    manifests: tuple[str | dict[str, Any], ...] = ()
    nodes: tuple[NodePool, ...] = ()
    lost: tuple[Loss, ...] = ()


class NodeChoice(Part, frozen=True):
    """A selection of the nodes that match all set fields. A scenario must set at least one field.

    nodes: the names of the nodes.
    pool: the name of a pool.
    labels: labels that the nodes have.
    """

    nodes: tuple[str, ...] = ()
    pool: str = ""
    labels: dict[str, str] = {}


class Outage(NodeChoice, frozen=True):
    """Nodes that are unusable for a time.

    count: the number of selected nodes, drawn at random; by default, all.
    lasts: the duration; by default, no end.
    """

    count: int | None = None
    lasts: Value | None = msgspec.field(name="for", default=None)


class Failures(NodeChoice, frozen=True, kw_only=True):
    """Nodes that fail at random, independently of each other.

    mtbf: the mean time between the repair of a node and its next failure.
    mttr: the mean time until a failed node works again.
    """

    mtbf: str | float
    mttr: str | float


class Scaling(Part, frozen=True):
    """A new size of a pool of nodes. The nodes with the highest numbers are removed or added."""

    pool: str
    count: int


class PlannedQuotaChange(Part, frozen=True):
    """New quotas of a ClusterQueue or Cohort, by resource.

    flavor: the flavor whose quotas change; by default, the only flavor with the resource.
    """

    cluster_queue: str = ""
    cohort: str = ""
    flavor: str = ""
    nominal_quota: dict[str, str | int | float] = {}
    borrowing_limit: dict[str, str | int | float] = {}
    lending_limit: dict[str, str | int | float] = {}


class QueueStop(Part, frozen=True):
    """The stop of a queue, or its release with the policy `None`.

    lasts: the time until its release; by default, never.
    """

    cluster_queue: str = ""
    local_queue: str = ""
    policy: Literal["None", "Hold", "HoldAndDrain"] = "Hold"
    lasts: str | float | None = msgspec.field(name="for", default=None)


class EngineRestart(Part, frozen=True):
    """A restart of the engine.

    lasts: the time between its stop and its start, in which no decisions are made.
    """

    lasts: str | float = msgspec.field(name="for")


class ClusterChange(Part, frozen=True):
    """A change of the cluster. Exactly one of the fields after the first two is set.

    at: the times of the change.
    arrivals: random or regular times of the change, instead of `at`.
    lose: nodes fail, and their pods are interrupted.
    fail: nodes fail and recover at random.
    cordon: nodes accept no new pods.
    drain: nodes accept no new pods, and their pods are interrupted.
    scale: a pool grows or shrinks.
    quota: quotas change.
    stop: a queue is stopped or released.
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
    """The differences of a variant from its scenario.

    spec: merged into the spec of the scenario.
    manifests: merged into the manifests of the same kind and name.
    settings: values by path, such as `clusterQueues.team-a.nominalQuota.cpu`.
    """

    name: str
    spec: dict[str, Any] = {}
    manifests: tuple[dict[str, Any], ...] = ()
    settings: dict[str, Any] = msgspec.field(default={}, name="set")


class Spec(Part, frozen=True):
    """The spec of a scenario.

    seed: the seed of all random draws.
    start: the date and time at which the simulation starts.
    state: the state of a cluster from which the simulation starts, at the time of that state.
    until: the latest end; by default, the end of all work.
    manifests: paths, relative to the scenario, of files with queues, flavors, classes and nodes; these manifests may
    also follow the scenario in its file.
    clusters: the worker clusters to which its queues dispatch jobs with MultiKueue.
    changes: failures, and changes by administrators, during the simulation.
    assertions: the conditions on the outcome, such as `p99(wait, queue=prod) < 30m`.
    forecasts: the waiting jobs whose start is forecast when they arrive; with `some`, as many as cost a limited share
    of the computing time.
    variants: the variants to compare the scenario with.
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
