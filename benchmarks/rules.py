"""What one decision costs by the rules between the pods of a gang, and by the scoring strategy. No server takes part.

    python benchmarks/rules.py

5,000 nodes of 8 CPUs, each with two small pods of others, in 3 zones and 313 racks. The processor's time, the best of
a few rounds.
"""

import time
from typing import Any

import msgspec

from muster.api.core import Node, Pod
from muster.gang.nodes.capacity import Capacity, Strategy
from muster.gang.placement import Placement, place
from muster.gang.shapes import Shape, guest_of, shape_of

NODES, ZONES, IN_RACK = 5000, 3, 16

SELECTOR = {"labelSelector": {"matchLabels": {"app": "x"}}}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def pod(name: str, app: str, container: Any = None, **spec: Any) -> Pod:
    requests = {"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    document = {
        "metadata": {"name": name, "namespace": "ns", "labels": {"app": app, "name": name}},
        "spec": {"containers": [{"name": "c"} | (requests if container is None else requests | container)], **spec},
    }
    return msgspec.convert(document, Pod)


def cluster(strategy: Strategy = Strategy.TIGHT) -> Capacity:
    capacity = Capacity(strategy)
    for number in range(NODES):
        labels = {"host": f"n{number}", "zone": f"z{number % ZONES}", "rack": f"r{number // IN_RACK}"}
        resources = {"cpu": "10", "memory": "64Gi", "pods": "110"}
        status = {"allocatable": resources, "conditions": [{"type": "Ready", "status": "True"}]}
        capacity.set_node(
            msgspec.convert({"metadata": {"name": f"n{number}", "labels": labels}, "status": status}, Node)
        )
        for other in range(2):
            name = f"other-{number}-{other}"
            capacity.assign(name, f"n{number}", guest_of(pod(name, "other")))
    return capacity


def affinity(kind: str, key: str) -> Any:
    return {kind: {REQUIRED: [{"topologyKey": key, **SELECTOR}]}}


def spread(key: str, otherwise: str = "DoNotSchedule") -> Any:
    return {"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": otherwise, **SELECTOR}


def asked(**spec: Any) -> Shape:
    return shape_of(pod("p", "x", **spec))


def report(name: str, capacity: Capacity, shape: Shape, wanted: int, rounds: int = 10) -> None:
    best = float("inf")
    for _ in range(rounds):
        started = time.process_time()
        outcome = place(capacity, {shape: wanted})
        best = min(best, time.process_time() - started)
        assert isinstance(outcome, Placement)
    print(f"{name:48} {wanted:6} {best * 1e3:9.2f} ms")


def main() -> None:
    capacity = cluster()
    port = {"ports": [{"hostPort": 80, "containerPort": 80}]}
    both = [spread("zone", "ScheduleAnyway"), spread("host", "ScheduleAnyway")]
    report("no rules", capacity, asked(), 10_000)
    report("a host port", capacity, asked(container=port), 5000)
    report("apart by host", capacity, asked(affinity=affinity("podAntiAffinity", "host")), 5000)
    report("apart by rack", capacity, asked(affinity=affinity("podAntiAffinity", "rack")), 300)
    report("together in a zone", capacity, asked(affinity=affinity("podAffinity", "zone")), 10_000)
    report("spread over zones", capacity, asked(topologySpreadConstraints=[spread("zone")]), 10_000)
    report("spread over hosts", capacity, asked(topologySpreadConstraints=[spread("host")]), 10_000)
    report("spread over zones and hosts, if it can be", capacity, asked(topologySpreadConstraints=both), 10_000)
    several = asked(topologySpreadConstraints=[spread("zone"), spread("rack")])
    report("spread over zones and racks: pod by pod", capacity, several, 1000, rounds=1)
    for strategy in (Strategy.MOST, Strategy.LEAST, Strategy.BALANCED):
        report(f"no rules, {strategy.value}", cluster(strategy), asked(), 10_000)


if __name__ == "__main__":
    main()
