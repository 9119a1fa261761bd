"""What it costs a node without cgroups to sample what its containers use, once a second.

python benchmarks/usage.py [PODS]...

Each pod is a tree as a container's: a shell in place of the shim, a shell below it, and two programs that share the
pages of their parent. The cost is the processor's time, of user and system, as a share of one core. A usual sample sums
up what processes hold; an exact sample counts shared pages once, which a node does in one of thirty. The last column is
what a node pays.
"""

import subprocess
import sys
import time
from contextlib import ExitStack

from muster.cluster.nodes.machine.consumption import Key, Metered, read_usage
from muster.cluster.nodes.machine.sampling import EXACT_EVERY, SAMPLE_SECONDS, find_thresholds

SAMPLES = 50
# Shells that do not become the program that they run last.
TREE = ["sh", "-c", "sh -c 'sleep 1000 & sleep 1000 & wait'; true"]


def measure(containers: dict[Key, Metered], *, exact: bool) -> float:
    """Return the processor's seconds of one sample."""
    thresholds = find_thresholds(containers, {}, exact=exact)
    began = time.process_time()
    for _ in range(SAMPLES):
        read_usage(containers, thresholds)
    return (time.process_time() - began) / SAMPLES


def main() -> None:
    """Print a line for each number of pods."""
    print(f"{'pods':>6} {'usual':>10} {'exact':>10} {'of a core':>10}")
    for pods in map(int, sys.argv[1:] or ("1", "10", "100")):
        with ExitStack() as stack:
            shells = [stack.enter_context(subprocess.Popen(TREE, process_group=0)) for _ in range(pods)]
            time.sleep(2)
            containers = {(str(shell.pid), "main"): Metered(shell.pid, memory_limit=1 << 30) for shell in shells}
            usual, exact = measure(containers, exact=False), measure(containers, exact=True)
            for shell in shells:
                subprocess.run(["kill", "-9", "--", f"-{shell.pid}"], check=True)
        share = (usual * (EXACT_EVERY - 1) + exact) / EXACT_EVERY / SAMPLE_SECONDS
        print(f"{pods:>6} {usual * 1e3:>7.2f} ms {exact * 1e3:>7.2f} ms {share:>10.2%}")


if __name__ == "__main__":
    main()
