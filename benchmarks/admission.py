"""Admission from end to end: workloads come over HTTPS, get quota, run, finish; quota and arrivals should be the limit.

    python benchmarks/admission.py CONFIGURATION... [--fraction 1.0] [--directory DIR]

A configuration is one of Kueue's own (`test/performance/scheduler`, its `baseline` and `large-scale`). The server is
what `muster up` runs, with one simulated node, in a process of its own and on disk. The player is another process: it
creates each workload when it is due, holds each admitted one for its run time, counted from when it sees Admitted,
writes Finished, and gives back the quota of evicted ones, as the reconciler of a job does.

Times to admission count from when a workload was due. "usage" is the quota that was held, from Admitted seen to
Finished seen, of all there is; "work" is the part of it that had to be. "bound" is what quota and arrivals allow, "at
once" how long it takes with the same priorities and preemption if nothing takes any time. Writes are the store's
revisions.
"""

import argparse
import asyncio
import json
import math
import os
import re
import resource
import ssl
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import count, product
from pathlib import Path
from typing import Any

import msgspec
import uvloop
import yaml
from admission_at_once import Played
from apiserver import Lag
from clients import Refused, Times, Watch, Wire

from muster.api.core import NODE
from muster.api.kinds import Kind
from muster.api.kueue import CLUSTER_QUEUE, COHORT, LOCAL_QUEUE, RESOURCE_FLAVOR, TOPOLOGY, WORKLOAD
from muster.api.values.quantity import parse
from muster.cluster.apiserver.front.flow import Flow
from muster.cluster.apiserver.front.https import LIMITS, HttpsFront
from muster.cluster.apiserver.identity.credentials import Credentials
from muster.cluster.apiserver.identity.users import User
from muster.cluster.embedded import run_cluster
from muster.cluster.entrance import connect_viewer
from muster.cluster.nodespec import NodeSpec
from muster.cluster.store.sqlite import SqliteJournal
from muster.dashboard.embedding import make_pages
from muster.queueing.workload.eviction import release_evicted
from muster.runtime.clock import RealClock
from muster.runtime.ids import Ids
from muster.runtime.objects import merge_patch
from muster.runtime.process.garbage import settle

SPACE = "default"
READY = {"type": "Ready", "status": "True", "reason": "R", "message": "m"}
WORKLOADS = WORKLOAD.path(SPACE)
WATCHED = f"{WORKLOADS}?watch=1"
# Requests under way together, each on a connection of its own.
CREATORS, FINISHERS = 16, 16


@dataclass(frozen=True, slots=True)
class Class:
    """Workloads that are alike."""

    name: str
    run_seconds: float
    priority: int
    cpus: float  # of all its pods
    pods: int = 1
    topology: dict[str, Any] | None = None  # what the podset asks for


@dataclass(frozen=True, slots=True)
class Arrival:
    """One workload, and when it comes."""

    due: float  # seconds from the start
    name: str
    queue: str
    kind: Class


@dataclass(slots=True)
class Plan:
    """What a configuration asks for."""

    setup: list[tuple[Kind[Any], str, dict[str, Any]]] = field(default_factory=list)  # kind, namespace, object
    arrivals: list[Arrival] = field(default_factory=list)
    cpus: int = 0  # of all queues
    flavor: str = "rf"
    work: float = 0.0  # CPU seconds
    bound: float = 0.0  # seconds; no queue can be done before


def plan(path: Path, fraction: float) -> Plan:
    """Read a configuration; `fraction` is how many of its workloads are played."""
    result, numbers = Plan(), count()
    written = yaml.safe_load(path.read_text())
    _add_flavor(result, written.get("resourceFlavor", {"name": "rf"}), written.get("topology"))
    for cohorts in written["cohorts"]:
        for number in range(cohorts["count"]):
            cohort = f"{cohorts['className']}-{number}"
            result.setup.append((COHORT, "", {"metadata": {"name": cohort}}))
            for queues in cohorts["queuesSets"]:
                for index in range(queues["count"]):
                    _add_queue(result, queues, f"{cohort}-{queues['className']}-{index}", cohort, fraction, numbers)
    result.arrivals.sort(key=lambda arrival: arrival.due)
    return result


def _add_flavor(plan: Plan, flavor: dict[str, Any], topology: dict[str, Any] | None) -> None:
    """The flavor; if it has a topology, that too, and its nodes, of which each level has so many in the next wider."""
    plan.flavor = flavor["name"]
    spec: dict[str, Any] = {}
    if topology is not None:
        spec = {"nodeLabels": {flavor["nodeLabel"]: "true"}, "topologyName": topology["name"]}
        levels = [{"nodeLabel": level["nodeLabel"]} for level in topology["levels"]]
        plan.setup.append((TOPOLOGY, "", {"metadata": {"name": topology["name"]}, "spec": {"levels": levels}}))
        for path in product(*(range(level["count"]) for level in topology["levels"])):
            names = ["-".join(map(str, path[: depth + 1])) for depth in range(len(path))]
            labels = {level["nodeLabel"]: f"n-{name}" for level, name in zip(topology["levels"], names, strict=True)}
            meta = {"name": f"n-{names[-1]}", "labels": {**spec["nodeLabels"], **labels}}
            capacity = {"pods": "110", **topology["levels"][-1]["capacity"]}
            plan.setup.append(
                (NODE, "", {"metadata": meta, "status": {"allocatable": capacity, "conditions": [READY]}})
            )
    plan.setup.append((RESOURCE_FLAVOR, "", {"metadata": {"name": flavor["name"]}, "spec": spec}))


def _topology(written: dict[str, Any]) -> dict[str, Any] | None:
    """Balanced placement is what upstream's default build does with it: preferred."""
    if "tasConstraint" not in written:
        return None
    how = "required" if written["tasConstraint"] == "required" else "preferred"
    return {how: written["tasLevel"]}


def _add_queue(
    plan: Plan, queues: dict[str, Any], name: str, cohort: str, fraction: float, numbers: Iterator[int]
) -> None:
    quota = {"name": "cpu", "nominalQuota": queues["nominalQuota"], "borrowingLimit": queues["borrowingLimit"]}
    spec = {
        "cohortName": cohort,
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [{"name": plan.flavor, "resources": [quota]}]}],
        "preemption": {
            "reclaimWithinCohort": queues["reclaimWithinCohort"],
            "withinClusterQueue": queues["withinClusterQueue"],
        },
    }
    plan.setup.append((CLUSTER_QUEUE, "", {"metadata": {"name": name}, "spec": spec}))
    plan.setup.append((LOCAL_QUEUE, SPACE, {"metadata": {"name": name}, "spec": {"clusterQueue": name}}))
    plan.cpus += int(queues["nominalQuota"])
    work, end = 0.0, 0.0
    for each in queues["workloadsSets"]:
        for written in each["workloads"]:
            pods = written.get("podCount", 1)
            cpus = float(parse(written["request"]) * pods)
            seconds, priority = written["runtimeMs"] / 1e3, written["priority"]
            kind = Class(written["className"], seconds, priority, cpus, pods, _topology(written))
            many, interval = max(1, round(each["count"] * fraction)), each["creationIntervalMs"] / 1e3
            for turn in range(1, many + 1):
                number = next(numbers)
                plan.arrivals.append(Arrival(turn * interval, f"{name}-{kind.name}-{number}", name, kind))
            work += many * kind.run_seconds * kind.cpus
            end = max(end, many * interval + kind.run_seconds)
    plan.work += work
    plan.bound = max(plan.bound, end, work / int(queues["nominalQuota"]))


def body(arrival: Arrival) -> bytes:
    """A workload of pods that are alike, as Kueue's own player makes it."""
    each = f"{arrival.kind.cpus / arrival.kind.pods * 1000:.0f}m"
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": each}}}
    podset = {
        "name": "main",
        "count": arrival.kind.pods,
        **({"topologyRequest": arrival.kind.topology} if arrival.kind.topology is not None else {}),
        "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
    }
    return msgspec.json.encode({
        "apiVersion": WORKLOAD.api_version,
        "kind": WORKLOAD.kind,
        "metadata": {"name": arrival.name, "namespace": SPACE},
        "spec": {"queueName": arrival.queue, "priority": arrival.kind.priority, "podSets": [podset]},
    })  # fmt: skip


class _Condition(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""
    observed_generation: int = 0


class _Meta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str
    resource_version: str


class _Status(msgspec.Struct, frozen=True, gc=False):
    conditions: tuple[_Condition, ...] = ()


class _Workload(msgspec.Struct, frozen=True, gc=False):
    metadata: _Meta
    status: _Status = _Status()


class _Change(msgspec.Struct, frozen=True, gc=False):
    """As much of a change as the player has to know of every one."""

    type: str
    object: _Workload


class _Whole(msgspec.Struct, frozen=True, gc=False):
    object: msgspec.Raw


_read = msgspec.json.Decoder(_Change).decode
_read_whole = msgspec.json.Decoder(_Whole).decode


@dataclass(slots=True)
class _Held:
    since: float
    timer: asyncio.TimerHandle
    latest: _Workload


class Player:
    """Plays jobs whose workloads are the plan's."""

    def __init__(self, plan: Plan) -> None:
        self.waited: dict[str, Times] = defaultdict(Times)  # to admission, by class
        self.held = 0.0  # CPU seconds
        self.lost = 0.0  # CPU seconds, of those of workloads that were evicted
        self.evictions = 0
        self.late = 0.0  # seconds; the most that a creation was answered after it was due
        self.done = asyncio.Event()
        self._plan = plan
        self._bodies = [body(arrival) for arrival in plan.arrivals]
        self._arrivals = {arrival.name: arrival for arrival in plan.arrivals}
        self._new = set(self._arrivals)  # not yet admitted
        self._running: dict[str, _Held] = {}
        self._refused: set[str] = set()  # to finish, once the change that came between is seen
        self._left = set(self._arrivals)  # not yet finished
        self._todo: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue()  # to finish, or to give back
        self._start = 0.0

    async def play(self, creators: list[Wire], finishers: list[Wire]) -> float:
        """Until the last one has finished; how long that took, in seconds."""
        self._start = time.perf_counter()
        numbers = iter(range(len(self._bodies)))
        async with asyncio.TaskGroup() as group:
            for wire in creators:
                group.create_task(self._create(wire, numbers))
            writers = [group.create_task(self._write(wire)) for wire in finishers]
            await self.done.wait()
            for writer in writers:
                writer.cancel()
        return self._now()

    def _now(self) -> float:
        return time.perf_counter() - self._start

    async def _create(self, wire: Wire, numbers: Iterator[int]) -> None:
        for number in numbers:
            arrival = self._plan.arrivals[number]
            if (early := arrival.due - self._now()) > 0:
                await asyncio.sleep(early)
            await wire.ask("POST", WORKLOADS, self._bodies[number])
            self._bodies[number] = b""
            self.late = max(self.late, self._now() - arrival.due)

    def seen(self, line: bytes) -> None:
        """Something changed about a workload."""
        change = _read(line).object
        name = change.metadata.name
        arrival = self._arrivals.get(name)
        true = {condition.type for condition in change.status.conditions if condition.status == "True"}
        if arrival is None or not true:
            return
        if "Finished" in true:
            self._finished(arrival)
        elif "Evicted" in true and "QuotaReserved" in true:
            self.lost += self._stop(arrival)
            self.evictions += 1
            self._todo.put_nowait((name, bytes(_read_whole(line).object)))
        elif name in self._running:
            self._running[name].latest = change
            self._finish_again(name)
        elif "Admitted" in true:
            now = self._now()
            if name in self._new:
                self._new.remove(name)
                self.waited[arrival.kind.name].values.append(now - arrival.due)
            timer = asyncio.get_running_loop().call_later(arrival.kind.run_seconds, self._todo.put_nowait, (name, b""))
            self._running[name] = _Held(now, timer, change)

    def _finish_again(self, name: str) -> None:
        if name in self._refused:
            self._refused.remove(name)
            self._todo.put_nowait((name, b""))

    def _stop(self, arrival: Arrival) -> float:
        """It holds its quota no longer; how much it has held, in CPU seconds."""
        if (running := self._running.pop(arrival.name, None)) is None:
            return 0.0
        running.timer.cancel()
        self._refused.discard(arrival.name)
        held = (self._now() - running.since) * arrival.kind.cpus
        self.held += held
        return held

    def _finished(self, arrival: Arrival) -> None:
        self._stop(arrival)
        self._left.discard(arrival.name)
        if not self._left:
            self.done.set()

    async def _write(self, wire: Wire) -> None:
        while True:
            name, evicted = await self._todo.get()
            if not evicted and name not in self._running:
                continue
            held = self._running.get(name)
            latest = held.latest if held is not None else None
            change = _release(evicted) if evicted or latest is None else _finish(latest)
            try:
                await wire.ask("PATCH", f"{WORKLOADS}/{name}/status", change)
            except Refused as refused:
                if "Conflict" not in str(refused):
                    raise
                # The change that came between will be seen, if it was not meanwhile.
                if not evicted and held is not None and self._running.get(name) is held:
                    self._refused.add(name)
                    if held.latest is not latest:
                        self._finish_again(name)


def _finish(workload: _Workload) -> bytes:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    finished = _Condition("Finished", "True", "ByTest", "By test runner", now)
    version = {"resourceVersion": workload.metadata.resource_version}
    return msgspec.json.encode({
        "metadata": version, "status": {"conditions": (*workload.status.conditions, finished)}
    })  # fmt: skip


def _release(written: bytes) -> bytes:
    """What the reconciler of a job writes once nothing of an evicted job runs any more."""
    workload = WORKLOAD.decode(written)
    status = release_evicted(workload.status, datetime.now(UTC))
    version = {"resourceVersion": workload.metadata.resource_version}
    return msgspec.json.encode({"metadata": version, "status": merge_patch(status, workload.status)})


@dataclass(frozen=True, slots=True)
class State:
    """How the server is doing."""

    revision: int
    cpu: float  # seconds, since its start
    memory: float  # megabytes, the most so far
    lag: float  # p99 in seconds, since the last time
    longest: float  # seconds, since the last time
    dropped: int  # events


@dataclass(frozen=True, slots=True)
class Cost:
    """What a configuration took: wall time, and CPU of the server, both in seconds, for so many workloads."""

    workloads: int
    wall: float
    cpu: float


async def serve(directory: Path) -> None:
    """The server for the other process: its state for every line on standard input, until that ends."""
    credentials = Credentials.load(directory / "pki", RealClock().now(), Ids())
    asyncio.get_running_loop().call_later(1.0, settle)
    journal = SqliteJournal(directory / "data")
    async with run_cluster(journal, directory / "nodes", (NodeSpec("simulated"),), adopt=True) as running:
        plane = running.plane
        flow, authenticator = Flow(plane.server.metrics, LIMITS), credentials.authenticator(plane.access.tokens.user)

        async def identify(certificate: User | None, authorization: str, _: int | None) -> User:
            return authenticator.user(certificate, authorization)

        pages = make_pages(directory, plane, identify, partial(connect_viewer, plane, flow), (), "")
        front = HttpsFront(plane.server, authenticator, credentials.server_context(), pages, flow)
        print(await front.start("127.0.0.1", 0), flush=True)
        lag, ended = Lag(), asyncio.Event()

        def answer() -> None:
            if not os.read(0, 1):
                asyncio.get_running_loop().remove_reader(0)
                ended.set()
                return
            use, times = resource.getrusage(resource.RUSAGE_SELF), lag.taken()
            state = State(
                plane.store.revision,
                use.ru_utime + use.ru_stime,
                use.ru_maxrss / 1e3,
                times.percentile(99),
                times.percentile(100),
                plane.events.dropped,
            )
            print(json.dumps([getattr(state, name) for name in State.__slots__]), flush=True)

        asyncio.get_running_loop().add_reader(0, answer)
        await running.until(ended.wait())
        await pages.close()
        await front.stop()


class Server:
    """The server's process, and connections to it."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, context: ssl.SSLContext) -> None:
        self._process, self._port, self._context = process, port, context

    async def state(self) -> State:
        """How it is doing."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(b"\n")
        stdin.flush()
        return State(*json.loads(await asyncio.to_thread(stdout.readline)))

    async def wire(self) -> Wire:
        """A connection, which the server keeps because it was used."""
        loop = asyncio.get_running_loop()
        _, wire = await loop.create_connection(Wire, "127.0.0.1", self._port, ssl=self._context)
        await wire.ask("GET", "/version")
        return wire

    async def watch(self, player: Player) -> None:
        """Let the player see every change."""
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: Watch(player.seen, WATCHED), "127.0.0.1", self._port, ssl=self._context)


async def requests(wire: Wire) -> Counter[str]:
    """How many requests but watches the server has answered, by verb and resource, and why not if it refused."""
    text = (await wire.ask("GET", "/metrics")).decode()
    found: Counter[str] = Counter()
    for labels, number in re.findall(r"^apiserver_request_total\{(.*)\} (\S+)$", text, re.MULTILINE):
        of = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        if of["verb"] != "WATCH":
            what = f"{of['verb']} {of['resource']}/{of['subresource']}".rstrip("/")
            found[what if of["code"] in ("200", "201") else f"{what} ({of['code']})"] += int(float(number))
    return found


def most(counted: Counter[str], number: int) -> str:
    """The most frequent ones, a line each, for each of so many."""
    return "\n".join(f"    {what:<42}{times / number:6.2f}" for what, times in counted.most_common(8))


Accompany = Callable[[int, ssl.SSLContext], AbstractAsyncContextManager[None]]
"""Does something beside the benchmark with the server at a port."""


def alone(_port: int, _context: ssl.SSLContext) -> AbstractAsyncContextManager[None]:
    """Do nothing beside the benchmark."""
    return nullcontext()


async def run(path: Path, directory: Path, fraction: float, accompany: Accompany = alone) -> Cost:
    """Play one configuration, print its table, and return what it took."""
    script = plan(path, fraction)
    work = [(one.due, body(one), one.queue, one.kind.run_seconds) for one in script.arrivals]
    at_once = Played(script.setup, work).seconds()
    command = [sys.executable, __file__, "--serve", str(directory)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        port = int(await asyncio.to_thread(process.stdout.readline))
        credentials = Credentials.load(directory / "pki", RealClock().now(), Ids())
        context = ssl.create_default_context(cadata=credentials.authority_pem.decode())
        context.load_cert_chain(credentials.admin.file)
        server = Server(process, port, context)
        async with accompany(port, context):
            cost = await measure(path.stem, script, server, process.pid, at_once)
        assert process.stdin is not None
        process.stdin.close()
    return cost


async def measure(title: str, script: Plan, server: Server, pid: int, at_once: float) -> Cost:
    """Play, print what came of it, and return what it took."""
    wires = [await server.wire() for _ in range(CREATORS + FINISHERS)]
    start = time.perf_counter()
    for kind, namespace, document in script.setup:
        made = {"apiVersion": kind.api_version, "kind": kind.kind, **document}
        await wires[0].ask("POST", kind.path(namespace), msgspec.json.encode(made))
        if kind is NODE:  # its status is not what who makes it says
            path = kind.path("", document["metadata"]["name"], "status")
            await wires[0].ask("PATCH", path, msgspec.json.encode({"status": document["status"]}))
    setup = time.perf_counter() - start
    player = Player(script)
    await server.watch(player)
    await asyncio.sleep(1.0)
    asked = await requests(wires[0])
    before, cpu = await server.state(), time.process_time()
    number = len(script.arrivals)
    print(
        f"\n{title}: {number:,} workloads, {script.cpus:,} CPUs, set up in {setup:.2f} s; server is {pid}", flush=True
    )
    took = await player.play(wires[:CREATORS], wires[CREATORS:])
    cpu = time.process_time() - cpu
    at_end = await server.state()
    bounds = f"bound {script.bound:.1f} s, at once {at_once:.1f} s"
    print(f"  wall time               {took:8.1f} s   {bounds}   {number / took:.0f} workloads/s")
    _print_player(player, script.cpus * took, script.work)
    print(f"  server: CPU {at_end.cpu - before.cpu:.1f} s, memory {at_end.memory:,.0f} MB at most")
    print(f"          lag p99 {at_end.lag * 1e3:.1f} ms, longest {at_end.longest * 1e3:.1f} ms")
    print(f"  player: CPU {cpu:.1f} s; load {os.getloadavg()[0]:.1f}")
    await asyncio.sleep(5.0)  # statuses and events follow
    after = await server.state()
    print(f"  writes per workload     {(after.revision - before.revision) / number:8.2f}", end="")
    print(f"   {(at_end.revision - before.revision) / number:.2f} until the end; events dropped {after.dropped:,}")
    print(most(await requests(wires[0]) - asked, number))
    return Cost(number, took, at_end.cpu - before.cpu)


def _print_player(player: Player, whole: float, work: float) -> None:
    """What the player saw; `whole` are the CPU seconds that there were, `work` those that had to be."""
    print(f"  average usage           {player.held / whole:8.1%}   work {work / whole:.1%}", end="")
    print(f"   lost by evictions {player.lost / whole:.1%}")
    for name, waited in sorted(player.waited.items()):
        mean = math.fsum(waited.values) / len(waited.values)
        print(f"  admission, {name:<12} {mean:8.2f} s   p99 {waited.percentile(99):.2f} s")
    print(f"  creation late by        {player.late:8.2f} s at most")
    print(f"  evictions               {player.evictions:8,}")


def main() -> None:
    """One table for each configuration."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("configurations", nargs="*", type=Path)
    parser.add_argument("--fraction", type=float, default=1.0, help="of the workloads of each kind")
    parser.add_argument("--directory", type=Path, default=None)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        uvloop.run(serve(options.serve))
        return
    print(f"{os.cpu_count()} cores, Python {sys.version.split()[0]}")
    for path in options.configurations:
        with tempfile.TemporaryDirectory(dir=options.directory) as directory:
            uvloop.run(run(path, Path(directory), options.fraction))


if __name__ == "__main__":
    main()
