"""Run a scenario from event to event in virtual time; the cluster makes its decisions after the events of each time."""

from collections.abc import Callable, Iterator, Sequence
from datetime import MAXYEAR, UTC, datetime
from functools import partial
from math import inf

from msgspec import Struct

from muster.api.config import Configuration
from muster.controllers.decisionlog import DecisionLog
from muster.queueing import convert
from muster.simulation.engine.agenda import EventAgenda, Rank
from muster.simulation.engine.changing.changeable import ChangeableEngine
from muster.simulation.engine.changing.changes import Changes
from muster.simulation.engine.checkpoints import make_checkpoints
from muster.simulation.engine.engine import Engine
from muster.simulation.engine.federation.manager import ManagerEngine
from muster.simulation.engine.federation.routes import find_routes
from muster.simulation.engine.federation.worker import WorkerEngine
from muster.simulation.engine.refusals import find_elastic_work
from muster.simulation.engine.site import Site
from muster.simulation.engine.takeup import read_residents
from muster.simulation.outcome.record import SimulationRecord, Waiting
from muster.simulation.outcome.stillness import Stillness
from muster.simulation.scenario.arrivals import Submission, count_submissions, list_submissions
from muster.simulation.scenario.draws import parse_moment
from muster.simulation.scenario.reading import STATE_WORK, Reading
from muster.simulation.scenario.workers import WorkerReading

# Called with the record so far, after the events of each time.
Progress = Callable[[SimulationRecord], None]


class WorkerSite(Struct, frozen=True):
    """A worker cluster, or several equal ones, with the objects of each."""

    reading: WorkerReading
    site: Site


class World:
    """The agenda and the record of a scenario, and its simulated cluster, which may manage worker clusters.

    record: the history of the jobs so far.
    """

    def __init__(
        self,
        reading: Reading,
        site: Site,
        configuration: Configuration,
        workers: Sequence[WorkerSite] = (),
        decisions: DecisionLog | None = None,
    ) -> None:
        """Prepare a scenario: one cluster, or a manager and its workers if ClusterQueues dispatch workloads to them.

        decisions: the log to which the decisions of the cluster are added, except those of worker clusters.

        Raises `ScenarioError` if the scenario cannot be simulated.
        """
        spec = reading.scenario.spec
        works = [work.name for work in spec.work]
        self.record = SimulationRecord(works if reading.state is None else [*works, STATE_WORK])
        self._agenda = EventAgenda()
        self._source = reading.source
        self._changes: Changes | None = None
        self._last = (datetime.max.replace(tzinfo=UTC) - spec.start).total_seconds()
        self._until = inf if spec.until is None else parse_moment(spec.until, spec.start)
        self.record.until = self._until
        self._submissions = list_submissions(reading)
        self.record.expected = count_submissions(reading)
        self._coming = False  # whether another job is planned
        names = [name for worker in workers for name in worker.reading.names]
        routes = find_routes(reading, site, configuration, names)
        if not routes:
            checkpoints = [make_checkpoints(reading, number) for number in range(len(spec.work))]
            shared = (spec, site, configuration, self._agenda, self.record)
            engine = ChangeableEngine(*shared, checkpoints, decisions)
            self._engine: Engine = engine
            self._changes = engine.changes = Changes(reading, site, self._agenda, engine)
            if reading.state is not None:
                engine.take_up(read_residents(reading, site, convert.ConversionSettings.of(configuration)))
                self.record.expected += len(self.record)
            return
        _refuse_beside_clusters(reading, site)
        self._engine = manager = ManagerEngine(spec, site, configuration, self._agenda, self.record, routes, decisions)
        for worker in workers:
            for name in worker.reading.names:
                shared = (worker.reading.reading.scenario.spec, worker.site, configuration, self._agenda, self.record)
                manager.add_worker(WorkerEngine(name, *shared, notice=manager.on_clone), worker.reading.losses)
        manager.require_queues(reading, site)

    def run(self, progress: Progress | None = None) -> None:
        """Simulate until all jobs have ended, nothing more can happen, or the scenario's time is over.

        progress: called after the events of each time.

        Raises `ScenarioError` if the time would exceed the year 9999.
        """
        self._expect_next()
        if self._changes is not None:
            self._changes.plan_next()
        stillness = Stillness(self.record)
        while self._agenda and (self._coming or self._engine.is_busy):
            now = self._agenda.next_at
            if now > self._until:
                self.record.now = self._until
                return
            if now > self._last:
                raise self._source.error("spec", f"would pass the year {MAXYEAR}: set until to end before it")
            self.record.now = now
            while (event := self._agenda.take_due(now)) is not None:
                event()
            self._engine.settle()
            self._engine.measure()
            if progress is not None:
                progress(self.record)
            stillness.count_moment()
            if stillness.is_long and self._is_stuck(stillness):
                return

    @property
    def engine(self) -> Engine:
        """The engine of the simulated cluster, or of the manager if there are worker clusters."""
        return self._engine

    @property
    def engines(self) -> Sequence[Engine]:
        """All clusters that make decisions: the manager and its workers."""
        manager = self._engine
        return (manager, *manager.workers) if isinstance(manager, ManagerEngine) else (manager,)

    def _is_stuck(self, stillness: Stillness) -> bool:
        """Return whether nothing but timeouts can happen any more."""
        expects = self._coming or (self._changes is not None and self._changes.has_more)
        return not expects and stillness.lasts(self._engine.count_jobs())

    def list_waiting(self) -> Iterator[Waiting]:
        """Yield the jobs that do not run, with the reasons."""
        return self._engine.list_waiting()

    def _expect_next(self) -> None:
        """Plan the next submission, if there is one.

        Only one submission is planned at a time, because all of them may not fit into memory.
        """
        submission = next(self._submissions, None)
        self._coming = submission is not None
        if submission is not None:
            self._agenda.plan(submission.at, Rank.ARRIVAL, partial(self._submit, submission))

    def _submit(self, submission: Submission) -> None:
        self._expect_next()
        self._engine.submit(submission)


def _refuse_beside_clusters(reading: Reading, site: Site) -> None:
    """Raise `ScenarioError` if the scenario has a feature that is not simulated together with worker clusters."""
    spec = reading.scenario.spec
    checkpoints = {f"spec.work[{number}].checkpoint": work.checkpoint for number, work in enumerate(spec.work)}
    groups = {f"spec.work[{number}].podGroup": work.pod_group for number, work in enumerate(spec.work)}
    for path, value in ({"spec.changes": spec.changes, "spec.state": spec.state} | checkpoints | groups).items():
        if value:
            raise reading.source.error(path, "cannot be simulated together with spec.clusters")
    if (elastic := find_elastic_work(reading, site)) is not None:
        raise reading.source.error(elastic, "an elastic job cannot be simulated together with spec.clusters")
