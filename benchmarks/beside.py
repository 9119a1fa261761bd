"""Muster beside the programs of Kubernetes on one machine, in turns, as ratios with their spread.

    PYTHONPATH=. python benchmarks/beside.py [--turns 3] [--rows creates,gets,...] [--pods 3000]

MUSTER_KUBE_ASSETS names the folder with etcd, kube-apiserver, kube-controller-manager and kube-scheduler. Each turn
starts both sides anew, one after the other, and the other side first in every second turn. A ratio is of one turn:
Muster's rate to the peer's. More than 1 is better, and noise that lasts longer than a turn falls out. Rates by CPU
divide by what all processes of a side took. The machine's speed is a fixed loop.

- creates, gets, status: requests over 32 connections of HTTP/1.1, and over one of HTTP/2 with 32 at once.
- watch: events to 200 watches, and each sees all. A watch that the server ends goes on from its last change.
- bound: a Job of so many pods, from its creation to the last binding.
- prompt: commands on a cluster that runs, and from cold; multiples of `python -c pass`, and no peer.

Requests and watches are those of a client in Go where `go` is on the PATH, or where MUSTER_GO names it. Elsewhere they
are of a client in Python: it takes a core, and a watch that the server ends does not go on.
"""

import argparse
import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from clients import Ask, Times, at_once
from goclient import built_client, rows_by
from protocols import CONNECTIONS, DESCRIPTORS, ROWS, WATCHES, Result, Row, Server
from tests.kubeplane import kube_plane

from muster.runtime.kube import kubeconfig_files
from muster.runtime.process.descriptors import allow_descriptors

MUSTER = [sys.executable, "-m", "muster.cli"]
TICK = os.sysconf("SC_CLK_TCK")
PODS, JOBS = "/api/v1/namespaces/default/pods", "/apis/batch/v1/namespaces/default/jobs"
NODES, PER_NODE = 50, 100
# `muster up` has a node of its own. No pod of these fits there; other nodes are made as objects alone, on both sides.
TINY_NODE = "simulated:1,cpu=1m,pods=1"
PATIENCE_SECONDS = 300.0
_NAME = re.compile(rb'"name":"([^"]+)"')  # the first one in an object is its own


@dataclass(frozen=True)
class Side:
    """One of the two: its server, and all its processes."""

    server: Server
    pids: Sequence[int]

    def cpu(self) -> float:
        """Return the seconds of CPU that its processes have taken."""
        return sum(map(_cpu_of, self.pids))


@dataclass
class Rates:
    """What a row measured of one side: units a second of time and of CPU, one of each for every turn."""

    by_time: list[float] = field(default_factory=list)
    by_cpu: list[float] = field(default_factory=list)


@contextmanager
def kubernetes(directory: Path) -> Iterator[Side]:
    """Start kube-apiserver, etcd, kube-controller-manager and kube-scheduler."""
    with kube_plane(directory, "kube-controller-manager", "kube-scheduler") as plane:
        host, _, port = plane.url.removeprefix("https://").partition(":")
        server = Server("kube", host, int(port), (plane.home / "tls.crt").read_text(), plane.token)
        yield Side(server, [one.process.pid for one in plane.programs.values()])


@contextmanager
def muster(directory: Path) -> Iterator[Side]:
    """Start `muster up`."""
    environment = {
        name: value for name, value in os.environ.items() if name not in ("KUBECONFIG", "MUSTER_KUBE_ASSETS")
    }
    environment |= {"MUSTER_HOME": str(directory)}
    subprocess.run([*MUSTER, "up", "--detach", "--port", "0", "--nodes", TINY_NODE], env=environment, check=True)
    pid = int((directory / "lock").read_text().split()[0])
    try:
        config = kubeconfig_files.load({}, path=directory / "kubeconfig")
        host, _, port = config.cluster.server.removeprefix("https://").partition(":")
        authority, token = config.cluster.certificate_authority, (directory / "pki" / "admin.token").read_text().strip()
        assert authority is not None
        yield Side(Server("muster", host, int(port), authority.decode(), token), [pid])
    finally:
        subprocess.run([*MUSTER, "down", "--yes"], env=environment, check=True, capture_output=True)


def statuses(protocol: str) -> Row:
    """Return the row of patches of the statuses of pods that no scheduler looks at."""

    async def run(server: Server, seconds: float) -> Result:
        streams, _ = await server.streams()
        names = [f"status-{time.time_ns():x}-{number}" for number in range(100)]
        container = {"name": "c", "image": "none"}
        spec = {"schedulerName": "nobody", "containers": [container], "automountServiceAccountToken": False}
        for name in names:
            await streams.ask("POST", PODS, json.dumps({"metadata": {"name": name}, "spec": spec}).encode())
        numbers = iter(range(10**9))

        async def patch(ask: Ask) -> None:
            number = next(numbers)
            status = {"status": {"message": f"step {number}"}}
            await ask("PATCH", f"{PODS}/{names[number % len(names)]}/status", json.dumps(status).encode())

        wires = await server.wires(CONNECTIONS) if protocol == "1.1" else []
        rate, times = await at_once([wire.ask for wire in wires] or [streams.ask] * CONNECTIONS, seconds, patch)
        for wire in wires:
            wire.transport.close()
        streams.transport.close()
        return Result(rate, times)

    return run


def bound(pods: int) -> Row:
    """Return the row of a Job whose pods are created and bound to nodes that nothing runs."""

    async def run(server: Server, _seconds: float) -> Result:
        (wire,) = await server.wires(1)
        await _make_nodes(wire.ask)
        name = f"bound-{time.time_ns():x}"
        container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
        template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
        size = {"completions": pods, "parallelism": pods, "completionMode": "Indexed"}
        seen, all_bound = set[bytes](), asyncio.Event()

        def see(line: bytes) -> None:
            if (found := _NAME.search(line)) is not None:
                seen.add(found[1])
            if len(seen) == pods:
                all_bound.set()

        # With this selector a pod comes to the watch when it is bound.
        selected = f"{PODS}?watch=1&labelSelector=job-name%3D{name}&fieldSelector=spec.nodeName!%3D"
        following = asyncio.create_task(server.follow(selected, see))
        job = {"metadata": {"name": name}, "spec": size | {"template": template}}
        start = time.perf_counter()
        await wire.ask("POST", JOBS, json.dumps(job).encode())
        async with asyncio.timeout(PATIENCE_SECONDS):
            await all_bound.wait()
        seconds = time.perf_counter() - start
        following.cancel()
        await wire.ask("DELETE", f"{JOBS}/{name}?propagationPolicy=Background")
        wire.transport.close()
        return Result(pods / seconds, Times([seconds]))

    return run


async def _make_nodes(ask: Ask) -> None:
    amounts = {"cpu": "128", "memory": "512Gi", "pods": str(PER_NODE)}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    for number in range(NODES):
        name = f"node-{number}"
        await ask("POST", "/api/v1/nodes", json.dumps({"metadata": {"name": name}}).encode())
        status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
        await ask("PATCH", f"/api/v1/nodes/{name}/status", json.dumps({"status": status}).encode())
        await ask("PATCH", f"/api/v1/nodes/{name}", b'{"spec":{"taints":null}}')


def choose_rows(names: Sequence[str], pods: int, client: Path | None) -> dict[str, Row]:
    """Return the rows that were asked for, by their titles.

    client: the client in Go; without it the client in Python asks.
    """
    known = ROWS | {
        f"status patches/s, HTTP/1.1, {CONNECTIONS} connections": statuses("1.1"),
        f"status patches/s, one HTTP/2 connection, {CONNECTIONS} at once": statuses("2"),
    }
    if client is not None:
        known = rows_by(client)
    known[f"pods/s, a Job of {pods:,}, created to bound"] = bound(pods)
    begins = {"creates": "creates", "gets": "gets", "status": "status", "watch": "events", "bound": "pods"}
    sizes = (f"{CONNECTIONS} ", f"{WATCHES} ", f"{pods:,}")
    chosen = {
        name: [title for title in known if title.startswith(begins[name]) and any(size in title for size in sizes)]
        for name in names
        if name in begins
    }
    if lost := [name for name, titles in chosen.items() if not titles]:
        raise SystemExit(f"no row measures {', '.join(lost)}")
    return {title: known[title] for titles in chosen.values() for title in titles}


def compare(rows: dict[str, Row], turns: int, seconds: float) -> dict[str, tuple[Rates, Rates]]:
    """Return what each row measured of Muster and of the peer."""
    found = {title: (Rates(), Rates()) for title in rows}
    sides: list[tuple[int, Callable[[Path], object]]] = [(0, muster), (1, kubernetes)]
    for turn in range(turns):
        for which, start in sides if turn % 2 == 0 else sides[::-1]:
            with ExitStack() as stack:
                directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                side: Side = stack.enter_context(start(directory))  # type: ignore[arg-type]
                time.sleep(3.0)  # what a start leaves to do
                for title, row in rows.items():
                    before = side.cpu()
                    result, took = _measure(row, side.server, seconds)
                    rates = found[title][which]
                    rates.by_time.append(result.rate)
                    rates.by_cpu.append(result.rate * took / max(side.cpu() - before, 1e-9))
                    line = f"  turn {turn + 1}  {side.server.name:<8}{title:<66}{result.rate:>10,.0f}  {result.note}"
                    print(line.rstrip(), flush=True)
    return found


def _measure(row: Row, server: Server, seconds: float) -> tuple[Result, float]:
    start = time.perf_counter()
    result = asyncio.run(row(server, seconds))
    return result, time.perf_counter() - start


def show(found: dict[str, tuple[Rates, Rates]]) -> None:
    """Print a table in Markdown."""
    print("\n| | Muster | Kubernetes | ratio | least to most | by CPU |\n|---|---:|---:|---:|---:|---:|")
    for title, (ours, theirs) in found.items():
        # A server that ends all watches early has no rate: that turn says nothing.
        ratios = [mine / other for mine, other in zip(ours.by_time, theirs.by_time, strict=True) if other]
        shares = [mine / other for mine, other in zip(ours.by_cpu, theirs.by_cpu, strict=True) if other]
        if not ratios:
            print(f"| {title} | {statistics.median(ours.by_time):,.0f} | none | | | |")
            continue
        by_cpu = statistics.median(shares)
        middle = (f"{statistics.median(rates.by_time):,.0f}" for rates in (ours, theirs))
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
        print(f"| {title} | {' | '.join(middle)} | {statistics.median(ratios):.2f} | {spread} | {by_cpu:.2f} |")


COMMANDS: dict[str, Sequence[str]] = {
    "muster run --workers 1 -- true, from cold": ("run", "--workers", "1", "--", "true"),
    "muster up --detach": ("up", "--detach", "--port", "0"),
    "muster run --workers 1 -- true": ("run", "--name", "one", "--replace", "--workers", "1", "--", "true"),
    "muster ps": ("ps",),
    "muster logs one": ("logs", "one"),
    "muster why one": ("why", "one"),
    "muster status": ("status",),
    "muster cancel one": ("cancel", "one"),
    "muster down": ("down",),
}


def prompt(turns: int) -> None:
    """Print what commands take beside `python -c pass`: wall and CPU."""
    taken: dict[str, list[tuple[float, float]]] = {}
    for _ in range(turns):
        with tempfile.TemporaryDirectory() as home:
            # What is installed has its byte code.
            hidden = ("KUBECONFIG", "PYTHONDONTWRITEBYTECODE")
            environment = {name: value for name, value in os.environ.items() if name not in hidden}
            environment |= {"MUSTER_HOME": home}
            run = partial(_time_command, environment)
            taken.setdefault("python -c pass", []).append(run([sys.executable, "-c", "pass"]))
            for title, words in COMMANDS.items():
                taken.setdefault(title, []).append(run([*MUSTER, *words]))
    base = statistics.median(wall for wall, _ in taken["python -c pass"])
    print("\n| | wall, s | CPU, s | times `python -c pass` |\n|---|---:|---:|---:|")
    for title, values in taken.items():
        wall, cpu = (statistics.median(value[at] for value in values) for at in (0, 1))
        print(f"| `{title}` | {wall:.3f} | {cpu:.3f} | {wall / base:.1f} |")


def _time_command(environment: dict[str, str], command: Sequence[str]) -> tuple[float, float]:
    """Return the seconds and the seconds of CPU that a command took, its children included."""
    before, start = os.times(), time.perf_counter()
    subprocess.run(command, env=environment, capture_output=True, check=False)
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - start, cpu


def _cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def _time_loop() -> float:
    start = time.process_time()
    for _ in range(10_000_000):
        pass
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each row of requests")
    parser.add_argument("--rows", default="creates,gets,status,watch,bound,prompt")
    parser.add_argument("--pods", type=int, default=3_000)
    options = parser.parse_args()
    allow_descriptors(DESCRIPTORS)
    print(f"load {os.getloadavg()[0]:.1f}; a loop of 10,000,000 takes {_time_loop():.2f} s of CPU")
    names = options.rows.split(",")
    with built_client() as client:
        if rows := choose_rows(names, options.pods, client):
            show(compare(rows, options.turns, options.seconds))
    if "prompt" in names:
        prompt(options.turns)


if __name__ == "__main__":
    main()
