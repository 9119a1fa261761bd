"""An hour of the whole engine, recorded under virtual time, and the same hour simulated: both decide the same.

The engine takes its time: a decision is written, read, and carried out by others. So no two moments of an hour are
close to each other, except where one causes the other.
"""

import asyncio
import json
from itertools import pairwise
from random import Random

import msgspec
import pytest
import yaml
from tests.system.plane import World, running
from tests.system.simulation.test_simulation import FLAVOR, play, scenario

from muster.api.batch import JOB, Job
from muster.api.kueue import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR
from muster.api.ours.embedded import SERVER_MACHINE
from muster.cluster.nodes.simulated.nodes import SimulatedNodes
from muster.runtime.clock import run_virtual
from muster.runtime.control.manager import Manager
from muster.simulation.scenario.reading import read_scenario

# How far apart the moments of an hour are, in seconds.
APART = 4.0
# The decisions that are compared: those that do something.
COMPARED = ("QuotaReserved", "Preempting", "Preempted", "Placed")
QUEUES = "".join(
    f"""
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {{name: {name}}}
spec:
  cohortName: all
  namespaceSelector: {{}}
  preemption: {{reclaimWithinCohort: Any, withinClusterQueue: LowerPriority}}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{{name: default, resources: [{{name: cpu, nominalQuota: "{cpus}"}}]}}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {{name: {name}, namespace: default}}
spec: {{clusterQueue: {name}}}
"""
    for name, cpus in (("a", 6), ("b", 6))
)
NODES, CPUS = 4, 3


def draw_jobs(seed, number=24):
    """Return the jobs of an hour: name, queue, submission, run time, pods."""
    random = Random(seed)
    at, jobs = 0, []
    for serial in range(number):
        at += random.randrange(5, 240)
        jobs.append((f"j{serial}", random.choice("ab"), at, random.randrange(60, 1200), random.choice([1, 1, 2, 3, 5])))
    return jobs


def template(queue, pods, annotations=None):
    return {
        "metadata": {"labels": {"kueue.x-k8s.io/queue-name": queue}},
        "spec": {
            "completionMode": "Indexed",
            "parallelism": pods,
            "completions": pods,
            "template": {
                "metadata": {"annotations": annotations or {}},
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
                },
            },
        },
    }


def record(jobs, until):
    """Play the hour by the whole engine until so many seconds; return its beginning and its decisions."""

    async def body():
        async with running() as plane:
            world = World(plane)
            manager = Manager(plane.client(), world.clock, world.random)
            nodes = SimulatedNodes(
                manager,
                [f"n-{number}" for number in range(NODES)],
                resources={"cpu": str(CPUS)},
                labels={SERVER_MACHINE: "true"},
            )
            manager.add(nodes)
            run = asyncio.create_task(manager.run())
            await nodes.ready.wait()
            for document in (FLAVOR + QUEUES).split("---\n")[1:]:
                await make(world.client, document)
            await world.settle()
            # Times of the API are whole seconds.
            await world.clock.sleep(1.0 - world.clock.now().microsecond / 1e6)
            began = world.clock.now()
            for name, queue, at, seconds, pods in jobs:
                await world.clock.sleep(at - (world.clock.now() - began).total_seconds())
                document = template(queue, pods, {"muster.dev/run-time": f"{seconds}s", "muster.dev/start-time": "0s"})
                document["metadata"]["name"] = name
                await world.client.create(JOB, msgspec.convert(document, Job), "default")
            await world.clock.sleep(until - (world.clock.now() - began).total_seconds())
            await manager.stop()
            await run
            return began, plane.decisions.since(0)

    return run_virtual(body())


async def make(client, text):
    document = yaml.safe_load(text)
    kind = {one.kind: one for one in (RESOURCE_FLAVOR, CLUSTER_QUEUE, LOCAL_QUEUE)}[document["kind"]]
    namespace = document["metadata"].get("namespace", "")
    await client.create(kind, msgspec.convert(document, kind.type), namespace)


def simulate(tmp_path, jobs):
    """Play the hour by the simulation; return its report, and its decisions."""
    works = [
        {
            "name": name,
            "arrivals": {"burst": {"at": [at], "count": 1}},
            "runTime": seconds,
            "template": {"apiVersion": "batch/v1", "kind": "Job", **template(queue, pods)},
        }
        for name, queue, at, seconds, pods in jobs
    ]
    pool = {"name": "n", "count": NODES, "template": {"status": {"allocatable": {"cpu": str(CPUS)}}}}
    body = f"  nodes: {json.dumps([pool])}\n  work: {json.dumps(works)}\n"
    return play(tmp_path, scenario(body, FLAVOR + QUEUES), decisions=100_000)


def is_sparse(report, jobs):
    """Return whether the moments of an hour are far enough apart."""
    moments = sorted({*(at for _, _, at, _, _ in jobs), *(job.ended for job in report.jobs)})
    ends = [job.ended for job in report.jobs]
    return len(set(ends)) == len(ends) and all(b - a >= APART for a, b in pairwise(moments))


def facts(decision):
    name = decision.name.removesuffix("-0")
    others = [(other.job.removesuffix("-0"), other.rule, other.priority) for other in decision.others]
    amounts = [(one.resource, one.asked, one.nominal) for one in decision.amounts]
    return decision.what, name, decision.rule, others, sorted(decision.nodes.items()), decision.pods, amounts


def tell(decisions, began):
    """Return the compared decisions in the order of their seconds; within one, the writes of several jobs overlap."""
    compared = [one for one in decisions if one.what in COMPARED]
    return sorted((round((one.at - began).total_seconds()), *map(str, facts(one))) for one in compared)


@pytest.mark.parametrize("seed", [35, 54])
def test_a_recorded_hour_is_decided_alike_by_the_engine_and_by_the_simulation(tmp_path, seed):
    jobs = draw_jobs(seed)
    report = simulate(tmp_path, jobs)
    assert is_sparse(report, jobs), "the engine takes a moment for each decision"
    began, recorded = record(jobs, until=report.summary.seconds + 60)
    start = read_scenario(str(tmp_path / "scenario.yaml")).scenario.spec.start
    simulated = tell(report.decisions, start)
    assert len([one for one in simulated if one[1] == "Preempted"]) >= 4
    assert tell(recorded, began) == simulated
