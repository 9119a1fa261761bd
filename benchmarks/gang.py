"""What decisions about gangs cost: placement, racks, pending gangs, reservation and preemption. No server takes part.

    python benchmarks/gang.py

Times are the processor's, the best of a few rounds. Pod by pod, the plain way, is measured for 20 pods; the ratio takes
the others to cost as much.
"""

import resource
import time
from collections.abc import Callable
from datetime import UTC, datetime
from random import Random

import msgspec
import numpy as np

from muster.api.core import Node, Pod
from muster.controllers.scheduler.order import OrderCriteria
from muster.controllers.scheduler.pending import PendingGangs, Waiter
from muster.controllers.scheduler.roster import Roster
from muster.gang.arrays import Ints
from muster.gang.nodes.capacity import Capacity, Strategy
from muster.gang.order.ends import EndTime
from muster.gang.order.ledger import GangLedger, RunningGang
from muster.gang.order.preemption import Candidate, GangPreemption, preempt
from muster.gang.order.reservation import Reservation, may_pass, reserve
from muster.gang.placement import Placement, Refusal, place, sum_placement_use
from muster.gang.shapes import Shape, guest_like, shape_of
from muster.gang.topology import TopologyConstraint, place_near

RACK = "example.com/rack"
NODES, CPUS, RACKS = 5000, 8, 50


def cluster(nodes: int, cpus: int = CPUS, racks: int = 0) -> Capacity:
    capacity = Capacity()
    for number in range(nodes):
        labels = {RACK: f"r{number % racks}"} if racks else {}
        capacity.set_node(
            msgspec.convert(
                {
                    "metadata": {"name": f"n{number}", "labels": labels},
                    "status": {
                        "allocatable": {"cpu": str(cpus), "memory": "64Gi", "pods": "110"},
                        "conditions": [{"type": "Ready", "status": "True"}],
                    },
                },
                Node,
            )
        )
    return capacity


def shape(cpu: str, memory: str = "1Gi") -> Shape:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    return shape_of(msgspec.convert({"metadata": {"name": "p"}, "spec": {"containers": [container]}}, Pod))


def bind(capacity: Capacity, name: str, placement: Placement) -> list[str]:
    uids: list[str] = []
    for one in placement.nodes:
        guest = guest_like(one)
        for node in placement.expand(one):
            uids.append(f"{name}-{len(uids)}")
            capacity.assign(uids[-1], node, guest)
    return uids


def one_by_one(nodes: int, wanted: int, cpus: int = CPUS) -> int:
    """The plain way: for each pod the fullest node that takes it."""
    free = [[cpus * 1000, 64 << 30, 110] for _ in range(nodes)]
    ask = (1000, 1 << 30, 1)
    placed = 0
    for _ in range(wanted):
        best = None
        for room in free:
            if all(has >= want for has, want in zip(room, ask, strict=True)) and (best is None or room[0] < best[0]):
                best = room
        if best is None:
            break
        for index, want in enumerate(ask):
            best[index] -= want
        placed += 1
    return placed


def seconds(work: Callable[[], object], rounds: int) -> float:
    best = float("inf")
    for _ in range(rounds):
        started = time.process_time()
        work()
        best = min(best, time.process_time() - started)
    return best


def decisions() -> None:
    print(f"{'nodes':>7} {'gang':>7} {'fits':>5} {'ms':>9} {'pod by pod, ms':>15} {'ratio':>9}")
    for nodes, wanted in ((100, 10), (1000, 100), (1000, 8000), (5000, 10), (5000, 1000), (5000, 10000), (5000, 50000)):
        capacity = cluster(nodes)
        gang = {shape("1"): wanted}
        outcome = place(capacity, gang)
        assert isinstance(outcome, Placement if wanted <= CPUS * nodes else Refusal)
        fast = seconds(lambda capacity=capacity, gang=gang: place(capacity, gang), 20)  # type: ignore[misc]
        pods = min(wanted, 20)  # enough to know what one costs
        slow = seconds(lambda nodes=nodes, pods=pods: one_by_one(nodes, pods), 1) / pods * wanted  # type: ignore[misc]
        fits = "yes" if isinstance(outcome, Placement) else "no"
        print(f"{nodes:7} {wanted:7} {fits:>5} {fast * 1e3:9.3f} {slow * 1e3:15.1f} {slow / fast:8.0f}x")


def gangs_in_turn(gangs: int, size: int, *, racks: bool = False, impossible: int = 0) -> tuple[float, float]:
    """Gangs placed one after the other, each beside those before it: seconds to decide, and with each pod assigned.

    impossible: so many in ten of them ask for more than there is.
    """
    capacity = cluster(NODES, racks=RACKS)
    near = TopologyConstraint((RACK,), required=RACK)
    one, deciding = shape("1"), 0.0
    started = time.process_time()
    for number in range(gangs):
        wanted = NODES * CPUS + 1 if number % 10 < impossible else size
        before = time.process_time()
        outcome = place_near(capacity, {one: wanted}, near) if racks else place(capacity, {one: wanted})
        deciding += time.process_time() - before
        assert isinstance(outcome, Refusal if wanted != size else Placement)
        if isinstance(outcome, Placement):
            bind(capacity, str(number), outcome)
    return deciding, time.process_time() - started


def in_turn() -> None:
    print(f"\n{NODES} nodes, gangs in turn")
    print(f"{'':24} {'decisions, ms':>14} {'us/gang':>9} {'with pods, ms':>14} {'pods/s':>9}")
    cases = [(1, 10000), (10, 1000), (100, 100), (1000, 10), (3000, 3)]
    for gangs, size in cases:
        report(f"{gangs} x {size}", gangs, size)
    for gangs, size in cases[1:]:
        if size <= NODES * CPUS // RACKS:
            report(f"{gangs} x {size} in {RACKS} racks", gangs, size, racks=True)
    report("1000 x 10, 3 in 10 never", 1000, 10, impossible=3)


def report(name: str, gangs: int, size: int, *, racks: bool = False, impossible: int = 0) -> None:
    runs = [gangs_in_turn(gangs, size, racks=racks, impossible=impossible) for _ in range(3)]
    deciding, whole = min(one for one, _ in runs), min(both for _, both in runs)
    pods = gangs * size * (10 - impossible) // 10
    print(f"{name:24} {deciding * 1e3:14.1f} {deciding / gangs * 1e6:9.0f} {whole * 1e3:14.1f} {pods / whole:9.0f}")


def pending(gangs: int = 10_000, classes: int = 30) -> None:
    """Many gangs that wait in a full cluster: what a sweep over all of them costs."""
    roster = Roster((), frozenset(), Strategy.TIGHT)
    roster.capacity = cluster(NODES)
    one = shape("1")
    full = place(roster.capacity, {one: NODES * CPUS})
    assert isinstance(full, Placement)
    bind(roster.capacity, "full", full)
    waiting = PendingGangs(roster, lambda _: GangLedger())
    random, created = Random(1), datetime(2026, 1, 1, tzinfo=UTC)
    shapes = [shape("1", f"{number + 1}Mi") for number in range(classes)]
    for number in range(gangs):
        alike = (frozenset({(shapes[number % classes], 1 + number % 7)}), None)
        criteria = OrderCriteria(broken=False, priority=random.randrange(3), tenant=f"t{number % 50}", created=created)
        waiting.wait(f"ns/gang{number}/uid", Waiter(alike, criteria))

    def sweep() -> None:
        for key in waiting.sweep():
            waiter = waiting.get(key)
            assert waiter is not None
            ((one, count),) = waiter.alike[0]  # type: ignore[index]
            assert isinstance(place(roster.capacity, {one: count}), Refusal)

    print(f"\n{gangs} pending gangs of {classes * 7} kinds, no room: a sweep takes {seconds(sweep, 3) * 1e3:.0f} ms")


def filled(nodes: int, random: Random) -> tuple[Capacity, dict[str, list[str]]]:
    """A full cluster: gangs of 1 to 16 pods of one CPU, half of them of one pod."""
    capacity, gangs, free = cluster(nodes), dict[str, list[str]](), nodes * CPUS
    while free:
        size = min(free, random.choice([1, 1, 1, 1, 2, 4, 8, 16]))
        outcome = place(capacity, {shape("1"): size})
        assert isinstance(outcome, Placement)
        gangs[f"g{len(gangs)}"] = bind(capacity, f"g{len(gangs)}", outcome)
        free -= size
    return capacity, gangs


def preemption() -> None:
    print(
        f"\nwhole gangs displaced\n{'nodes':>7} {'gangs':>7} {'pods wanted':>12} {'shapes':>7} {'ms':>8} {'victims':>8}"
    )
    for nodes in (200, 1000):
        random = Random(1)
        capacity, gangs = filled(nodes, random)
        running = [Candidate(key, uids, random.randrange(4), float(n)) for n, (key, uids) in enumerate(gangs.items())]
        for pods in ({shape("1"): 4 * nodes}, {shape("2"): 2 * nodes}, {shape("1"): 4 * nodes - 1, shape("2"): 1}):
            nothing = np.zeros_like(capacity.free())

            def decide(capacity=capacity, pods=pods, running=running, nothing=nothing) -> GangPreemption:  # type: ignore[no-untyped-def]
                found = preempt(
                    capacity,
                    pods,
                    lambda extra_use, _: place(capacity, pods, extra_use=extra_use),
                    10,
                    running,
                    0.0,
                    extra_use=nothing,
                )
                assert isinstance(found, GangPreemption)
                return found

            victims, took = len(decide().victims), seconds(decide, 3)
            print(f"{nodes:7} {len(running):7} {sum(pods.values()):12} {len(pods):7} {took * 1e3:8.0f} {victims:8}")


def reservation(gangs: int, cpus: int, sizes: list[int]) -> None:
    """A full cluster; the head wants nine tenths of it. After each pod that goes the ledger is brought up to date."""
    random, capacity, ledger = Random(1), cluster(NODES, cpus), GangLedger()
    one = shape("1")
    runs: list[RunningGang] = []
    for number in range(gangs):
        outcome = place(capacity, {one: random.choice(sizes)})
        if isinstance(outcome, Refusal):
            break
        runs.append(RunningGang(bind(capacity, str(number), outcome), 0.0, EndTime(1 + random.random() * 3600)))
    pods = sum(len(one.pods) for one in runs)
    wanted = int(NODES * cpus * 0.9)

    def placing(extra_use: Ints) -> Placement | Refusal:
        return place(capacity, {one: wanted}, extra_use=extra_use)

    def fill() -> None:
        for number, running in enumerate(runs):
            ledger.set(str(number), running, capacity)

    def again() -> Reservation | Refusal:
        ledger.set("0", runs[0], capacity)
        return reserve(capacity, "head", placing, ledger, 0.0)

    anew = seconds(fill, 1)
    found = again()
    assert isinstance(found, Reservation)
    assert found.shadow is not None
    took = seconds(again, 5)
    capacity.release(runs[0].pods[0])
    small = place(capacity, {one: 1})
    assert isinstance(small, Placement)
    taken = sum_placement_use(capacity, small)
    asked = seconds(lambda: may_pass(found, placing, taken, None), 20)
    print(f"\n{len(runs)} running gangs of {pods} pods: a reservation takes {took * 1e3:.1f} ms", end="")
    print(f" (what runs is read in {anew * 1e3:.0f} ms, once), whether one may pass {asked * 1e3:.2f} ms")


def main() -> None:
    decisions()
    in_turn()
    pending()
    preemption()
    reservation(2000, CPUS, [8, 16, 24, 32])
    reservation(150_000, CPUS * 4, [1, 1, 1, 2])
    print(f"\nmemory at the most: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MiB")


if __name__ == "__main__":
    main()
