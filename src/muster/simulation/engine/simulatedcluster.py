"""The state of a cluster in virtual time: queues, quota, nodes and jobs, and their record. It makes no decisions."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial

from msgspec.structs import replace

from muster.api.config import Configuration
from muster.api.ours.decisions import Decision, Subject, What
from muster.api.values import durations
from muster.charts.scales import format_span
from muster.controllers.decisionlog import DecisionLog
from muster.insight.forecasts.forecast import build_quota_tree
from muster.queueing import convert
from muster.queueing.convert import list_flavors
from muster.queueing.model import PendingReason, WorkloadInfo
from muster.queueing.scheduling import cycle
from muster.runtime.objects import key_of
from muster.simulation.engine.agenda import EventAgenda
from muster.simulation.engine.changing.changes import Changes
from muster.simulation.engine.changing.definitions import Definitions
from muster.simulation.engine.checkpoints import Checkpoints
from muster.simulation.engine.explaining import drop_places, explain_wait
from muster.simulation.engine.forecasting import Forecaster
from muster.simulation.engine.job import SimulatedJob
from muster.simulation.engine.nodes.asking import AskMaker
from muster.simulation.engine.nodes.freeroom import measure_rooms, sum_capacity
from muster.simulation.engine.nodes.machines import Machines
from muster.simulation.engine.pastuse import PastUse
from muster.simulation.engine.readiness import ReadinessWatch, TimeOuts
from muster.simulation.engine.site import JobTemplate, Site
from muster.simulation.engine.templates import Templates
from muster.simulation.outcome.nodelog import MOST_NODES
from muster.simulation.outcome.record import SimulationRecord, Waiting
from muster.simulation.scenario.model import Spec


class SimulatedCluster(ABC):
    """A cluster in virtual time. Times are seconds from the start of the scenario.

    record: the history of the jobs so far. The record and the agenda belong to a `World`, which clusters share.
    """

    def __init__(
        self,
        spec: Spec,
        site: Site,
        configuration: Configuration,
        agenda: EventAgenda,
        record: SimulationRecord,
        checkpoints: Sequence[Checkpoints | None] = (),
        decisions: DecisionLog | None = None,
        scope: str = "",
    ) -> None:
        """Start without jobs.

        checkpoints: how the jobs of each source of work write checkpoints, by the source's index.
        decisions: the log to which each decision is added; None for no log.
        scope: the prefix of this cluster's queues and nodes in the record.
        """
        self.record = record
        self._agenda = agenda
        self._scope = scope
        self._start = spec.start
        self._reading = convert.ConversionSettings.of(configuration)
        self._local = {key_of(one): one.spec.cluster_queue for one in site.local_queues}
        self._tree = build_quota_tree(site.cluster_queues, site.cohorts)
        self._flavors = list_flavors(site.flavors, site.topologies, topology=self._reading.topology)
        self._tree.ledger.in_use = any(flavor.levels for flavor in self._flavors.values())
        if self._tree.ledger.in_use:
            for one in site.nodes:
                self._tree.ledger.set_node(one)
        self._definitions = Definitions(site, self._tree, self._flavors)
        self._queues = self._definitions.make_queues()
        self._past = PastUse(configuration, site.local_queues, self._tree, agenda, spec.start)
        self._past.follow(self._queues)
        self._configuration = configuration
        templates = [site.templates[work.name] for work in spec.work]
        self._time_outs = TimeOuts(
            configuration.wait_for_pods_ready,
            site.cluster_queues,
            site.flavors,
            [template.workload.metadata.annotations for template in templates],
        )
        self._settings = cycle.AdmissionSettings(
            fair=self._definitions.find_fairness(configuration),
            blocking=self._time_outs.blocking,
            ignore_undeclared=configuration.resources.quota_check_strategy == "IgnoreUndeclared",
            past=self._queues.usage,
        )
        overtakings = configuration.muster.scheduling.overtakings
        least = configuration.muster.scheduling.minimum_run_time / durations.SECOND
        self._asks = AskMaker(site.nodes, self._flavors, least)
        self._retry_at: float | None = None
        self._machines = (
            Machines(site.nodes, overtakings, self._tree.ledger, self._flush_places, lambda: bool(self._elastic))
            if site.nodes or spec.nodes
            else None
        )
        self._readiness = ReadinessWatch(self._time_outs, agenda, self._start, self._note_ready, self._requeue)
        self._ready = False  # whether pods became ready since the last cycle
        self._wake_at: datetime | None = None  # the end of the next backoff after an eviction
        self._decisions = decisions
        if self._machines is not None and decisions is not None:
            self._machines.record(decisions)
        self._draws_nodes = len(site.nodes) <= MOST_NODES
        for one in site.nodes if self._draws_nodes else ():
            self.record.nodes.add_node(self._scope + one.metadata.name)
        self._jobs: dict[str, SimulatedJob] = {}  # the jobs that have not ended, by key
        self._elastic: dict[str, SimulatedJob] = {}  # the elastic jobs among them
        self._short: dict[str, bool] = {}  # jobs that lack quota since the last resizes; whether victims were spared
        self._waited_in_vain: set[str] = set()  # jobs for which elastic jobs should have shrunk, but did not
        self._growths: dict[str, None] = {}  # growth requests that wait for quota at this time, by key
        self._forecaster = Forecaster(spec.forecasts, self._flavors, self._jobs)
        self._templates = Templates(templates, self._convert)
        self._checkpoints = checkpoints
        self.changes: Changes | None = None
        self._unplaced: dict[str, SimulatedJob] = {}  # jobs that request nodes after the changes at this time, by key
        self._deciding = True  # whether the engine runs
        self._late: list[tuple[str, datetime | None]] = []  # jobs to requeue when the engine runs again
        self._note_quotas()
        self.note_capacity()

    @property
    def machines(self) -> Machines | None:
        """The nodes; None if the simulation has only quotas."""
        return self._machines

    def count_jobs(self) -> int:
        """Return the number of waiting and running jobs."""
        return len(self._jobs)

    @property
    def is_busy(self) -> bool:
        """Whether a job waits or runs."""
        return bool(self._jobs)

    def list_waiting(self) -> Iterator[Waiting]:
        """Yield each job that does not run, or whose pods are never ready in time, with the reason."""
        lacking: dict[Hashable, str] = {}  # why these pods never get nodes; many jobs may have such pods
        for job in self._jobs.values():
            if lateness := self._explain_lateness(job):
                yield Waiting(job.submission.name, lateness, never=True)
            elif job.started is None:
                yield self._explain(job, lacking)

    def _explain_lateness(self, job: SimulatedJob) -> str:
        """Return why the pods of a job cannot be ready in time; "" if they can, or if the job never had quota."""
        timeout, startup = self._readiness.find_timeout(job.workload.key), job.submission.startup
        if timeout is None or job.given_up or min(startup, job.limit_seconds) <= timeout:
            return ""
        return f"its pods are ready after {format_span(startup)}, but it is evicted after {format_span(timeout)}"

    def _explain(self, job: SimulatedJob, lacking: dict[Hashable, str]) -> Waiting:
        """Return why a job does not run.

        lacking: cached results of `_explain_lack`.
        """
        key = job.workload.key
        return explain_wait(
            job,
            self._find_reason(job),
            is_pending=key in self._queues,
            runs_anything=self._runs_anything,
            redefines_later=self.changes is not None and self.changes.redefines_later,
            explain_lack=partial(self._explain_lack, job, lacking),
        )

    def _find_reason(self, job: SimulatedJob) -> PendingReason | None:
        """Return why a job's queue does not admit it, from the last decision; None without a decision."""
        workload = job.workload
        if not workload.queue:
            return None
        if workload.queue == workload.local_queue:  # a job of a recorded state
            return PendingReason("Misconfigured", f"LocalQueue {workload.local_queue} doesn't exist")
        return self._queues.why(workload.key)

    def _runs_anything(self) -> bool:
        return any(job.started is not None for job in self._jobs.values())

    def _explain_lack(self, job: SimulatedJob, known: dict[Hashable, str]) -> str:
        """Return why the pods of a job would not fit on empty nodes; "" if they would, or without nodes.

        known: cached results, to which the result is added.
        """
        if self._machines is None:
            return ""
        shapes = self._asks.count_shapes(job, drop_places(job.assignment))
        near = job.known.template.near
        key = frozenset(shapes.items()), near
        if key not in known:
            known[key] = self._machines.explain_lack(shapes, near)
        return known[key]

    def _convert(self, template: JobTemplate) -> WorkloadInfo:
        queue, annotations = self._local.get(template.local_queue, ""), template.workload.metadata.annotations
        workload = convert.convert_workload(template.workload, queue, self._reading)
        return replace(workload, blocks=self._time_outs.find_blocking(annotations))

    def _find_subject(self, workload: WorkloadInfo) -> Subject:
        return self._jobs[workload.whole].subject

    def _record_eviction(self, job: SimulatedJob, rule: str, because: str) -> None:
        """Add the eviction of a job to the log of decisions, if there is one, unless the job is already evicted.

        The log already has preemptions for quota, from the admission cycle.
        """
        if self._decisions is not None and not job.workload.evicted:
            self._record(self._decisions, job, "Evicted", rule, because)

    def _record(self, decisions: DecisionLog, job: SimulatedJob, what: What, rule: str, because: str) -> None:
        now, subject = self._start + timedelta(seconds=self.record.now), job.subject
        decisions.add(Decision(now, what, subject.job, subject.uid, job.workload.queue, rule, because))

    def _note_use(self, workload: WorkloadInfo, sign: int) -> None:
        for (flavor, resource), amount in (workload.usage or {}).items():
            self.record.change(self.record.now, self._scope + workload.queue, flavor, resource, sign * amount)

    def _note_quotas(self) -> None:
        """Record the nominal quotas of all ClusterQueues as they are from now on."""
        for name, node in self._tree.queues.items():
            nominal = {part: quota.nominal for part, quota in node.policy.quotas.items()}
            self.record.quotas.set(self.record.now, self._scope + name, nominal)

    def note_capacity(self) -> None:
        """Record the total capacity of the nodes as it is from now on. Does nothing without nodes."""
        if self._machines is not None:
            self.record.capacity.set(self.record.now, sum_capacity(self._machines.capacity), self._scope)

    def _note_loss(self, workload: WorkloadInfo, ran: float) -> None:
        """Record that the quota that a workload used in the last `ran` seconds was wasted."""
        now = self.record.now
        for (flavor, resource), amount in (workload.usage or {}).items() if ran else ():
            self.record.quotas.lose((self._scope + workload.queue, flavor, resource), now - ran, now, amount)

    def _measure_rooms(self) -> None:
        if self._machines is not None:
            names = self.record.works
            shapes = ((names[work], shape) for work, shape in self._asks.list_shapes_of_works())
            measure_rooms(self.record.rooms, self._machines.capacity, shapes, self.record.now)

    def _flush_places(self) -> None:
        self._queues.flush_places()

    @property
    def _epoch(self) -> float:
        return self._start.timestamp() + self.record.now

    @abstractmethod
    def _note_ready(self, key: str) -> None:
        """Record that the pods of a job are ready."""

    @abstractmethod
    def _requeue(self, key: str, until: datetime | None) -> None:
        """Evict a job whose pods were not ready in time.

        until: the time at which the job is queued again; None for never.
        """
