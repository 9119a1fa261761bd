"""A manager and some workers: what each does is a step, and any order of steps may happen."""

from collections.abc import Callable
from datetime import timedelta
from itertools import count
from random import Random

from msgspec.structs import replace
from tests.unit.multicluster.dispatch.manager import Manager, workload
from tests.unit.multicluster.dispatch.servers import Admission, Server, Store, Worker

from muster.api.config.types import ALL_AT_ONCE
from muster.api.kueue import Workload


class World(Manager):
    """All of them, from the submission of the job to its end; and what becomes of them meanwhile."""

    def __init__(self, random: Random, workers: int = 2, size: int = 1, dispatcher: str = ALL_AT_ONCE) -> None:
        self._uids = count()
        self._all = [Worker(name, self._server()) for name in "abc"[:workers]]
        members = tuple(f"train-{number}" for number in range(size))
        super().__init__(random, {worker.name: worker for worker in self._all}, members, dispatcher)
        self.is_rebuilt = False  # what runs is to be found
        self.past: dict[str, Store] = {}  # earlier states of workers
        self.past_here: tuple[Workload, str] | None = None
        self._happenings, self._troubles = self._often(), self._seldom()

    def _server(self, *, takes: bool = True) -> Server:
        return Server(self._uids, takes)

    # What happens, one small step at a time.

    def step(self) -> None:
        """Something that may happen does."""
        worker = self.random.choice(self._all)
        self.random.choice(self._happenings)(worker)
        self._loosen()

    def _often(self) -> list[Callable[[Worker], object]]:
        """What happens most of the time."""
        random = self.random
        return [
            *([lambda _: self.look()] * 6),
            *([Worker.see] * 4),
            *([lambda worker: worker.land(self._late(len(worker.sent)), self.now)] * 4),
            *([lambda worker: worker.server.work(self.now, may_end=random.random() < 0.3)] * 5),
            *([lambda _: self.live_here()] * 4),
            *([lambda _: self.collect()] * 2),
            lambda _: self.pass_time(),
            self.trouble,
        ]

    def _late(self, sent: int) -> int:
        """Which request lands: one at times after those that were sent later."""
        return 0 if not sent or self.random.random() < 0.9 else self.random.randrange(sent)

    def trouble(self, worker: Worker) -> None:
        """Trouble of one kind."""
        self.random.choice(self._troubles)(worker)

    def _seldom(self) -> list[Callable[[Worker], object]]:
        """All that may go wrong, or change."""
        common: list[Callable[[Worker], object]] = [self.lose, self.find, self.flap, self.preempt_here]
        common += [self.evict_there, self.delete_there, self.change_room]
        return [
            *(common * 3),
            self.hold_or_release,
            self.delete_here,
            self.replace_member,
            self.change_priority,
            self.strange_job,
            self.restore_or_remember,
            self.swap,
            self.restart,
            self.rebuild,
        ]

    def pass_time(self) -> None:
        self.now += timedelta(seconds=self.random.choice((1, 30, 400, 1000)))

    def lose(self, worker: Worker) -> None:
        worker.lose(self.now)

    def find(self, worker: Worker) -> None:
        worker.find(is_home=worker.name == self.home)

    def flap(self, worker: Worker) -> None:
        """It goes and comes, and what was under way may be lost."""
        for _ in range(self.random.randrange(1, 5)):
            self.lose(worker)
            self.now += timedelta(seconds=5)
            worker.sent = [request for request in worker.sent if self.random.random() < 0.5]
            self.find(worker)

    def evict_there(self, worker: Worker) -> None:
        worker.server.evict(self.now)

    def change_room(self, worker: Worker) -> None:
        """Its quota changes, or its engine ends or begins."""
        worker.server.admission = self.random.choice(list(Admission))

    def delete_there(self, worker: Worker) -> None:
        """A person takes something away."""
        store = worker.server.store
        self.cleared.add(worker.name)
        if self.random.random() < 0.5:
            for job in store.jobs.values():
                job.going = job.going or job.ours
        else:
            store.clones.clear()

    def strange_job(self, worker: Worker) -> None:
        """Another maker's job of that name comes, or goes."""
        name, jobs = self.members[0], worker.server.store.jobs
        if name not in jobs:
            worker.server.create_job(name, "")
            jobs[name].ours = False
        elif not jobs[name].ours:
            del jobs[name]

    def restore_or_remember(self, worker: Worker) -> None:
        """A backup is made of its server, or takes its place: it may have what runs where it does not run any more."""
        if worker.name in self.past and self.random.random() < 0.5:
            worker.restore(self.past[worker.name], self.now)
            worker.loose, self.cleared = True, {*self.cleared, worker.name}
        elif worker.known:
            self.past[worker.name] = worker.server.store.copy()

    def swap(self, worker: Worker) -> None:
        worker.swap(self._server(takes=worker.server.takes), self.now)
        self.past.pop(worker.name, None)
        self.cleared.add(worker.name)

    def hold_or_release(self, _worker: Worker) -> None:
        """A person stops it here, or lets it go on."""
        self.held = not self.held
        if self.held:
            self.preempt_here()

    def delete_here(self, _worker: Worker | None = None) -> None:
        """A person deletes the job, and with it the workload."""
        if (one := self.workload) is not None:
            metadata = replace(one.metadata, deletion_timestamp=one.metadata.deletion_timestamp or self.now)
            self.workload = replace(one, metadata=metadata)

    def replace_member(self, _worker: Worker) -> None:
        """A pod of the group is deleted, and another takes its place."""
        if len(self.members) > 1:
            gone = self.random.choice(self.members)
            self.cleared.update(self.workers)
            others = (name for name in self.members if name != gone)
            self.members = (*others, f"train-{next(self.numbers)}")

    def change_priority(self, _worker: Worker) -> None:
        if (one := self.workload) is not None:
            self.workload = replace(one, spec=replace(one.spec, priority=self.random.randrange(3)))

    def rebuild(self, _worker: Worker) -> None:
        """Its store is lost: it has that of an earlier time, or the job is submitted again, as it was."""
        one = self.workload
        if one is None:
            return
        if self.past_here is None or self.random.random() < 0.3:
            self.past_here = one, self.home
            return
        if self.random.random() < 0.5 and self.past_here[0].metadata.name == one.metadata.name:
            self.workload, self.home = self.past_here
        else:
            self.workload, self.home = workload(one.metadata.name), ""
        self.local_runs = self.local_ended = False
        self.is_rebuilt = True
        self.cleared.update(self.workers)
        for worker in self.workers.values():  # of a lost one it cannot know
            worker.loose = worker.loose or worker.cut or worker.lost_since is not None or bool(worker.sent)
        self.restart()

    # Laws.

    def _loosen(self) -> None:
        """A cluster that has been cleared, or that is the home, is held to the laws again."""
        for worker in [worker for worker in self._all if worker.loose]:
            ours = [job for job in worker.server.store.jobs.values() if job.ours]
            is_clean = worker.lost_since is None and not ours and not worker.server.store.clones and not worker.sent
            if is_clean or (worker.known and worker.name == self.home):
                worker.loose = False
        if self.is_rebuilt:  # a job that was made before may start later
            jobs = (job for worker in self._all for job in worker.server.store.jobs.values())
            self.is_rebuilt = not self.home and any(job.ours for job in jobs)

    def running(self) -> list[str]:
        """Where it has pods, but for clusters where that is not the manager's fault."""
        return [
            worker.name
            for worker in self.workers.values()
            if not worker.loose and any(job.runs and job.ours for job in worker.server.store.jobs.values())
        ]

    def kept(self) -> list[str]:
        """Where something of it is."""
        stores = {name: worker.server.store for name, worker in self.workers.items()}
        return [name for name, store in stores.items() if store.clones or any(job.ours for job in store.jobs.values())]

    def may_run(self) -> bool:
        return self.has_quota() or self.is_rebuilt

    def _is_at_rest(self) -> bool:
        over = self.workload is None if self.is_over else self.has_finished()
        return over and not self.home and self.kept() in ([], [self.cluster])

    def settle(self, rounds: int = 200, lost: str = "", full: str = "") -> None:
        """No more trouble: everything goes its way in turn, but for a worker that is away or admits nothing."""
        self.held, self.is_calm = False, True
        for worker in self.workers.values():
            denial = self.random.choice((Admission.REFUSES, Admission.IS_SILENT))
            worker.server.admission = denial if worker.name == full else Admission.ADMITS
            worker.server.store.jobs = {name: job for name, job in worker.server.store.jobs.items() if job.ours}
        quiet = 0
        while quiet < 3:
            rounds -= 1
            if rounds < 0:
                return
            quiet = quiet + 1 if self._is_at_rest() else 0
            self.now += timedelta(seconds=30)
            self.live_here()
            for worker in self.workers.values():
                self.lose(worker) if worker.name == lost else self.find(worker)
                for _ in worker.sent[:]:
                    worker.land(0, self.now)
                worker.server.work(self.now)
                worker.see()
            self.collect()
            self.look()
