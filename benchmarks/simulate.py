"""What a simulation costs: logs of machines and drawn work, in events, seconds and memory.

    python benchmarks/simulate.py [--logs DIRECTORY] [--jobs 20000] [--profile]

The logs are in the Standard Workload Format. "first come": one StrictFIFO queue whose quota is the machine. "backfill":
one node for each processor, and time limits that are exactly the run times. "openb": tables of tasks and of nodes.
"drawn": two queues that lend to each other, with preemption, on 500 nodes of 8 GPUs. Each case runs in a process of its
own; seconds are of CPU, and without the start of Python.
"""

import argparse
import cProfile
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from muster.simulation.simulate import simulate

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
  preemption: {reclaimWithinCohort: Any}
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
    report = simulate(file, progress=count)
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
    print("| | jobs | moments | s | jobs/s | evictions | mean wait s | MiB |\n|---|" + "---:|" * 7, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, text) in enumerate(cases.items()):
            file = Path(folder) / f"{number}.yaml"
            file.write_text(text)
            options = ["--profile"] if arguments.profile else []
            subprocess.run([sys.executable, __file__, "--play", name, str(file), *options], check=True)


if __name__ == "__main__":
    main()
