"""What a simulation costs: logs of machines and drawn work, in events, seconds and memory.

    python benchmarks/simulate.py [--logs DIRECTORY] [--jobs 20000] [--only NAME] [--profile]

The logs are in the Standard Workload Format. "first come": one StrictFIFO queue whose quota is the machine. "backfill":
one node for each processor, and time limits that are exactly the run times. "openb": tables of tasks and of nodes.
"drawn": two queues that lend to each other, with preemption, on 500 nodes of 8 GPUs. "month": 100,000 gangs of three
teams on 813 nodes of 8 GPUs in 30 days, of three priorities. "million": ten times as many gangs that run a tenth as
long. "planet": one shard of `examples/simulate/planet.yaml` for a part of the day; "rounds": by the incremental
dispatcher. Each case runs in a process of its own; seconds are of CPU, and without the start of Python.
"""

import argparse
import cProfile
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml
from msgspec.structs import replace

from muster.api.config import EMBEDDED
from muster.api.config.types import INCREMENTAL
from muster.simulation.simulate import simulate

PLANET = Path(__file__).parents[1] / "examples" / "simulate" / "planet.yaml"
SHARD = "africa"
LOGS = {"NASA-iPSC-1993-3.1-cln.swf.gz": 128, "lublin-256.swf.gz": 256, "LCG-2005.swf.gz": 24_515}
JOB = """
      apiVersion: batch/v1
      kind: Job
      spec:
        completionMode: Indexed
        parallelism: 1
        completions: 1
        template:
          spec:
            restartPolicy: Never
            containers: [{name: c, image: i, resources: {limits: {%s: "1"}}}]
"""
QUEUE = """
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: %(name)s}
spec:
  cohortName: all
  namespaceSelector: {}
  queueingStrategy: %(strategy)s
  preemption: {reclaimWithinCohort: Any, withinClusterQueue: LowerPriority}
  resourceGroups:
  - coveredResources: [%(resource)s]
    flavors: [{name: default, resources: [{name: %(resource)s, nominalQuota: "%(amount)d"}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: %(name)s}
spec: {clusterQueue: %(name)s}
"""
FLAVOR = """
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: default}
"""
HEAD = "apiVersion: muster.dev/v1alpha1\nkind: Scenario\nmetadata: {name: benchmark}\nspec:\n"


def write_first_come(log: Path, processors: int) -> str:
    """Return the scenario of a log in one strict queue."""
    work = f"  work:\n  - name: log\n    queue: q\n    trace: {{file: {log}, limits: none}}\n    template:{JOB % 'cpu'}"
    quota = {"name": "q", "strategy": "StrictFIFO", "resource": "cpu", "amount": processors}
    return HEAD + work + FLAVOR + QUEUE % quota


def write_backfill(log: Path, processors: int) -> str:
    """Return the scenario of a log on nodes of one processor each."""
    nodes = f"  nodes:\n  - {{name: n, count: {processors}, template: {{status: {{allocatable: {{cpu: '1'}}}}}}}}\n"
    return f"{HEAD}{nodes}  work:\n  - name: log\n    trace: {{file: {log}, limits: exact}}\n    template:{JOB % 'cpu'}"


def write_openb(logs: Path) -> str:
    """Return the scenario of the tasks of openb on its nodes, which the log names one by one."""
    nodes = f"  nodes:\n  - {{file: {logs / 'openb-nodes.csv.gz'}, format: openb}}\n"
    return f"{HEAD}{nodes}  work:\n  - {{name: log, trace: {{file: {logs / 'openb-pods.csv.gz'}, format: openb}}}}\n"


def write_drawn(jobs: int) -> str:
    """Return the scenario of drawn gangs in two queues that lend to each other."""
    gpus, nodes = 4000, "allocatable: {nvidia.com/gpu: '8'}"
    text = f"{HEAD}  nodes:\n  - {{name: n, count: 500, template: {{status: {{{nodes}}}}}}}\n  work:\n"
    for name, every, size in (("a", "60s", 8), ("b", "90s", 32)):
        text += f"  - name: {name}\n    queue: {name}\n    count: {jobs // 2}\n    limit: 1d\n"
        text += f"    arrivals: {{poisson: {{every: {every}}}}}\n    size: {{uniform: {{from: 1, to: {size}}}}}\n"
        text += f"    runTime: {{lognormal: {{median: 1h, sigma: 1.5}}}}\n    template:{JOB % 'nvidia.com/gpu'}"
    quota = {"strategy": "BestEffortFIFO", "resource": "nvidia.com/gpu", "amount": gpus // 2}
    return text + FLAVOR + QUEUE % (quota | {"name": "a"}) + QUEUE % (quota | {"name": "b"})


def write_month(jobs: int, minutes: float) -> str:
    """Return the scenario of a month of 6,500 GPUs. minutes: the median of the run times."""
    month, nodes = 30 * 86_400, "allocatable: {nvidia.com/gpu: '8'}"
    text = f"{HEAD}  until: 30d\n  nodes:\n  - {{name: n, count: 813, template: {{status: {{{nodes}}}}}}}\n  work:\n"
    for team in ("a", "b", "c"):
        for name, share, low, high in (("small", 0.8, 1, 8), ("large", 0.2, 8, 92)):
            every = month / (jobs * share / 3)
            text += f"  - name: {team}-{name}\n    queue: {team}\n    arrivals: {{poisson: {{every: {every:.3f}}}}}\n"
            text += f"    size: {{uniform: {{from: {low}, to: {high}}}}}\n    limit: 7d\n"
            text += "    priority: {uniform: {from: 0, to: 2}}\n"
            text += (
                f"    runTime: {{lognormal: {{median: {minutes}m, sigma: 1.5}}}}\n    template:{JOB % 'nvidia.com/gpu'}"
            )
    quota = {"strategy": "BestEffortFIFO", "resource": "nvidia.com/gpu"}
    amounts = {"a": 3252, "b": 2168, "c": 1084}
    return text + FLAVOR + "".join(QUEUE % (quota | {"name": name, "amount": n}) for name, n in amounts.items())


def write_planet(until: str) -> str:
    """Return one shard of the planet, with all its clusters, for a time. Shards have nothing in common."""
    first, *others = yaml.safe_load_all(PLANET.read_text())
    spec = first["spec"]
    spec["until"] = until
    spec["clusters"] = [one for one in spec["clusters"] if one["name"] == SHARD]
    spec["work"] = [one for one in spec["work"] if one["name"].startswith(SHARD)]
    kept = [one for one in others if one["kind"] == "ResourceFlavor" or one["metadata"]["name"].startswith(SHARD)]
    return yaml.safe_dump_all([first, *kept])


def play(name: str, file: str, *, profile: bool) -> None:
    """Simulate a scenario, and print its row."""
    moments = 0

    def count(_: object) -> None:
        nonlocal moments
        moments += 1

    profiler = cProfile.Profile()
    if profile:
        profiler.enable()
    began = time.process_time()
    multi = replace(EMBEDDED.multi_kueue, dispatcher_name=INCREMENTAL)
    configuration = replace(EMBEDDED, multi_kueue=multi) if "rounds" in name else EMBEDDED
    report = simulate(file, progress=count, configuration=configuration)
    seconds = time.process_time() - began
    profiler.disable()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    wait, total = report.summary.total.wait, report.summary.total
    print(
        f"| {name} | {total.submitted:,} | {moments:,} | {seconds:.1f} | {total.submitted / seconds:,.0f} "
        f"| {total.evictions:,} | {wait.mean if wait is not None else 0:,.0f} | {memory:.0f} |",
        flush=True,
    )
    if profile:
        profiler.print_stats("tottime")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=Path, default=Path("../shared/data/traces"))
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--only", default="", help="play the cases whose name holds this")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--play", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.play:
        play(*arguments.play, profile=arguments.profile)
        return
    cases = {f"drawn, {arguments.jobs:,} gangs": write_drawn(arguments.jobs)}
    for log, processors in LOGS.items():
        if (path := (arguments.logs / log).resolve()).exists():
            cases[f"{log.partition('.')[0]}, first come"] = write_first_come(path, processors)
            cases[f"{log.partition('.')[0]}, backfill"] = write_backfill(path, processors)
    if (logs := arguments.logs.resolve() / "openb-pods.csv.gz").exists():
        cases["openb"] = write_openb(logs.parent)
    cases["month, 100,000 gangs (aim: 60 s)"] = write_month(100_000, 60.0)
    cases["month, 20,000 gangs"] = write_month(20_000, 300.0)
    cases["million (aim: 720 s)"] = write_month(1_000_000, 6.0)
    for dispatcher in ("", ", rounds"):
        cases[f"planet, 1/50: a shard for 2.4 h{dispatcher}"] = write_planet("144m")
        cases[f"planet, 1/10: a shard for 12 h{dispatcher}"] = write_planet("12h")
    cases = {name: text for name, text in cases.items() if arguments.only in name}
    print("| | jobs | moments | s | jobs/s | evictions | mean wait s | MiB |\n|---|" + "---:|" * 7, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, text) in enumerate(cases.items()):
            file = Path(folder) / f"{number}.yaml"
            file.write_text(text)
            options = ["--profile"] if arguments.profile else []
            subprocess.run([sys.executable, __file__, "--play", name, str(file), *options], check=True)


if __name__ == "__main__":
    main()
