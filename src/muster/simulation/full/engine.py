"""Simulate a scenario with a complete cluster in virtual time.

This engine is slower than the fast engine, and it is the reference for the fast engine's results.
The embedded server runs with its store in memory, with all controllers and simulated nodes. Jobs are submitted at their
times as manifests, and their history is read from the server's events. This module makes no decisions.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from muster.api.config import Configuration
from muster.api.kinds import Kind
from muster.api.ours.users import short_user
from muster.api.status import ApiError
from muster.controllers.integrations.table import INTEGRATIONS
from muster.queueing import convert
from muster.runtime.clock import run_virtual
from muster.runtime.objects import key_of
from muster.simulation.engine.explaining import HOPELESS
from muster.simulation.engine.federation.routes import find_routes
from muster.simulation.engine.refusals import find_elastic_work
from muster.simulation.engine.site import JobTemplate, Site, complete_template
from muster.simulation.engine.templates import find_end, find_local_queue
from muster.simulation.engine.world import Progress, WorkerSite
from muster.simulation.full.changes import ClusterChanges
from muster.simulation.full.cluster import Cluster
from muster.simulation.full.federation import run_federation
from muster.simulation.full.holdings import Holdings
from muster.simulation.full.manifests import Document, UnplayableError, make_manifest, require_playable
from muster.simulation.full.observer import Observer
from muster.simulation.outcome.record import SimulationRecord, Waiting
from muster.simulation.outcome.runs import Amounts
from muster.simulation.outcome.stillness import Stillness
from muster.simulation.scenario.arrivals import Submission, list_submissions
from muster.simulation.scenario.draws import parse_moment
from muster.simulation.scenario.logs.opening import SWF, find_format
from muster.simulation.scenario.reading import Reading
from muster.simulation.scenario.source import ScenarioError

# The cluster is idle once nothing has run or changed in it for this time, which is longer than any backoff.
_REST_SECONDS = 3600.0
# The interval at which the progress is reported, and at which an idle cluster is detected.
_LOOK_SECONDS = 60.0
# Times are rounded to the millisecond; a time that is this close counts as reached.
_ROUNDING = 1e-3
# The seconds for which an ended job is kept.
_KEEP_SECONDS = 60.0


class _Work(Struct, frozen=True):
    """A source of jobs.

    document: the manifest of its jobs.
    stored: a job of this manifest, as the server would store it.
    requests: the requests of one pod, by podset.
    """

    document: Document
    stored: JobTemplate
    kind: Kind[Any]
    requests: Sequence[Mapping[str, int]]


class FullEngine:
    """A simulation of a complete cluster, with its server, in virtual time.

    Times are seconds from the start of the scenario.

    record: the history of the jobs so far.
    """

    def __init__(
        self, reading: Reading, site: Site, configuration: Configuration, workers: Sequence[WorkerSite] = ()
    ) -> None:
        """Prepare the simulation.

        Raises `ScenarioError` if the scenario has a feature that only the fast engine supports, or a template whose
        jobs do not run all pods at the same time.
        """
        spec = reading.scenario.spec
        _refuse_unplayable(reading, site)
        self.record = SimulationRecord([work.name for work in spec.work])
        self._reading = reading
        self._site = site
        self._configuration = configuration
        self._workers = workers
        find_routes(reading, site, configuration, [name for worker in workers for name in worker.reading.names])
        self._until = inf if spec.until is None else parse_moment(spec.until, spec.start)
        self._queues = {key_of(one): one.spec.cluster_queue for one in site.local_queues}
        self._works = [self._read_work(number) for number in range(len(spec.work))]
        self._waiting: list[Waiting] = []
        self._is_stuck = False  # whether nothing but timeouts can happen any more

    def _read_work(self, number: int) -> _Work:
        work, path = self._reading.scenario.spec.work[number], f"spec.work[{number}].template"
        document = complete_template(self._reading, path, work)
        try:
            require_playable(document, resized=work.size is not None or work.trace is not None)
        except UnplayableError as error:
            raise self._reading.source.error(f"{path}.{error.path}", error.why) from None
        kind = next(one.kind for one in INTEGRATIONS if one.kind.kind == document["kind"])
        stored = self._site.templates[work.name]
        settings = convert.ConversionSettings.of(self._configuration)
        info = convert.convert_workload(stored.workload, "", settings)
        return _Work(document, stored, kind, [one.asks or one.requests for one in info.podsets])

    def run(self, progress: Progress | None = None) -> None:
        """Simulate until all jobs have ended, nothing more can happen, or the scenario's time is over.

        Raises `ScenarioError` if the server refuses a job.
        """
        run_virtual(self._run(progress))

    def list_waiting(self) -> Iterator[Waiting]:
        """Yield the jobs that do not run at the end, with the reasons."""
        yield from self._waiting

    async def _run(self, progress: Progress | None) -> None:
        async with run_federation(self._reading, self._site, self._configuration, self._workers) as federation:
            cluster = federation.manager
            integrations = [one for one in INTEGRATIONS if one.kind in {work.kind for work in self._works}]
            settings = convert.ConversionSettings.of(self._configuration)
            observer = Observer(cluster.plane.manager, integrations, self.record, settings, cluster.tell_time)
            holdings = Holdings(self.record, self._site, self._workers)
            changes = ClusterChanges(self._reading, self._site, self.record, holdings)
            for name, worker in federation.workers.items():
                observer.follow_worker(name, worker.plane.manager)
            for one in self._workers:
                for name in one.reading.names:
                    changes.plan_losses(federation.lines[name], one.reading.losses)
            async with federation.controlled():
                try:
                    await self._play(cluster, observer, changes, progress)
                finally:
                    rests = not observer.is_anything_running
                    for waiting, reason in observer.list_waiting():
                        never = self._is_stuck or reason in HOPELESS or (rests and not reason)
                        self._waiting.append(replace(waiting, never=never))

    async def _play(
        self, cluster: Cluster, observer: Observer, changes: ClusterChanges, progress: Progress | None
    ) -> None:
        """Submit the jobs and make the changes at their times.

        Returns when all jobs have ended, nothing more can happen, or the scenario's time is over.
        """
        submissions = list_submissions(self._reading)
        submission = next(submissions, None)
        ran_at = 0.0  # the time at which a pod was last running
        stillness, happened_at = Stillness(self.record), 0.0
        while submission is not None or observer.unfinished:
            due = inf if submission is None else submission.at
            await cluster.sleep_until(min(due, changes.next_at, cluster.tell_time() + _LOOK_SECONDS, self._until))
            now = cluster.tell_time()
            if observer.is_anything_running:
                ran_at = now
            if now >= self._until:
                self.record.now = self._until
                return
            if self.record.now > happened_at:
                happened_at = self.record.now
                stillness.count_moment()
            if changes.next_at <= now + _ROUNDING:
                await changes.happen(cluster, now, now + _ROUNDING)
            elif submission is not None and due <= now + _ROUNDING:
                self.record.now = now
                await self._submit(cluster, observer, submission)
                submission = next(submissions, None)
            elif submission is None and not changes.has_more:
                self._is_stuck = stillness.lasts(observer.unfinished)
                if self._is_stuck or now - max(ran_at, self.record.now) >= _REST_SECONDS:
                    return
            await cluster.delete_jobs(observer.take_ended(now - _KEEP_SECONDS))
            if progress is not None:
                progress(self.record)

    async def _submit(self, cluster: Cluster, observer: Observer, submission: Submission) -> None:
        """Record a job as submitted, and create it in the cluster. Raises `ScenarioError` if the server refuses it."""
        work = self._works[submission.work]
        workload = work.stored.workload
        sizes = [podset.count for podset in workload.spec.pod_sets]
        if submission.size is not None:
            sizes[0] = submission.size
        local = find_local_queue(submission.local_queue, work.stored)
        namespace = local.partition("/")[0] or workload.metadata.namespace
        priority = workload.spec.priority if submission.priority is None else submission.priority
        number = self.record.submit(
            submission.name,
            submission.work,
            self._queues.get(local, ""),
            sum(sizes),
            priority or 0,
            submission.at,
            submission.run_time,
            short_user(submission.user),
        )
        end = find_end(submission, work.stored)
        lasts = submission.startup + submission.run_time
        exceeds_limit = end is not None and end.is_enforced and end.at < lasts
        requests = _sum_requests(work.requests, sizes)
        observer.expect(number, submission.name, sum(sizes), requests, queued=bool(local), exceeds_limit=exceeds_limit)
        try:
            if submission.priority is not None:
                await cluster.create_priority(submission.priority)
            await cluster.create_job(work.kind, namespace, number, make_manifest(work.document, submission, number))
        except ApiError as error:
            raise ScenarioError(f"{submission.name}: {error}") from None


def _sum_requests(requests: Sequence[Mapping[str, int]], sizes: Sequence[int]) -> Amounts:
    """Return the total requests of a job's pods.

    requests: the requests of one pod, by podset.
    sizes: the number of pods, by podset.
    """
    total = Counter[str]()
    for amounts, size in zip(requests, sizes, strict=True):
        for resource, amount in amounts.items():
            total[resource] += amount * size
    return tuple(sorted(total.items()))


def _refuse_unplayable(reading: Reading, site: Site) -> None:
    """Raise `ScenarioError` if the scenario has a feature that the simulation with a server does not support yet."""
    spec = reading.scenario.spec
    fields = {
        "spec.state": spec.state,
        **{f"spec.work[{number}].startup": work.startup for number, work in enumerate(spec.work)},
        **{f"spec.work[{number}].checkpoint": work.checkpoint for number, work in enumerate(spec.work)},
        **{f"spec.work[{number}].podGroup": work.pod_group for number, work in enumerate(spec.work)},
        **{
            f"spec.work[{number}].trace": work.trace is not None and find_format(work.trace) != SWF
            for number, work in enumerate(spec.work)
        },
    }
    for path, value in fields.items():
        if value:
            raise reading.source.error(path, "cannot be played with --engine full")
    if (
        elastic := find_elastic_work(reading, site)
    ) is not None:  # otherwise each of its pods would run for the run time of the whole job
        raise reading.source.error(elastic, "an elastic job cannot be played with --engine full")
