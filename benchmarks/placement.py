"""What a placement decision costs, by gang and cluster size, beside asking for every pod and node in turn.

    python benchmarks/placement.py

The plain way is measured for 20 pods of the gang; the ratio takes the others to cost as much.
"""

import time
from collections.abc import Callable

import msgspec

from muster.api.core import Node, Pod
from muster.gang.capacity import Capacity
from muster.gang.placement import Placement, Refusal, place
from muster.gang.shapes import Shape, shape_of


def cluster(nodes: int, cpus: int = 8) -> Capacity:
    capacity = Capacity()
    for number in range(nodes):
        capacity.set_node(
            msgspec.convert(
                {
                    "metadata": {"name": f"n{number}"},
                    "status": {
                        "allocatable": {"cpu": str(cpus), "memory": "64Gi", "pods": "110"},
                        "conditions": [{"type": "Ready", "status": "True"}],
                    },
                },
                Node,
            )
        )
    return capacity


def shape(cpu: str) -> Shape:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    return shape_of(msgspec.convert({"metadata": {"name": "p"}, "spec": {"containers": [container]}}, Pod))


def one_by_one(nodes: int, wanted: int, cpus: int = 8) -> int:
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
        started = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - started)
    return best


def main() -> None:
    print(f"{'nodes':>7} {'gang':>7} {'fits':>5} {'ms':>9} {'from 20 pods':>14} {'ratio':>9}")
    for nodes, wanted in ((100, 10), (1000, 100), (1000, 8000), (5000, 10), (5000, 1000), (5000, 10000), (5000, 50000)):
        capacity = cluster(nodes)
        gang = {shape("1"): wanted}
        outcome = place(capacity, gang)
        assert isinstance(outcome, Placement if wanted <= 8 * nodes else Refusal)
        fast = seconds(lambda capacity=capacity, gang=gang: place(capacity, gang), 20)  # type: ignore[misc]
        pods = min(wanted, 20)  # enough to know what one costs
        slow = seconds(lambda nodes=nodes, pods=pods: one_by_one(nodes, pods), 1) / pods * wanted  # type: ignore[misc]
        fits = "yes" if isinstance(outcome, Placement) else "no"
        print(f"{nodes:7} {wanted:7} {fits:>5} {fast * 1e3:9.3f} {slow * 1e3:14.1f} {slow / fast:8.0f}x")


if __name__ == "__main__":
    main()
