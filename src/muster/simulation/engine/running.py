"""Run the jobs of a cluster on its nodes: place, start, stop and interrupt them."""

from abc import abstractmethod
from collections.abc import Mapping
from functools import partial

from msgspec.structs import replace

from muster.controllers.scheduler.decisions import POD_PRIORITY
from muster.gang.shapes import Shape
from muster.queueing.model import Assignment
from muster.simulation.engine.agenda import Rank
from muster.simulation.engine.checkpoints import measure_kept
from muster.simulation.engine.job import SimulatedJob
from muster.simulation.engine.nodes.machines import Machines
from muster.simulation.engine.simulatedcluster import SimulatedCluster


class JobRunner(SimulatedCluster):
    """A simulated cluster that runs jobs which are allowed to run."""

    def _await_pods(self, job: SimulatedJob, assignment: Assignment) -> None:
        """Start to measure the time from the admission of a job until its pods are ready."""
        flavors = {choice.flavor for one in assignment.podsets for choice in one.flavors.values()}
        annotations = job.known.template.workload.metadata.annotations
        self._readiness.admit(job.workload.key, annotations, job.workload.queue, flavors, self.record.now)

    def _place(self, job: SimulatedJob, assignment: Assignment | None) -> None:
        """Request nodes for a job, and start it if it gets them now. A stopped engine does this after its restart.

        assignment: the flavors that its queue assigned; None without a queue.
        """
        job.assignment = assignment
        if not self._deciding:
            self._unplaced[job.workload.key] = job
            return
        if self._machines is None:
            self._begin(job)
            return
        if self._machines.ask(self._asks.ask_for_all(job, assignment, self._epoch), self._epoch):
            self._begin(job)

    def _repair(self, job: SimulatedJob, lacking: Mapping[Shape, int]) -> None:
        """Request nodes for the pods that a broken gang lost. The gang continues if it gets them now.

        lacking: the lost pods by shape.
        """
        assert self._machines is not None, "a broken gang has nodes"
        ask = self._asks.ask_for_rest(job, lacking, self._machines.count_guests(job.workload.key), self._epoch)
        if self._machines.ask(ask, self._epoch):
            self._begin(job)

    def _resume(self, job: SimulatedJob) -> None:
        """Let a job request the nodes that it lacks: for its lost pods, or for all its pods."""
        if job.lacking:
            self._repair(job, job.lacking)
        else:
            self._place(job, job.assignment)

    def _begin(self, job: SimulatedJob, since: float | None = None) -> None:
        """Start a job that has its nodes, record this, and plan its end.

        since: the start time, if it was before the start of the scenario; None for now.
        """
        started = self.record.now if since is None else since
        job.started, job.starts = started, job.starts + 1
        if job.counts_since is None:
            job.counts_since = job.started
        is_late = self._readiness.is_late(
            job.workload.key, min(self.record.now + job.submission.startup, self._find_limit(job))
        )
        nodes = self._count_pods_to_draw(job)
        pods = job.size if job.bounds else None
        self.record.start(job.number, started, job.sum_demand(), nodes, pods, is_late=is_late)
        self._readiness.begin(job.workload.key, self.record.now, job.submission.startup)
        job.since, job.done = started, 0.0
        job.lacking = None
        self._expect_end(job, started)

    def _count_pods_to_draw(self, job: SimulatedJob) -> Mapping[str, int] | None:
        """Return how many pods of a job each node has; None if the report shows no nodes."""
        if self._machines is None or not self._draws_nodes:
            return None
        on_nodes = self._machines.count_pods(job.workload.key)
        return {self._scope + name: pods for name, pods in on_nodes.items()}

    def _expect_end(self, job: SimulatedJob, now: float) -> None:
        """Plan the end of a running job: when its work is done, or at its time limit if that comes first."""
        assert job.started is not None, "it runs"
        span = job.work if job.checkpoints is None else job.checkpoints.compute_span(job.work)
        at = max(now, job.started + job.submission.startup) + (span - job.done) / job.speed
        limit_at = self._find_limit(job)
        job.over_limit = limit_at < at
        at = min(at, limit_at)
        self._agenda.plan(max(self.record.now, at), Rank.END, partial(self._end, job.workload.key, job.starts))

    def _find_limit(self, job: SimulatedJob) -> float:
        """Return when the time limit ends a job that has started with its current quota; infinity without a limit."""
        assert job.counts_since is not None, "it has started"
        return job.counts_since + job.limit_seconds

    def _stop_job(self, job: SimulatedJob) -> float:
        """Free the nodes of a job, and reset it to its last checkpoint; return the lost seconds of its run."""
        if self._machines is not None:
            self._machines.free(job.workload.key)
        job.lacking = None
        return self._pause_job(job)

    def _pause_job(self, job: SimulatedJob) -> float:
        """Reset a job to its last checkpoint, so that it no longer runs.

        Return the lost seconds of its run, including its startup.
        """
        startup = 0.0 if job.started is None else min(self.record.now - job.started, job.submission.startup)
        kept = measure_kept(job.checkpoints, job.work, job.measure_work(self.record.now))
        job.work -= kept.work
        job.started = None
        self._readiness.interrupt(job.workload.key, self.record.now)
        if job.workload.ready and self._readiness.is_watched(job.workload.key):
            job.workload = replace(job.workload, ready=False)
            self._tree.hold(job.workload)
        return kept.lost + startup

    def _expect_limit(self, job: SimulatedJob) -> None:
        """Plan the end of an interrupted job at its time limit, which continues to count.

        The planned end is dropped.
        """
        job.starts += 1
        if job.end is not None and job.end.is_enforced and job.counts_since is not None:
            job.over_limit = True
            end = partial(self._end, job.workload.key, job.starts)
            self._agenda.plan(max(self.record.now, job.counts_since + job.end.at), Rank.END, end)

    def _evict_from_nodes(self, job: SimulatedJob) -> None:
        """Free the nodes of an evicted job, and record the eviction and the lost work."""
        lost = self._stop_job(job)
        self._note_eviction(job, lost)
        self._note_loss(job.workload, lost)

    def _displace(self, job: SimulatedJob) -> None:
        """Free the nodes of a job that the scheduler preempted; it requests nodes again, and keeps its quota."""
        self._record_eviction(job, POD_PRIORITY, "a job of a higher priority needs its nodes")
        lost = self._stop_job(job)
        self._note_displacement(job, lost)
        self._note_loss(job.workload, lost)
        self._expect_limit(job)
        self._place(job, job.assignment)

    def _settle_nodes(self, machines: Machines) -> None:
        """Start gangs that find room, until no further gang starts or is preempted.

        Plans another attempt for the time when the protection of a running gang ends.
        """
        while True:
            for key in machines.sweep(self._epoch):
                self._begin(self._jobs[key])
            displaced = machines.take_displaced()
            if not displaced:
                break
            for key in displaced:
                self._displace(self._jobs[key])
        if (until := machines.protected_until) is not None and until != self._retry_at:
            self._retry_at = until
            self._agenda.plan(until - self._start.timestamp(), Rank.ARRIVAL, machines.retry)

    def _note_end(self, job: SimulatedJob) -> None:
        self.record.end(job.number, self.record.now, over_limit=job.over_limit)

    def _note_displacement(self, job: SimulatedJob, ran: float) -> None:
        self.record.evict(job.number, ran)

    def _note_eviction(self, job: SimulatedJob, ran: float) -> None:
        self.record.evict(job.number, ran)

    def _note_ready(self, key: str) -> None:
        """Record that the pods of a job are ready, so that jobs that wait for this are tried again.

        Does nothing if the settings do not make jobs wait for the pods of others.
        """
        if self._settings.blocking is None:
            return
        job = self._jobs[key]
        job.workload = replace(job.workload, ready=True)
        self._tree.hold(job.workload)
        self._ready = True

    @abstractmethod
    def _end(self, key: str, starts: int) -> None:
        """End a job. Does nothing if the job has started again since this end was planned.

        starts: the number of the job's starts when the end was planned.
        """
