"""How long a user waits: `muster --help`, `muster up` until it serves, and `muster run --workers 1 -- true` from cold.

python benchmarks/startup.py [ROUNDS]
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MUSTER = str(Path(sys.executable).parent / "muster")


def timed(*arguments: str, home: str) -> float:
    environment = os.environ | {"MUSTER_HOME": home}
    for name in ("KUBECONFIG", "PYTHONDONTWRITEBYTECODE"):  # what is installed has its byte code
        environment.pop(name, None)
    started = time.perf_counter()
    subprocess.run([MUSTER, *arguments], env=environment, check=True, capture_output=True)
    return time.perf_counter() - started


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    measured: dict[str, list[float]] = {}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as home:
            for name, arguments in (
                ("python -c pass", None),
                ("muster --help", ["--help"]),
                ("muster run --workers 1 -- true, from cold", ["run", "--workers", "1", "--", "true"]),
                ("muster up --detach, first start (makes its CA)", ["up", "--detach", "--port", "0"]),
                ("muster ps", ["ps"]),
                ("muster run --workers 1 -- true, cluster running", ["run", "--workers", "1", "--", "true"]),
                ("muster down", ["down"]),
                ("muster up --detach, second start", ["up", "--detach", "--port", "0"]),
            ):
                if arguments is None:
                    started = time.perf_counter()
                    subprocess.run([sys.executable, "-c", "pass"], check=True)
                    seconds = time.perf_counter() - started
                else:
                    seconds = timed(*arguments, home=home)
                measured.setdefault(name, []).append(seconds)
            timed("down", home=home)
    base = statistics.median(measured["python -c pass"])
    print(f"{'':50} {'median s':>9} {'worst s':>9} {'x python':>9}")
    for name, values in measured.items():
        median = statistics.median(values)
        print(f"{name:50} {median:9.3f} {max(values):9.3f} {median / base:9.1f}")


if __name__ == "__main__":
    main()
