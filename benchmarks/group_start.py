"""From the last pod of a JobSet's group that starts to the first and the last main container that begins.

    python benchmarks/group_start.py [--rounds N] [PODS ...]

On process nodes, with real processes: all but the last pod wait at their barrier for two seconds. The times are those
that the shims write down of their containers, so they are of the very exec.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MUSTER = str(Path(sys.executable).parent / "muster")
LATE_SECONDS = 2.0
MANIFEST = """\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {{name: group}}
spec:
  groupSchedulingConfig: {{timeoutAfterSeconds: 300}}
  replicatedJobs:
  - name: workers
    replicas: 1
    template:
      spec:
        parallelism: {pods}
        completions: {pods}
        template:
          spec:
            initContainers:
            - name: late
              image: none
              command: [sh, -c, 'test "$JOB_COMPLETION_INDEX" != {last} || sleep {late}']
            containers:
            - {{name: main, image: none, command: [sleep, "0.5"], resources: {{requests: {{cpu: 1m}}}}}}
"""


def muster(*arguments: str, home: str, text: str = "") -> None:
    environment = os.environ | {"MUSTER_HOME": home}
    for name in ("KUBECONFIG", "PYTHONDONTWRITEBYTECODE"):  # what is installed has its byte code
        environment.pop(name, None)
    subprocess.run([MUSTER, *arguments], env=environment, check=True, capture_output=True, input=text.encode())


def starts(home: str, container: str, key: str = "started") -> list[float]:
    """When the containers of a name began (or whatever else is written down of them), in seconds."""
    states = Path(home).glob(f"nodes/*/pods/*/containers/{container}/0/state")
    return sorted(record[key] / 1e9 for state in states if (record := json.loads(state.read_text())).get(key))


def measure(pods: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as home:
        muster("up", "--detach", "--port", "0", "--nodes", f"process:1,cpu=64,pods={pods + 10}", home=home)
        late = LATE_SECONDS + pods / 10  # the others have to be there before it
        manifest = MANIFEST.format(pods=pods, last=pods - 1, late=late)
        began = time.time()
        muster("apply", "-f", "-", home=home, text=manifest)
        while len(starts(home, "main", "finished")) < pods:
            time.sleep(0.5)
        barriers, mains = starts(home, "group-scheduling-init"), starts(home, "main")
        ends = starts(home, "group-scheduling-init", "finished")
        muster("down", home=home)
    assert len(mains) == pods
    last = barriers[-1]
    return {
        "all but one wait": barriers[-2] - began,
        "first barrier opens": (ends[0] - last) * 1000,
        "last barrier opens": (ends[-1] - last) * 1000,
        "first main": (mains[0] - last) * 1000,
        "last main": (mains[-1] - last) * 1000,
        "skew": (mains[-1] - mains[0]) * 1000,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pods", nargs="*", type=int, default=[8, 10, 100])
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    for pods in arguments.pods:
        rounds = [measure(pods) for _ in range(arguments.rounds)]
        for name in rounds[0]:
            values = [found[name] for found in rounds]
            unit = "s " if name == "all but one wait" else "ms"
            print(f"{pods:5} pods  {name:20} {statistics.median(values):8.1f} {unit} (worst {max(values):.1f})")


if __name__ == "__main__":
    main()
