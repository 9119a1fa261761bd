"""What submitting, looking and looking back cost: each section is a function that prints a table.

python benchmarks/submit.py [SECTION]...
"""

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

ROUNDS = 7


def muster(home: Path, *arguments: str) -> str:
    """Run the command against a home; what it says."""
    environment = {name: value for name, value in os.environ.items() if name not in ("KUBECONFIG", "MUSTER_HOME")}
    command = [sys.executable, "-m", "muster.cli", *arguments]
    done = subprocess.run(
        command, env=environment | {"MUSTER_HOME": str(home)}, check=True, capture_output=True, text=True
    )
    return done.stdout


@contextmanager
def cluster(home: Path, *options: str) -> Iterator[None]:
    """An embedded cluster for as long as the context lasts."""
    muster(home, "up", "--detach", "--port", "0", *options)
    try:
        yield
    finally:
        muster(home, "down")


def timed(work: Callable[[], object], rounds: int = ROUNDS) -> list[float]:
    """How long each round takes, in seconds."""
    found = []
    for _ in range(rounds):
        started = time.perf_counter()
        work()
        found.append(time.perf_counter() - started)
    return found


def show(title: str, lines: dict[str, list[float]], remarks: dict[str, str]) -> None:
    """Print a table of seconds."""
    print(f"\n{title}\n{'':58} {'median s':>9} {'worst s':>9}")
    for name, values in lines.items():
        print(f"{name:58} {statistics.median(values):9.3f} {max(values):9.3f}  {remarks.get(name, '')}".rstrip())


def history() -> None:
    """`muster history` over 100,000 records: the command as a user waits for it, beside one that asks for nothing."""
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory) / "home"
        home.mkdir(mode=0o700)
        filled = timed(lambda: _fill(home, 100_000), 1)
        size = (home / "history.db").stat().st_size
        with cluster(home):
            since = f"{datetime.now(UTC) - timedelta(hours=3):%Y-%m-%dT%H:%M:%SZ}"
            asked = {
                "muster --version": ["--version"],
                "muster status": ["status"],
                "history (the newest 100)": ["history"],
                "history --since 3h": ["history", "--since", since],
                "history --user u7 --state Failed": ["history", "--user", "u7", "--state", "Failed"],
                "history 'train-99*' --queue q3": ["history", "train-99*", "--queue", "q3"],
                "history --user none (nothing found)": ["history", "--user", "none"],
            }
            lines = {name: timed(partial(muster, home, *words)) for name, words in asked.items()}
            everything = partial(muster, home, "history", "--limit", "0", "-o", "csv")
            lines["history --limit 0 -o csv (all 100,000)"] = timed(everything, 1)
            lines |= asyncio.run(_answers(home))
        lines = {"100,000 records written, 1,000 at a time": filled} | lines
        show(
            "history over 100,000 records",
            lines,
            {"100,000 records written, 1,000 at a time": f"{size / 1e6:.0f} MB on disk"},
        )


async def _answers(home: Path) -> dict[str, list[float]]:
    """The same questions on a connection that is there: what the server takes of it."""
    from muster.actions.server.session import Target, connect
    from muster.insight.history.runs import PATH
    from muster.runtime.transport import Request

    since = str(int(time.time()) - 3 * 3600)
    asked = {
        "the newest 100": {},
        "since": {"since": since},
        "user, state": {"owner": "u7", "states": "Failed"},
        "name, queue": {"names": "train-99*", "queue": "q3"},
        "nothing found": {"owner": "none"},
    }
    found: dict[str, list[float]] = {}
    async with connect(Target(kubeconfig=str(home / "kubeconfig")), print) as session:
        for name, query in asked.items():
            times = found[f"the server's answer: {name}"] = []
            for _ in range(3 * ROUNDS):
                started = time.perf_counter()
                await session.client.raw(Request("GET", PATH, query | {"namespace": "default", "limit": "100"}))
                times.append(time.perf_counter() - started)
    return found


def _fill(home: Path, count: int) -> None:
    from muster.cluster.controllers.history.recorder import row_of
    from muster.cluster.store.history import FILE, HistoryFile
    from muster.insight.history.runs import OUTCOMES, Run

    now = datetime.now(UTC).replace(microsecond=0)
    file = HistoryFile(home / FILE, now)

    def run(number: int) -> Run:
        submitted = now - timedelta(seconds=60 * (count - number))
        return Run(
            uid=f"{number:08}-0000-4000-8000-000000000000",
            namespace="default",
            name=f"train-{number}",
            kind="JobSet",
            state=OUTCOMES[number % 10] if number % 10 < 4 else "Completed",
            submitted=submitted,
            started=submitted + timedelta(seconds=5),
            ended=submitted + timedelta(seconds=90),
            owner=f"u{number % 50}",
            queue=f"q{number % 7}",
            command=f"python train.py --config configs/experiment-{number}.yaml --seed {number} --epochs 90",
            exit_code=0,
            workers=4,
            nodes=tuple(f"node-{n}" for n in range(4)),
            cpu_seconds=350.5,
            memory_bytes=4 << 30,
        )

    for at in range(0, count, 1_000):
        file.put([row_of(run(number)) for number in range(at, at + 1_000)], oldest=0, most=count)
    file.close()


def functions() -> None:
    """`muster.run` of a function to its result on a running cluster, and an executor with a thousand small calls."""
    import muster as python

    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory) / "home"
        os.environ["MUSTER_HOME"] = str(home)
        with cluster(home):

            def run(workers: int) -> None:
                python.run(abs, (-1,), workers=workers).result()

            lines = {
                "run(f).result(), the first, which loads what it takes": timed(lambda: run(1), 1),
                "run(f).result(), on a cluster that runs (aim: 0.5 s)": timed(lambda: run(1)),
                "run(f, workers=4).result()": timed(lambda: run(4)),
            }
            begun = time.perf_counter()
            with python.Executor(array=2) as executor:
                executor.submit(abs, -1).result()
                lines["Executor(array=2), to the end of its first call"] = [time.perf_counter() - begun]
                lines["executor.map of 1,000 small calls"] = timed(lambda: list(executor.map(abs, range(1_000))))
            with python.Executor(array=2, workers=2) as executor:
                gangs = timed(lambda: list(executor.map(abs, range(10))), 1)
                lines["executor.map of 10 calls of 2 workers, 2 at a time"] = gangs
        show("functions, from Python", lines, {})


def submitting() -> None:
    """One job, a thousand and a sweep of ten thousand, into a queue that is stopped; then `muster ps` with 5,000 jobs.

    Writes are those of the command and of what the controllers answer, until nothing is written any more.
    """
    lines: dict[str, list[float]] = {}
    remarks: dict[str, str] = {}

    with tempfile.TemporaryDirectory() as directory, cluster(home := Path(directory) / "home"):
        muster(home, "hold", "queue/default")

        def measure(title: str, jobs: int, *arguments: str, rounds: int = 1) -> None:
            before = _settled(home)
            lines[title] = timed(partial(muster, home, *arguments), rounds)
            writes = (_settled(home) - before) / rounds
            remarks[title] = f"{writes:.0f} writes" if jobs == 1 else f"{writes / jobs:.1f} writes a job"

        run = ["run", "--detach", "--no-stdin"]
        measure("muster run --detach -- true", 1, *run, "--", "true", rounds=ROUNDS)
        measure("muster run --detach --workers 4 -- true", 1, *run, "--workers", "4", "--", "true", rounds=ROUNDS)
        measure("muster run --detach --array 0-9999 -- true", 1, *run, "--array", "0-9999", "--", "true")
        for at, count in ((0, 1_000), (1_000, 4_000)):
            file = Path(directory) / f"{count}.yaml"
            file.write_text("---".join(JOB.format(number=number) for number in range(at, at + count)))
            measure(f"muster apply -f FILE, {count:,} jobs in it", count, "apply", "-f", str(file))
        lines["muster ps, 5,000 jobs (aim: 0.5 s)"] = timed(partial(muster, home, "ps"))
        lines["muster ps -o json, 5,000 jobs"] = timed(partial(muster, home, "ps", "-o", "json"))
        lines["muster ps job-17"] = timed(partial(muster, home, "ps", "job-17"))
        lines["muster why job-17"] = timed(partial(muster, home, "why", "job-17"))
    show("submitting, and looking", lines, remarks)


JOB = """
apiVersion: batch/v1
kind: Job
metadata: {{name: job-{number}, labels: {{kueue.x-k8s.io/queue-name: default}}}}
spec:
  suspend: true
  template:
    spec:
      restartPolicy: Never
      containers: [{{name: c, image: none, command: ["true"], resources: {{requests: {{cpu: "1"}}}}}}]
"""


def _settled(home: Path) -> int:
    """The revision of the store, once it has stayed the same for a while; heartbeats are few."""
    from muster.actions.server.session import Target, connect
    from muster.api.core import CONFIG_MAP

    async def settle() -> int:
        async with connect(Target(kubeconfig=str(home / "kubeconfig")), print) as session:
            known, quiet = 0, 0
            while quiet < 4:
                found = int((await session.client.page(CONFIG_MAP, "default", limit=1)).metadata.resource_version)
                known, quiet = found, quiet + 1 if found - known <= 1 else 0
                await asyncio.sleep(0.5)
            return known

    return asyncio.run(settle())


SECTIONS: dict[str, Callable[[], None]] = {"submitting": submitting, "history": history, "functions": functions}


def main() -> None:
    """The sections that are named, or all."""
    for name in sys.argv[1:] or SECTIONS:
        SECTIONS[name]()


if __name__ == "__main__":
    main()
