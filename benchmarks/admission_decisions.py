"""What an admission decision costs: the pure cycle, without objects, server or store.

    python benchmarks/admission_decisions.py [--pending 1000,10000,100000] [--rounds 2000] [--profile]

First, one ClusterQueue with many that wait. "next": one workload ends and the next is admitted. "nothing": one ends, but
what it frees is not enough for anybody. "new": one more comes that does not fit. Each of these is one event: the tree
and the queues are told, and a cycle runs. The cost must not depend on how many wait.

Then 1,000 ClusterQueues in 10 Cohorts with 50,000 workloads in the mix of Kueue's large-scale benchmark, from nothing to
all done in virtual time. A decision is a head that was admitted, displaced others, or was found not to fit.
"""

import argparse
import cProfile
import gc
import heapq
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from muster.api.selectors import EVERYTHING
from muster.queueing.cycle import Outcome, Settings, run
from muster.queueing.model import (
    FlavorResource,
    FlavorSpec,
    PodSet,
    Preemption,
    QueueSpec,
    Quota,
    ResourceGroup,
    Workload,
)
from muster.queueing.queues import Queues
from muster.queueing.quota import Tree

START = datetime(2026, 1, 1, tzinfo=UTC)
CPU = FlavorResource("default", "cpu")
FLAVORS = {"default": FlavorSpec("default")}
# Of Kueue's benchmark: how many of 50 in a ClusterQueue, CPUs, priority, seconds that it runs, milliseconds between two.
CLASSES = {"small": (35, 1, 50, 0.2, 100), "medium": (11, 5, 100, 0.5, 500), "large": (4, 20, 200, 1.0, 1200)}
PER_QUEUE = sum(kind[0] for kind in CLASSES.values())


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


def workload(name: str, queue: str, cpus: int, at: float, priority: int = 0) -> Workload:
    """One pod."""
    moment = START + timedelta(seconds=at)
    podsets = (PodSet("main", 1, {"cpu": cpus * 1000}),)
    return Workload(f"ns/{name}", name, queue, "ns/main", priority, moment, moment, podsets)


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

    def cycle(self) -> Outcome:
        """Decide."""
        return run(self.tree, self.queues, FLAVORS, Settings(), START)

    def end(self) -> Outcome:
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


def large_scale(queues: int, cohorts: int) -> Iterator[tuple[QueueSpec, list[Workload]]]:
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


def play(queues: int, cohorts: int, every: float) -> dict[str, float]:
    """All at once, then as quota frees, one cycle every so many (virtual) seconds; evictions end at once."""
    tree, waiting = Tree(), Queues()
    seconds = {priority: took for _, _, priority, took, _ in CLASSES.values()}
    for spec, workloads in large_scale(queues, cohorts):
        tree.set_queue(spec)
        waiting.set_queue(spec)
        for one in workloads:
            waiting.add(one)
    count, now, ends = len(waiting), 0.0, list[tuple[float, str, Workload]]()
    totals = {"admitted": 0, "preempted": 0, "looks": 0, "decisions": 0}
    began = time.perf_counter()
    while len(waiting) or ends:
        if not waiting.untried:
            now = max(now + every, ends[0][0])
        while ends and ends[0][0] <= now:
            done = heapq.heappop(ends)[2]
            node = tree.queues[done.queue]
            if node.workloads.get(done.key) is done:
                tree.release(done)
                waiting.flush(node, done.usage)
        outcome = run(tree, waiting, FLAVORS, Settings(), START + timedelta(seconds=now))
        for admission in outcome.admitted:
            heapq.heappush(ends, (now + seconds[admission.workload.priority], admission.workload.key, admission.workload))
        for preemption in outcome.preemptions:
            for victim in preemption.victims:
                gone = victim.workload
                tree.release(gone)
                waiting.flush(tree.queues[gone.queue], gone.usage)
                waiting.add(replace(gone, usage=None, reserved=None))
        totals["admitted"] += len(outcome.admitted)
        totals["preempted"] += sum(len(preemption.victims) for preemption in outcome.preemptions)
        totals["looks"] += outcome.looks
        totals["decisions"] += len(outcome.admitted) + len(outcome.preemptions) + len(outcome.pending)
    taken = time.perf_counter() - began
    return {"workloads": count, "seconds": taken, "virtual": now, **totals}


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
    profiler = cProfile.Profile()
    if arguments.profile:
        profiler.enable()
    result = play(arguments.queues, 10, arguments.every)
    profiler.disable()
    print()
    print(
        f"{result['workloads']:,} workloads, {arguments.queues:,} ClusterQueues: {result['seconds']:.1f} s "
        f"({result['virtual']:.1f} s virtual), {result['admitted']:,} admitted, {result['preempted']:,} preempted, "
        f"{result['looks']:,} looks, {result['decisions']:,} decisions, "
        f"{result['decisions'] / result['seconds']:,.0f} decisions/s, {result['admitted'] / result['seconds']:,.0f} admissions/s"
    )
    if arguments.profile:
        profiler.print_stats("cumulative")


if __name__ == "__main__":
    main()
