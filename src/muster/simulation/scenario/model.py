"""Define scenarios: what cluster there is, what work comes, and what is asserted of the outcome.

A scenario is a YAML file of the kind `Scenario`. Queues, flavors, nodes and jobs in it are ordinary manifests.
"""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec

API_VERSION = "muster.dev/v1alpha1"
KIND = "Scenario"


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """A part of a scenario. A field that it does not have is an error."""


class Meta(Part, frozen=True):
    """The name of a scenario."""

    name: str


class Range(Part, frozen=True):
    """Values between two, all equally likely."""

    low: str | float = msgspec.field(name="from")
    high: str | float = msgspec.field(name="to")


class Exponential(Part, frozen=True):
    """Values of an exponential distribution."""

    mean: str | float


class Lognormal(Part, frozen=True):
    """Values whose logarithm is normally distributed. sigma: the standard deviation of the logarithm."""

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
    """Independent arrivals. every: the mean time between two."""

    every: str | float


class Regular(Part, frozen=True):
    """Arrivals at equal distances."""

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
    """The times at which jobs are submitted; exactly one field is set."""

    poisson: Poisson | None = None
    uniform: Regular | None = None
    burst: Burst | None = None
    weekly: Weekly | None = None


class Trace(Part, frozen=True):
    """A log of jobs that ran. file: beside the scenario. format: `swf`.

    template: a Job whose pod stands for one processor of the log.
    queues: the LocalQueue of each queue number of the log; other jobs go to the `queue` of the work.
    limits: the time limits of its jobs: those that the log has, or exactly their run times, or none.
    """

    file: str
    format: Literal["swf"] = "swf"
    queues: dict[str, str] = {}
    limits: Literal["logged", "exact", "none"] = "logged"


class Work(Part, frozen=True):
    """Jobs that come from one source.

    name: the name of the source, which begins the names of its jobs.
    template: the manifest of a Job or JobSet. For a trace: of a Job with the pod that stands for one processor.
    queue: the LocalQueue, as `name` or `namespace/name`; by default, the queue that the template names.
    arrivals, count: when its jobs come, and how many of them at the most.
    trace: the log that gives arrivals, run times and sizes instead.
    run_time: how long a job runs once its pods have started.
    limit: the time after which a job is ended, which backfill counts on; by default, as the template says.
    size: how many pods run side by side, instead of the template's number; of a JobSet, the replicas of its first role.
    priority: the priority, instead of that of the template's class.
    """

    name: str
    template: dict[str, Any]
    queue: str = ""
    arrivals: Arrivals | None = None
    count: int | None = None
    trace: Trace | None = None
    run_time: Value | None = None
    limit: Value | None = None
    size: Value | None = None
    priority: Value | None = None


class NodePool(Part, frozen=True):
    """Nodes that are alike. template: a Node manifest, whose name is made of the pool's and a number."""

    name: str
    count: int
    template: dict[str, Any]


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
    until: when it ends at the latest; by default, when all work has ended.
    manifests: files beside the scenario with queues, flavors, classes and nodes; they may also follow it in its file.
    assertions: what must hold of the outcome, such as `p99(wait, queue=prod) < 30m`.
    variants: what the scenario is compared with.
    """

    seed: int = 1
    start: Annotated[datetime, msgspec.Meta(tz=True)] = datetime(2026, 1, 5, tzinfo=UTC)  # a Monday
    until: str | float | None = None
    manifests: tuple[str, ...] = ()
    nodes: tuple[NodePool, ...] = ()
    work: tuple[Work, ...] = ()
    assertions: tuple[str, ...] = msgspec.field(default=(), name="assert")
    variants: tuple[Variant, ...] = ()


class Scenario(Part, frozen=True):
    """A scenario."""

    api_version: str
    kind: str
    metadata: Meta
    spec: Spec
