"""How long a user waits at the prompt: each command, `muster up` until it serves, and commands beside many jobs.

python benchmarks/startup.py [ROUNDS] [--jobs N]

The columns are wall time, the processor's time of the command itself (user and system, without the server's), and its
largest memory. Read both times as ratios to `python -c pass`, or to a fixed loop of the interpreter. With --jobs, that
many jobs of a stopped queue are applied first, in one file, and the commands run beside them.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

MUSTER = str(Path(sys.executable).parent / "muster")
LOOP = "for number in range(1_000_000): pass"
JOB = """---
apiVersion: batch/v1
kind: Job
metadata: {{name: job-{number}, labels: {{kueue.x-k8s.io/queue-name: stopped}}}}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{{name: main, image: any, command: ["true"], resources: {{requests: {{cpu: 1}}}}}}]
"""
RUN = ["run", "--workers", "1", "--", "true"]


@dataclass(frozen=True)
class Cost:
    """What one command took: seconds of wall time, seconds of its own processor time, MiB of memory at most."""

    wall: float
    cpu: float
    memory: float


def measure(*command: str, home: str = "") -> Cost:
    environment = os.environ | {"MUSTER_HOME": home}
    for name in ("KUBECONFIG", "PYTHONDONTWRITEBYTECODE"):  # what is installed has its byte code
        environment.pop(name, None)
    started = time.perf_counter()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall = time.perf_counter() - started
        if process.returncode:
            output.seek(0)
            raise SystemExit(f"{' '.join(command)}: {output.read().decode()}")
    return Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def make_rows(jobs: int, file: Path) -> list[tuple[str, list[str]]]:
    """Return the names of the rows, and what `muster` is called with. A step without a name is no row."""
    many = [("muster apply -f FILE", ["apply", "-f", str(file)])] if jobs else []
    return [
        ("muster --help", ["--help"]),
        ("muster run --workers 1 -- true, from cold", RUN),
        ("muster up --detach, first start (makes its CA)", ["up", "--detach", "--port", "0"]),
        ("", ["run", "--name", "done", "--", "echo", "said"]),
        ("", ["run", "--name", "going", "--detach", "--", "sleep", "1000"]),
        ("", ["queue", "create", "stopped", "--cpu", "1"]),
        ("", ["queue", "stop", "stopped"]),
        *many,
        ("muster ps", ["ps"]),
        ("muster status", ["status"]),
        ("muster why JOB", ["why", "going"]),
        ("muster logs JOB", ["logs", "done"]),
        ("muster run --detach -- true", ["run", "--detach", "--", "true"]),
        ("muster run --workers 1 -- true, cluster running", RUN),
        ("muster cancel JOB", ["cancel", "going"]),
        ("muster down", ["down"]),
        ("muster up --detach, second start", ["up", "--detach", "--port", "0"]),
        ("", ["down"]),
    ]


def main() -> None:
    arguments = sys.argv[1:]
    jobs = int(arguments[arguments.index("--jobs") + 1]) if "--jobs" in arguments else 0
    rounds = int(arguments[0]) if arguments and arguments[0].isdecimal() else 10
    measured: dict[str, list[Cost]] = {}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as place:
            file = Path(place) / "jobs.yaml"
            file.write_text("".join(JOB.format(number=number) for number in range(jobs)))
            for name, code in (("python -c pass", "pass"), ("a loop of a million turns", LOOP)):
                measured.setdefault(name, []).append(measure(sys.executable, "-c", code))
            for name, words in make_rows(jobs, file):
                cost = measure(MUSTER, *words, home=f"{place}/home")
                if name:
                    measured.setdefault(name, []).append(cost)
    base = {
        one: statistics.median(getattr(cost, one) for cost in measured["python -c pass"]) for one in ("wall", "cpu")
    }
    print(f"{'':50} {'wall s':>8} {'worst s':>8} {'x python':>9} {'cpu s':>8} {'x python':>9} {'MiB':>6}")
    for name, costs in measured.items():
        wall, cpu = (statistics.median(getattr(cost, one) for cost in costs) for one in ("wall", "cpu"))
        worst, memory = max(cost.wall for cost in costs), max(cost.memory for cost in costs)
        times = f"{wall / base['wall']:9.1f} {cpu:8.3f} {cpu / base['cpu']:9.1f}"
        print(f"{name:50} {wall:8.3f} {worst:8.3f} {times} {memory:6.0f}")


if __name__ == "__main__":
    main()
