"""Record the history of a simulation's jobs, as numbers in arrays, because there may be a million jobs."""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from math import inf, isnan, nan
from typing import Literal, TypeAlias, get_args, overload

from msgspec import Struct

from muster.simulation.outcome.fragmentation import FreeRooms
from muster.simulation.outcome.ledgers import CapacityLedger, QuotaLedger
from muster.simulation.outcome.nodelog import NodeLog
from muster.simulation.outcome.runs import Amounts, Runs


class JobOutcome(Struct, frozen=True):
    """The outcome of a job. Times are seconds from the start; None if the job did not get that far.

    queue: the name of its ClusterQueue; "" for none.
    pods: the number of its pods; for an elastic job, the submitted number.
    run_time: its run time without interruptions.
    started: its first start.
    evictions: how often it lost its quota.
    lost: the seconds of work that evictions and interruptions wasted, times its pods.
    wait: the seconds from its submission to its first start; for a job that still waits, the seconds so far.
    forecast: the wait that was forecast when it was submitted.
    cluster: the worker cluster of its last start; "" for none.
    interruptions: how often it lost nodes.
    interrupted: the part of `lost` that interruptions wasted.
    resizes: how often it shrank or grew while it ran.
    over_limit: whether its time limit ended it before its work was done.
    user: the short name of its user; for a job of a template, the name of its work.
    """

    name: str
    work: str
    queue: str
    pods: int
    priority: int
    submitted: float
    run_time: float
    started: float | None
    ended: float | None
    evictions: int
    lost: float
    wait: float
    forecast: float | None = None
    cluster: str = ""
    interruptions: int = 0
    interrupted: float = 0.0
    resizes: int = 0
    over_limit: bool = False
    user: str = ""


class Waiting(Struct, frozen=True):
    """A job that waits at the end of a simulation.

    name: the name of the job.
    why: the reason, as a sentence.
    never: whether it could not run even on an otherwise empty cluster.
    """

    name: str
    why: str
    never: bool


class QuotaChange(Struct, frozen=True):
    """A change of the quota that a queue uses.

    at: the time, in seconds from the start.
    amount: the increase; negative for a decrease.
    """

    at: float
    queue: str
    flavor: str
    resource: str
    amount: int


NodeState: TypeAlias = Literal["ready", "cordoned", "lost", "gone"]
NODE_STATES: tuple[NodeState, ...] = get_args(NodeState)


class NodeChange(Struct, frozen=True):
    """A change of a node.

    state: the new state of the node.
    """

    at: float
    node: str
    state: NodeState


class JobColumns(Struct, frozen=True):
    """Some fields of all jobs, as arrays.

    queues: the numbers of the jobs' queues.
    ended: the end times; NaN for a job that has not ended.
    """

    queues: "array[int]"
    pods: "array[int]"
    submitted: "array[float]"
    run_times: "array[float]"
    ended: "array[float]"


class QuotaChanges(Sequence[QuotaChange]):
    """All changes of used quota, in order. They are stored in arrays, and objects are made on access.

    times, queues, resources, amounts: arrays with one entry per change; queues and resources are numbers.
    """

    def __init__(
        self,
        times: "array[float]",
        queues: "array[int]",
        resources: "array[int]",
        amounts: "array[int]",
        queue_names: Sequence[str],
        resource_names: Sequence[tuple[str, str]],
    ) -> None:
        self.times, self.queues, self.resources, self.amounts = times, queues, resources, amounts
        self.queue_names = queue_names
        self.resource_names = resource_names

    def __len__(self) -> int:
        return len(self.times)

    def __iter__(self) -> Iterator[QuotaChange]:
        columns = zip(self.times, self.queues, self.resources, self.amounts, strict=True)
        for at, queue, resource, amount in columns:
            yield QuotaChange(at, self.queue_names[queue], *self.resource_names[resource], amount)

    @overload
    def __getitem__(self, index: int) -> QuotaChange: ...
    @overload
    def __getitem__(self, index: slice) -> list[QuotaChange]: ...
    def __getitem__(self, index: int | slice) -> QuotaChange | list[QuotaChange]:
        if isinstance(index, slice):
            return [self[number] for number in range(len(self))[index]]
        queue, resource = self.queues[index], self.resources[index]
        names = self.queue_names[queue], *self.resource_names[resource]
        return QuotaChange(self.times[index], *names, self.amounts[index])


class SimulationRecord:
    """The outcomes of all jobs, by number, and all changes of used quota.

    works: the names of the sources of work.
    now: the time that the simulation has reached.
    runs: the runs of jobs.
    nodes: the stays of jobs on nodes, in a small cluster.
    rooms: the samples of free room on nodes.
    quotas, capacity: the quotas of queues and the capacity of nodes, over time.
    """

    def __init__(self, works: Sequence[str]) -> None:
        self.works = tuple(works)
        self.now = 0.0
        self.names: list[str] = []
        self.moves = 0  # the number of submissions, and of starts of jobs whose pods will be ready in time
        self.ended = 0  # the number of jobs that have ended
        self.until = inf  # the latest end of the simulation
        self.expected = inf  # the number of jobs that will have been submitted at the end
        self.runs = Runs()
        self.nodes = NodeLog()
        self.rooms = FreeRooms()
        self.quotas = QuotaLedger()
        self.capacity = CapacityLedger()
        self._queues: dict[str, int] = {"": 0}
        self._users: dict[str, int] = {"": 0}
        self._clusters: dict[str, int] = {"": 0}
        self._cluster = array("i")
        self._resources: dict[tuple[str, str], int] = {}
        self._work, self._queue, self._pods = array("i"), array("i"), array("q")
        self._user = array("i")
        self._priority, self._evictions = array("q"), array("i")
        self._submitted, self._run_time = array("d"), array("d")
        self._started, self._ended, self._lost = array("d"), array("d"), array("d")
        self._forecast = array("d")
        self._interruptions, self._interrupted = array("i"), array("d")
        self._resizes, self._over_limit = array("i"), array("b")
        self._nodes: dict[str, int] = {}
        self._node_at, self._node, self._node_state = array("d"), array("i"), array("b")
        self._change_at, self._change_of = array("d"), array("q")
        self._change_queue, self._change_resource = array("i"), array("i")

    def __len__(self) -> int:
        return len(self.names)

    def submit(
        self,
        name: str,
        work: int,
        queue: str,
        pods: int,
        priority: int,
        at: float,
        run_time: float,
        user: str = "",
    ) -> int:
        """Add a submitted job that has not started to the record; return its number.

        work: the number of the source of work.
        at: the time of submission, in seconds from the start.
        run_time: the seconds that the job runs without interruptions.
        user: "" if the job has no user.
        """
        self.moves += 1
        self.names.append(name)
        self._work.append(work)
        self._queue.append(self._queues.setdefault(queue, len(self._queues)))
        self._user.append(self._users.setdefault(user, len(self._users)))
        self._pods.append(pods)
        self._priority.append(priority)
        self._evictions.append(0)
        self._submitted.append(at)
        self._run_time.append(run_time)
        self._started.append(nan)
        self._ended.append(nan)
        self._lost.append(0.0)
        self._forecast.append(nan)
        self._cluster.append(0)
        self._interruptions.append(0)
        self._interrupted.append(0.0)
        self._resizes.append(0)
        self._over_limit.append(False)
        return len(self.names) - 1

    def start(
        self,
        job: int,
        at: float,
        demand: Amounts = (),
        nodes: Mapping[str, int] | None = None,
        pods: int | None = None,
        *,
        is_late: bool = False,
    ) -> None:
        """Record that a job starts. Only its first start counts for its wait.

        demand: the amounts that it requests from the cluster.
        nodes: the number of its pods on each node; None if that is unknown.
        pods: the number of pods with which it starts; None for all.
        is_late: whether the job will be evicted before its pods are ready.
        """
        self.moves += not is_late
        self.runs.start(job, at, demand, self._pods[job] if pods is None else pods, is_late=is_late)
        if nodes:
            self.nodes.start(job, nodes, at)
        if isnan(self._started[job]):
            self._started[job] = at

    def resize(self, job: int, demand: Amounts, nodes: Mapping[str, int] | None, pods: int) -> None:
        """Record that a job now continues with another number of pods.

        demand, nodes: as in `start`.
        """
        self._resizes[job] += 1
        self.runs.end(job, self.now)
        self.nodes.end(job, self.now)
        self.runs.start(job, self.now, demand, pods, continued=True)
        if nodes:
            self.nodes.start(job, nodes, self.now)

    def locate(self, job: int, cluster: str) -> None:
        """Record which worker cluster runs a job."""
        self._cluster[job] = self._clusters.setdefault(cluster, len(self._clusters))

    def forecast(self, job: int, wait: float) -> None:
        """Record the wait that was forecast for a job when it was submitted."""
        self._forecast[job] = wait

    def end(self, job: int, at: float, *, over_limit: bool = False) -> None:
        """Record the end of a job, which also ends its run and its stays on nodes.

        over_limit: whether its time limit ends it before its work is done.
        """
        self._ended[job] = at
        self._over_limit[job] = over_limit
        self.ended += 1
        self.runs.end(job, at)
        self.nodes.end(job, at)

    def evict(self, job: int, lost: float) -> None:
        """Record that a job is evicted now.

        lost: the seconds of work that each of its pods loses.
        """
        self._evictions[job] += 1
        self._lost[job] += lost * self._pods[job]
        self.runs.end(job, self.now, lost=lost)
        self.nodes.end(job, self.now)

    def interrupt(self, job: int, lost: float) -> None:
        """Record that a job loses nodes now.

        lost: the seconds of work that each of its pods loses.
        """
        self._interruptions[job] += 1
        self._lost[job] += lost * self._pods[job]
        self._interrupted[job] += lost * self._pods[job]
        self.runs.end(job, self.now, lost=lost, interrupted=True)
        self.nodes.end(job, self.now)

    def change_node(self, node: str, state: NodeState) -> None:
        """Record that the state of a node changes now."""
        self._node_at.append(self.now)
        self._node.append(self._nodes.setdefault(node, len(self._nodes)))
        self._node_state.append(NODE_STATES.index(state))

    def change(self, at: float, queue: str, flavor: str, resource: str, amount: int) -> None:
        """Record that a queue uses `amount` more of a flavor's resource from `at` on; less if it is negative.

        at: in seconds from the start.
        """
        self._change_at.append(at)
        self._change_of.append(amount)
        self._change_queue.append(self._queues.setdefault(queue, len(self._queues)))
        self._change_resource.append(self._resources.setdefault((flavor, resource), len(self._resources)))

    @property
    def queues(self) -> tuple[str, ...]:
        """The names of the jobs' ClusterQueues, by number."""
        return tuple(self._queues)

    @property
    def users(self) -> tuple[str, ...]:
        """The names of the jobs' users, by number."""
        return tuple(self._users)

    def list_priorities(self) -> set[int]:
        """Return the priorities of the jobs."""
        return set(self._priority)

    def columns(self) -> JobColumns:
        """Return the fields of all jobs that the timeline needs, as arrays."""
        return JobColumns(self._queue, self._pods, self._submitted, self._run_time, self._ended)

    def jobs(self) -> Iterator[JobOutcome]:
        """Yield the outcome of each job so far, in order of submission.

        The wait of a job that has not started counts until now.
        """
        queues, clusters, users = list(self._queues), list(self._clusters), list(self._users)
        for job, name in enumerate(self.names):
            submitted, started, ended = self._submitted[job], self._started[job], self._ended[job]
            yield JobOutcome(
                name,
                self.works[self._work[job]],
                queues[self._queue[job]],
                self._pods[job],
                self._priority[job],
                submitted,
                self._run_time[job],
                None if isnan(started) else started,
                None if isnan(ended) else ended,
                self._evictions[job],
                self._lost[job],
                (self.now if isnan(started) else started) - submitted,
                None if isnan(self._forecast[job]) else self._forecast[job],
                clusters[self._cluster[job]],
                self._interruptions[job],
                self._interrupted[job],
                self._resizes[job],
                bool(self._over_limit[job]),
                users[self._user[job]],
            )

    def node_changes(self) -> Iterator[NodeChange]:
        """Yield the changes of nodes, in order; none for a node that never changes."""
        nodes = list(self._nodes)
        for at, node, state in zip(self._node_at, self._node, self._node_state, strict=True):
            yield NodeChange(at, nodes[node], NODE_STATES[state])

    def changes(self) -> QuotaChanges:
        """Return the changes of used quota, in order."""
        columns = self._change_at, self._change_queue, self._change_resource, self._change_of
        return QuotaChanges(*columns, tuple(self._queues), tuple(self._resources))
