"""Run one cluster in virtual time, with the engine's own decisions about admission and scheduling.

An event is the arrival or the end of a job. After the events at one time, the admission cycle runs until it has nothing
more to decide. An admitted job requests nodes; a preempted job immediately returns to its queue.
"""

from datetime import datetime, timedelta
from functools import partial

from msgspec.structs import replace

from muster.api.kueue.names import PODS_READY_TIMEOUT, PREEMPTED
from muster.api.ours.elastic import Bounds
from muster.gang.placement import Placement
from muster.queueing import convert
from muster.queueing.decisions import describe_cycle
from muster.queueing.model import Assignment, WorkloadInfo
from muster.queueing.scheduling import cycle
from muster.simulation.engine.agenda import Rank
from muster.simulation.engine.job import SimulatedJob
from muster.simulation.engine.resizing import JobResizer
from muster.simulation.engine.takeup import Residents, TakenJob
from muster.simulation.engine.templates import find_end, find_local_queue, make_workload
from muster.simulation.scenario.arrivals import Submission

# The number of digits of job numbers, which order jobs that arrive at the same time.
DIGITS = 12


class Engine(JobResizer):
    """A simulated cluster: it decides which jobs get quota, and handles arrivals, ends and evictions."""

    def take_up(self, residents: Residents) -> None:
        """Start with the jobs and pods of an existing cluster, running or waiting, and decide at time 0."""
        if self._machines is not None:
            for pod in residents.pods:
                self._machines.settle_pod(pod)
        for one in residents.jobs:
            self._take_up_job(one)
        self._agenda.plan(0.0, Rank.ARRIVAL, _do_nothing)  # an event that triggers decisions at time 0

    def _take_up_job(self, taken: TakenJob) -> None:
        """Add a job of the recorded cluster state, which waits, holds quota or runs as it did there."""
        workload, template = taken.workload, taken.known.template
        submission = Submission(taken.created, len(self.record.works) - 1, taken.name, taken.run_time, None)
        pods = sum(podset.count for podset in workload.podsets)
        number = self.record.submit(
            taken.name,
            submission.work,
            workload.queue,
            pods,
            workload.priority,
            taken.created,
            taken.run_time,
            workload.owner,
        )
        job = self._jobs[workload.key] = SimulatedJob(
            number, submission, taken.known, workload, template.end, taken.run_time, None
        )
        self._note_elastic(job, template.bounds)
        flavors = {name for names in taken.flavors or () for name in names}
        status, annotations = template.workload.status, template.workload.metadata.annotations
        self._readiness.take_up(workload.key, annotations, workload.queue, flavors, status)
        if taken.flavors is not None and workload.queue in self._tree.queues:
            job.flavors = taken.flavors
            self._tree.hold(workload)
            self._note_use(workload, 1)
        elif workload.queue:
            self._queues.add(workload, until=taken.until)
            if taken.until is not None:
                wake = max(0.0, (taken.until - self._start).total_seconds())
                self._agenda.plan(wake, Rank.ARRIVAL, partial(self._queues.advance, taken.until))
            return
        if taken.started is not None:
            if self._machines is not None:
                shapes = {shape: sum(count for _, count in nodes) for shape, nodes in taken.nodes.items()}
                started = self._start.timestamp() + taken.started
                ask = self._asks.make_ask(job, shapes, self._epoch, has_places=bool(workload.places))
                self._machines.take_up(ask, Placement(taken.nodes), started)
            self._begin(job, taken.started)
        elif self._machines is None:
            self._begin(job)
        else:
            if self._machines.ask(self._asks.ask_for_all(job, None, self._epoch), self._epoch):
                self._begin(job)

    def submit(self, submission: Submission) -> None:
        """Record a new job and add it to its queue; a job without a queue requests nodes immediately."""
        known = self._templates.find(submission)
        template = known.template
        local = find_local_queue(submission.local_queue, template)
        namespace = local.partition("/")[0] or template.workload.metadata.namespace
        key = f"{namespace}/{len(self.record):0{DIGITS}}"  # orders jobs that arrive at the same time as they are listed
        created = self._start + timedelta(seconds=submission.at)
        workload = make_workload(known, submission, key, self._local.get(local, ""), local, created)
        pods = sum(podset.count for podset in workload.podsets)
        number = self.record.submit(
            submission.name,
            submission.work,
            workload.queue,
            pods,
            workload.priority,
            submission.at,
            submission.run_time,
            workload.owner,
        )
        checkpoints = self._checkpoints[submission.work] if self._checkpoints else None
        end = find_end(submission, template)
        job = SimulatedJob(number, submission, known, workload, end, submission.run_time, checkpoints)
        self._jobs[key] = job
        self._note_elastic(job, template.bounds)
        self._forecaster.expect(job)
        if workload.queue:
            self._queues.add(workload)
        else:
            self._place(job, None)

    def _note_elastic(self, job: SimulatedJob, bounds: Bounds | None) -> None:
        """Make a job elastic within these bounds. Does nothing without bounds, or if the job has several podsets."""
        if bounds is not None and len(job.workload.podsets) == 1:
            job.bounds, job.size = bounds, job.workload.podsets[0].count
            job.base = job.size
            self._elastic[job.workload.key] = job

    def _end(self, key: str, starts: int) -> None:
        job = self._jobs.get(key)
        if job is None or job.starts != starts or (job.started is None and job.counts_since is None):
            return  # it was evicted in the meantime
        del self._jobs[key]
        self._elastic.pop(key, None)
        if job.started is not None:
            self._forecaster.learn(job, self.record.now - job.started)
        self._unplaced.pop(key, None)
        self._note_end(job)
        self._readiness.forget(key)
        if self._machines is not None:
            self._machines.free(key)
        if job.workload.queue:
            self._release(job.workload)
            self._queues.forgive(self._tree.queues[job.workload.queue])

    def settle(self) -> None:
        """Make decisions until nothing is left to decide at this time, and plan the deadlines for ready pods.

        A stopped engine makes no decisions.
        """
        if self._deciding:
            self._decide()
        self._readiness.plan_deadlines(self.record.now)

    def _decide(self) -> None:
        """Run admission cycles at the current time until nothing is left to decide; plan the next end of a backoff."""
        unplaced, self._unplaced = self._unplaced, {}
        for job in unplaced.values():
            self._resume(job)
        now = self._start + timedelta(seconds=self.record.now)
        self._past.advance(now)
        grow = True
        while True:
            if self._machines is not None:
                self._settle_nodes(self._machines)
            self._queues.advance(now)
            if not self._queues.untried and not self._ready:
                if not self._adapt_sizes(grow=grow):
                    break
                grow = grow and not self._growths
                continue
            self._ready = False
            spare = self._should_shrink_instead
            outcome = cycle.run(self._tree, self._queues, self._flavors, self._settings, now, spare=spare)
            if (decisions := self._decisions) is not None:
                for decision in describe_cycle(outcome, self._tree, self._find_subject, decisions.is_news, now):
                    decisions.add(decision)
            self._apply(outcome)
            self._note_short(outcome)
            self._past.settle()
        if (wake := self._queues.next_wake) is not None and wake != self._wake_at:
            self._wake_at = wake
            self._agenda.plan((wake - self._start).total_seconds(), Rank.ARRIVAL, _do_nothing)

    def measure(self) -> None:
        """Record forecasts for the jobs that arrived at this time, and a sample of the free room on the nodes."""
        now = self._start + timedelta(seconds=self.record.now)
        for job, wait in self._forecaster.forecast_all(self._tree, self._queues, self._settings, now):
            self.record.forecast(job.number, wait)
        self._measure_rooms()

    def _apply(self, outcome: cycle.CycleOutcome) -> None:
        for admission in outcome.admitted:
            if admission.workload.growth_of:
                self._take_growth(admission)
                continue
            job = self._jobs[admission.workload.key]
            job.workload, job.assignment = admission.workload, admission.assignment
            self._note_use(admission.workload, 1)
            self._grant(job, admission.assignment)
        for preemption in outcome.preemptions:
            for victim in preemption.victims:
                self._evict(self._jobs[victim.workload.whole])

    def _evict(self, job: SimulatedJob, reason: str = PREEMPTED) -> None:
        """Remove a job's quota and nodes; the job returns to its queue, and later continues from its last checkpoint.

        reason: the reason of the eviction, which decides whether the job goes behind the others in its queue.

        Does nothing if the job has no quota.
        """
        if self._tree.holder(job.workload.key) is None:
            return  # it is a victim of two
        self._release_all(job)
        self._move(job, reason)
        self._queues.add(job.workload)

    def _requeue(self, key: str, until: datetime | None) -> None:
        """Evict a job whose pods were not ready in time; if the engine is stopped, at its restart.

        until: the time at which the job is queued again; None for never.
        """
        if not self._deciding:
            self._late.append((key, until))
            return
        job = self._jobs.get(key)
        if job is None:
            return  # it ended while the engine was stopped
        self._record_eviction(job, PODS_READY_TIMEOUT, "its pods were not ready in time")
        self._release_all(job)
        if until is None:
            job.given_up = True
            return
        self._move(job, PODS_READY_TIMEOUT)
        self._queues.add(job.workload, until=until)

    def _move(self, job: SimulatedJob, reason: str) -> None:
        """Set the time by which a queue sorts an evicted job: now or its creation, depending on the reason."""
        moment = (self._start + timedelta(seconds=self.record.now)).replace(microsecond=0)  # the API's precision
        behind = convert.requeues_behind(reason, self._reading)
        job.workload = replace(job.workload, queued=moment if behind else job.workload.created)

    def _release_all(self, job: SimulatedJob) -> None:
        """Remove the quota and the nodes of a job, without queueing it again."""
        self._give_up_growth(job)
        self._evict_from_nodes(job)
        self._unplaced.pop(job.workload.key, None)
        job.counts_since = None
        job.flavors = ()
        self._readiness.release(job.workload.key)
        self._release(job.workload)
        job.workload = replace(
            job.workload, usage=None, reserved=None, admitted=False, evicted=False, ready=False, places=()
        )

    def _grant(self, job: SimulatedJob, assignment: Assignment) -> None:
        """Request nodes for a job that got quota; in a cluster without nodes, start the job."""
        self._await_pods(job, assignment)
        self._place(job, assignment)

    def _release(self, workload: WorkloadInfo) -> None:
        self._note_use(workload, -1)
        self._tree.release(workload)
        self._queues.flush(self._tree.queues[workload.queue], workload.usage)
        if workload.places:
            self._queues.flush_places()


def _do_nothing() -> None:
    """Do nothing. Used as an event after which the engine tries jobs again."""
