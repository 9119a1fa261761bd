"""Play a scenario: from event to event in virtual time, with the decisions of admission and of the scheduler.

An event is a job that comes or ends. After the events of one moment the admission cycle runs until it finds nothing
more to decide. A job that it admits asks for nodes; a job that it preempts goes back to its queue at once.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import MAXYEAR, UTC, datetime, timedelta
from functools import partial
from math import inf

from msgspec import Struct
from msgspec.structs import replace

from muster.api.config import Configuration
from muster.api.core import Pod
from muster.api.kueue.clusterqueue import STOP_NONE
from muster.api.ours.teams import NOT_A_USER
from muster.controllers.queueing.cache import ON_DEMAND
from muster.gang.order.ends import End
from muster.gang.shapes import Shape, shape_of
from muster.insight.forecasts.forecast import build_quota_tree
from muster.queueing import convert
from muster.queueing.model import Assignment, PodSet, WorkloadInfo
from muster.queueing.pending.queues import Queues
from muster.queueing.scheduling import cycle
from muster.queueing.scheduling.fairness import FairSharing
from muster.runtime.objects import key_of
from muster.simulation.engine.agenda import Agenda, Rank
from muster.simulation.engine.machines import GangAsk, Machines, make_standing
from muster.simulation.engine.site import JobTemplate, Site
from muster.simulation.outcome.record import Record, Waiting
from muster.simulation.scenario.arrivals import Submission, list_submissions
from muster.simulation.scenario.draws import parse_seconds
from muster.simulation.scenario.reading import Reading

# The reasons of jobs that wait for ever: in a simulation, nobody changes a queue.
HOPELESS = frozenset(("ExceedsMaxQuota", "NoMatchingFlavor", "Misconfigured", "Suspended", NOT_A_USER))
# The digits of the numbers of jobs in their keys.
_DIGITS = 12

# Called with the record so far after each moment.
Progress = Callable[[Record], None]


class _Job(Struct):
    """A job that has not ended.

    end: when it ends at the latest, from its start. started: since when it runs; None while it waits. starts: how often
    it has started, by which an end knows its start.
    """

    number: int
    submission: Submission
    template: JobTemplate
    workload: WorkloadInfo
    end: End | None
    started: float | None = None
    starts: int = 0


class Engine:
    """A cluster in virtual time. Times are seconds from the start of the scenario.

    record: what became of the jobs so far.
    """

    def __init__(self, reading: Reading, site: Site, configuration: Configuration) -> None:
        spec = reading.scenario.spec
        self.record = Record([work.name for work in spec.work])
        self._source = reading.source
        self._start = spec.start
        self._last = (datetime.max.replace(tzinfo=UTC) - spec.start).total_seconds()
        self._until = inf if spec.until is None else parse_seconds(spec.until)
        self._submissions = list_submissions(reading)
        self._templates = [site.templates[work.name] for work in spec.work]
        self._reading = convert.ConversionSettings.of(configuration)
        self._local = {key_of(one): one.spec.cluster_queue for one in site.local_queues}
        self._tree = build_quota_tree(site.cluster_queues, site.cohorts)
        self._flavors = {one.metadata.name: convert.flavor_spec(one) for one in site.flavors}
        self._queues = Queues()
        self._settings = cycle.AdmissionSettings(
            fair=_find_fairness(site, configuration),
            ignore_undeclared=configuration.resources.quota_check_strategy == "IgnoreUndeclared",
        )
        for namespace in site.namespaces:
            self._queues.set_namespace(namespace.metadata.name, namespace.metadata.labels)
        for local in site.local_queues:
            self._queues.stop_local(key_of(local), stopped=local.spec.stop_policy != STOP_NONE)
        for node in self._tree.queues.values():
            self._queues.set_queue(node.policy)
        overtakings = configuration.muster.scheduling.overtakings
        self._machines = Machines(site.nodes, overtakings) if site.nodes or spec.nodes else None
        self._jobs: dict[str, _Job] = {}  # that have not ended, by key
        self._agenda = Agenda()
        self._bases = [self._convert(template) for template in self._templates]
        # The shapes of pods, by the number of their work and podset and by their flavors.
        self._shapes: dict[tuple[int, int, tuple[str, ...]], Shape] = {}

    def _convert(self, template: JobTemplate) -> WorkloadInfo:
        queue = self._local.get(template.local_queue, "")
        return convert.workload(template.workload, queue, self._reading)

    def run(self, progress: Progress | None = None) -> None:
        """Play until all jobs have ended, nothing can happen any more, or the scenario's time is over."""
        self._expect_next()
        while self._agenda:
            now = self._agenda.next_at
            if now > self._until:
                self.record.now = self._until
                return
            if now > self._last:
                raise self._source.error("spec", f"would pass the year {MAXYEAR}: set until to end before it")
            self.record.now = now
            while (event := self._agenda.take_due(now)) is not None:
                event()
            self._settle()
            if progress is not None:
                progress(self.record)

    def list_waiting(self) -> Iterator[Waiting]:
        """Yield the jobs that have not started, and why."""
        for job in self._jobs.values():
            if job.started is None:
                why = self._queues.why(job.workload.key) if job.workload.queue else None
                if why is not None:
                    yield Waiting(job.submission.name, why.message, never=why.reason in HOPELESS)
                elif job.workload.key in self._queues:
                    yield Waiting(job.submission.name, "other jobs of its queue come first", never=False)
                else:
                    yield Waiting(job.submission.name, "the nodes have no room for it", never=self._lacks_nodes(job))

    def _lacks_nodes(self, job: _Job) -> bool:
        """Return whether the pods of a job would not fit even if nothing else ran."""
        return self._machines is not None and not self._machines.takes_ever(self._count_shapes(job, None))

    # Events.

    def _expect_next(self) -> None:
        """Plan the next submission, which plans the one after it: there may be more than fit into memory."""
        if (submission := next(self._submissions, None)) is not None:
            self._agenda.plan(submission.at, Rank.ARRIVAL, partial(self._submit, submission))

    def _submit(self, submission: Submission) -> None:
        self._expect_next()
        template, base = self._templates[submission.work], self._bases[submission.work]
        namespace = template.workload.metadata.namespace
        key = f"{namespace}/{len(self.record):0{_DIGITS}}"  # of jobs that come at once, the first one listed is first
        created = self._start + timedelta(seconds=submission.at)
        local = f"{namespace}/{submission.local_queue}" if submission.local_queue else template.local_queue
        podsets = base.podsets
        if submission.size is not None:
            podsets = (_resize(podsets[0], submission.size), *podsets[1:])
        workload = replace(
            base,
            key=key,
            uid=key,
            queue=self._local.get(local, ""),
            local_queue=local,
            priority=base.priority if submission.priority is None else submission.priority,
            created=created,
            queued=created,
            podsets=podsets,
        )
        pods = sum(podset.count for podset in podsets)
        number = self.record.submit(
            submission.name,
            submission.work,
            workload.queue,
            pods,
            workload.priority,
            submission.at,
            submission.run_time,
        )
        end = template.end if submission.limit is None else End(submission.limit, sure=True)
        job = self._jobs[key] = _Job(number, submission, template, workload, end)
        if workload.queue:
            self._queues.add(workload)
        else:
            self._place(job, None)

    def _end(self, key: str, starts: int) -> None:
        job = self._jobs.get(key)
        if job is None or job.starts != starts or job.started is None:
            return  # it was evicted meanwhile
        del self._jobs[key]
        self.record.end(job.number, self.record.now)
        if self._machines is not None:
            self._machines.free(key)
        if job.workload.queue:
            self._release(job.workload)
            self._queues.forgive(self._tree.queues[job.workload.queue])

    def _settle(self) -> None:
        """Decide until there is nothing to decide at this moment."""
        now = self._start + timedelta(seconds=self.record.now)
        while True:
            if self._machines is not None:
                for key in self._machines.sweep(self._epoch):
                    self._begin(self._jobs[key])
            if not self._queues.untried:
                return
            self._apply(cycle.run(self._tree, self._queues, self._flavors, self._settings, now))

    def _apply(self, outcome: cycle.Outcome) -> None:
        for admission in outcome.admitted:
            job = self._jobs[admission.workload.key]
            job.workload = admission.workload
            self._note_use(admission.workload, 1)
            self._place(job, admission.assignment)
        for preemption in outcome.preemptions:
            for victim in preemption.victims:
                self._evict(self._jobs[victim.workload.key])

    def _evict(self, job: _Job) -> None:
        """Take the quota and the nodes of a job, which goes back to its queue and starts anew."""
        if self._tree.holder(job.workload.key) is None:
            return  # it is a victim of two
        ran = 0.0 if job.started is None else self.record.now - job.started
        self.record.evict(job.number, ran)
        job.started = None
        if self._machines is not None:
            self._machines.free(job.workload.key)
        self._release(job.workload)
        job.workload = replace(job.workload, usage=None, reserved=None, admitted=False)
        self._queues.add(job.workload)

    # What jobs hold.

    def _release(self, workload: WorkloadInfo) -> None:
        self._note_use(workload, -1)
        self._tree.release(workload)
        self._queues.flush(self._tree.queues[workload.queue], workload.usage)

    def _note_use(self, workload: WorkloadInfo, sign: int) -> None:
        for (flavor, resource), amount in (workload.usage or {}).items():
            self.record.change(self.record.now, workload.queue, flavor, resource, sign * amount)

    def _place(self, job: _Job, assignment: Assignment | None) -> None:
        """Let a job run, once there are nodes for it. assignment: what its queue gave it."""
        if self._machines is None:
            self._begin(job)
            return
        shapes = self._count_shapes(job, assignment)
        if self._machines.ask(self._make_ask(job, shapes), self._epoch):
            self._begin(job)

    def _count_shapes(self, job: _Job, assignment: Assignment | None) -> Mapping[Shape, int]:
        shapes: Counter[Shape] = Counter()
        for number, podset in enumerate(job.workload.podsets):
            given = assignment.podsets[number] if assignment is not None else None
            flavors = sorted({choice.flavor for choice in given.flavors.values()}) if given is not None else ()
            shapes[self._shape(job, number, tuple(flavors))] += given.count if given is not None else podset.count
        return shapes

    def _make_ask(self, job: _Job, shapes: Mapping[Shape, int]) -> GangAsk:
        tenant = job.workload.queue or job.workload.namespace
        # The job makes its pods once it is admitted; the scheduler goes by the age of pods.
        standing = make_standing(job.template.pod_priority, tenant, self._epoch)
        return GangAsk.of(job.workload.key, standing, shapes, job.end)

    def _shape(self, job: _Job, number: int, flavors: tuple[str, ...]) -> Shape:
        """Return the shape of the pods of a podset, with the labels and tolerations of the flavors that it got."""
        known = self._shapes.get((job.submission.work, number, flavors))
        if known is None:
            template = job.template.workload.spec.pod_sets[number].template
            given = [self._flavors[name] for name in flavors]
            labels = {key: value for flavor in given for key, value in flavor.labels.items()}
            spec = replace(
                template.spec,
                node_selector=template.spec.node_selector | labels,
                tolerations=(*template.spec.tolerations, *(one for flavor in given for one in flavor.tolerations)),
            )
            known = shape_of(Pod(metadata=template.metadata, spec=spec))
            self._shapes[job.submission.work, number, flavors] = known
        return known

    def _begin(self, job: _Job) -> None:
        job.started, job.starts = self.record.now, job.starts + 1
        self.record.start(job.number, self.record.now)
        seconds = job.submission.run_time
        if job.end is not None and job.end.sure:
            seconds = min(seconds, job.end.at)
        end = partial(self._end, job.workload.key, job.starts)
        self._agenda.plan(self.record.now + seconds, Rank.END, end)

    @property
    def _epoch(self) -> float:
        return self._start.timestamp() + self.record.now


def _resize(podset: PodSet, count: int) -> PodSet:
    """Return a podset with this number of pods. It may still start with fewer, if its template says so."""
    return replace(podset, count=count, least=None if podset.least is None or podset.least >= count else podset.least)


def _find_fairness(site: Site, configuration: Configuration) -> FairSharing | None:
    """Return the settings of fair sharing, which a weight turns on where the Configuration says so."""
    fair = configuration.fair_sharing
    shares = [*(one.spec.fair_sharing for one in site.cluster_queues), *(one.spec.fair_sharing for one in site.cohorts)]
    weighted = any(share is not None for share in shares)
    if fair is None and configuration.muster.fair_sharing_on_demand and weighted:
        fair = ON_DEMAND
    return FairSharing.of(fair, configuration.features)
