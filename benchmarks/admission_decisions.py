"""What an admission decision costs: the pure cycle, without objects, server or store.

    python benchmarks/admission_decisions.py [--pending 1000,10000,100000] [--rounds 2000] [--profile]

First, one ClusterQueue with many that wait. "next": one workload ends and the next is admitted. "nothing": one ends,
but what it frees is not enough for anybody. "new": one more comes that does not fit. Each of these is one event: the
tree and the queues are told, and a cycle runs. The cost must not depend on how many wait.

Then 1,000 ClusterQueues in 10 Cohorts with 50,000 workloads in the mix of Kueue's large-scale benchmark, until all are
done, in virtual time: all there at once, and coming as in that benchmark, when the large displace the small. A decision
is a head that was admitted, displaced others, or was found not to fit.
"""

import argparse
import cProfile
import gc
import heapq
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from muster.api.values.selectors import EVERYTHING
from muster.queueing.model import (
    FlavorResource,
    FlavorSpec,
    PodSet,
    Preemption,
    QueueSpec,
    Quota,
    ResourceGroup,
    WorkloadInfo,
)
from muster.queueing.pending.queues import Queues
from muster.queueing.quota.tree import Tree
from muster.queueing.scheduling.cycle import AdmissionSettings, CycleOutcome, run

START = datetime(2026, 1, 1, tzinfo=UTC)
CPU = FlavorResource("default", "cpu")
FLAVORS = {"default": FlavorSpec("default")}
# Of Kueue's benchmark: how many in a ClusterQueue, CPUs, priority, seconds that one runs, milliseconds between two.
CLASSES = {"small": (35, 1, 50, 0.2, 100), "medium": (11, 5, 100, 0.5, 500), "large": (4, 20, 200, 1.0, 1200)}
SECONDS = {priority: seconds for _, _, priority, seconds, _ in CLASSES.values()}


def queue(name: str, cpus: int, *, cohort: str = "", preemption: Preemption | None = None) -> QueueSpec:
    """A ClusterQueue with one flavor."""
    return QueueSpec(
        name,
        cohort,
        groups=(ResourceGroup(("cpu",), ("default",)),),
        quotas={CPU: Quota(cpus * 1000, 100_000 if cohort else None)},
        namespaces=EVERYTHING,
        preemption=preemption or Preemption(),
    )


def workload(name: str, queue: str, cpus: int, at: float, priority: int = 0) -> WorkloadInfo:
    """One pod."""
    moment = START + timedelta(seconds=at)
    podsets = (PodSet("main", 1, {"cpu": cpus * 1000}),)
    return WorkloadInfo(f"ns/{name}", name, queue, "ns/main", priority, moment, moment, podsets)


class Line:
    """One ClusterQueue in which 100 run, each with 2 CPUs, and many wait."""

    def __init__(self, pending: int, cpus: int) -> None:
        self.tree, self.queues = Tree(), Queues()
        spec = queue("queue", 200)
        self.node = self.tree.set_queue(spec)
        self.queues.set_queue(spec)
        self.cpus = cpus
        for number in range(100):
            self.queues.add(workload(f"run-{number:06d}", "queue", 2, 0))
        self.running = [one.workload for one in self.cycle().admitted][::-1]
        self.count = 0
        for _ in range(pending):
            self.come()
        self.cycle()

    def come(self) -> None:
        """One more waits."""
        self.count += 1
        self.queues.add(workload(f"wait-{self.count:06d}", "queue", self.cpus, self.count, self.count % 3))

    def cycle(self) -> CycleOutcome:
        """Decide."""
        return run(self.tree, self.queues, FLAVORS, AdmissionSettings(), START)

    def end(self) -> CycleOutcome:
        """The one that runs longest ends."""
        self.tree.release(self.running.pop())
        self.queues.flush(self.node, (CPU,))
        outcome = self.cycle()
        self.running[:0] = [one.workload for one in outcome.admitted]
        return outcome

    def next(self) -> None:
        """One for one; the line stays as long as it is."""
        assert len(self.end().admitted) == 1
        self.come()

    def nothing(self) -> None:
        """One ends, nobody fits, and it is as before."""
        one = self.running[-1]
        assert not self.end().admitted
        self.tree.hold(one)
        self.running.append(one)

    def new(self) -> None:
        """One more, for whom there is no room either."""
        self.come()
        assert not self.cycle().admitted
        self.queues.remove(f"ns/wait-{self.count:06d}")


def each(action: Callable[[], None], rounds: int) -> float:
    """Microseconds."""
    gc.collect()
    gc.freeze()
    began = time.perf_counter()
    for _ in range(rounds):
        action()
    taken = time.perf_counter() - began
    gc.unfreeze()
    return taken / rounds * 1e6


def large_scale(queues: int, cohorts: int) -> Iterator[tuple[QueueSpec, list[WorkloadInfo]]]:
    """ClusterQueues with what is submitted to each, in time."""
    preemption = Preemption("LowerPriority", "Any")
    for number in range(queues):
        name = f"queue-{number:04d}"
        workloads = [
            workload(f"{name}-{kind}-{serial}", name, cpus, serial * gap / 1000, priority)
            for kind, (count, cpus, priority, _, gap) in CLASSES.items()
            for serial in range(count)
        ]
        yield queue(name, 20, cohort=f"cohort-{number % cohorts}", preemption=preemption), workloads


class Play:
    """A cycle every so many (virtual) seconds while anything happens; who is displaced is gone at once."""

    def __init__(self, queues: int, cohorts: int, every: float, *, in_time: bool) -> None:
        self.tree, self.queues = Tree(), Queues()
        self.every, self.now = every, 0.0
        self.coming: list[tuple[float, str, WorkloadInfo]] = []
        self.ends: list[tuple[float, str, WorkloadInfo]] = []
        for spec, workloads in large_scale(queues, cohorts):
            self.tree.set_queue(spec)
            self.queues.set_queue(spec)
            for one in workloads:
                at = (one.created - START).total_seconds() if in_time else 0.0
                self.coming.append((at, one.key, one))
        heapq.heapify(self.coming)
        self.count = len(self.coming)
        self.admitted = self.preempted = self.looks = self.decisions = self.cycles = 0
        self.longest = 0.0

    def run(self) -> float:
        """Seconds."""
        began = time.perf_counter()
        while self.coming or self.ends or len(self.queues):
            self._happen()
            start = time.perf_counter()
            outcome = run(self.tree, self.queues, FLAVORS, AdmissionSettings(), START + timedelta(seconds=self.now))
            self.longest = max(self.longest, time.perf_counter() - start)
            self._apply(outcome)
        return time.perf_counter() - began

    def _happen(self) -> None:
        if not self.queues.untried:
            self.now = max(self.now + self.every, min(heap[0][0] for heap in (self.coming, self.ends) if heap))
        while self.coming and self.coming[0][0] <= self.now:
            self.queues.add(heapq.heappop(self.coming)[2])
        while self.ends and self.ends[0][0] <= self.now:
            done = heapq.heappop(self.ends)[2]
            if self.tree.queues[done.queue].workloads.get(done.key) is done:
                self._free(done)

    def _free(self, workload: WorkloadInfo) -> None:
        self.tree.release(workload)
        self.queues.flush(self.tree.queues[workload.queue], workload.usage)

    def _apply(self, outcome: CycleOutcome) -> None:
        for one in (admission.workload for admission in outcome.admitted):
            heapq.heappush(self.ends, (self.now + SECONDS[one.priority], one.key, one))
        for preemption in outcome.preemptions:
            for victim in preemption.victims:
                self._free(victim.workload)
                self.queues.add(replace(victim.workload, usage=None, reserved=None))
        self.cycles += 1
        self.admitted += len(outcome.admitted)
        self.preempted += sum(len(preemption.victims) for preemption in outcome.preemptions)
        self.looks += outcome.nominations
        self.decisions += len(outcome.admitted) + len(outcome.pending)


def lines(sizes: list[int], rounds: int) -> None:
    """The first table."""
    print("| microseconds for each event | " + " | ".join(f"{size:,} wait" for size in sizes) + " |")
    print("|---|" + "---:|" * len(sizes))
    table: dict[str, list[str]] = {"next": [], "nothing": [], "new": []}
    for size in sizes:
        small, large = Line(size, 2), Line(size, 3)
        for name, action in (("next", small.next), ("nothing", large.nothing), ("new", large.new)):
            each(action, rounds // 10)
            table[name].append(f"{each(action, rounds):.0f}")
    for name, cells in table.items():
        print(f"| {name} | " + " | ".join(cells) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pending", default="1000,10000,100000")
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--queues", type=int, default=1000)
    parser.add_argument("--every", type=float, default=0.01, help="virtual seconds between cycles")
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    lines([int(size) for size in arguments.pending.split(",")], arguments.rounds)
    print()
    print("| | virtual s | s | cycles | longest ms | admitted | displaced | looks | decisions/s | admissions/s |")
    print("|---|" + "---:|" * 9)
    for name, in_time in (("all at once", False), ("in time", True)):
        play = Play(arguments.queues, 10, arguments.every, in_time=in_time)
        profiler = cProfile.Profile()
        if arguments.profile:
            profiler.enable()
        taken = play.run()
        profiler.disable()
        print(
            f"| {name} | {play.now:.1f} | {taken:.1f} | {play.cycles:,} | {play.longest * 1000:,.0f} "
            f"| {play.admitted:,} | {play.preempted:,} | {play.looks:,} "
            f"| {play.decisions / taken:,.0f} | {play.admitted / taken:,.0f} |"
        )
        if arguments.profile:
            profiler.print_stats("tottime")


if __name__ == "__main__":
    main()
