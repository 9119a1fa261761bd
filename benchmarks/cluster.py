"""The engine on a real control plane: what an admission costs each process, and how fast a standby takes over.

    PYTHONPATH=. python benchmarks/cluster.py CONFIGURATION --where kube,kube:50,floor,up [--fraction 1.0]
    PYTHONPATH=. python benchmarks/cluster.py --failover 10000

MUSTER_KUBE_ASSETS names the folder with kube-apiserver and etcd, and MUSTER_PEERS that with Kueue's definitions.

The first plays a configuration of Kueue's own, as `admission.py` does and with its player: on kube-apiserver with
`muster controllers` beside it (`kube:50` with 50 requests a second, `kube` with as many as it likes), and on `muster
up`. `floor` is kube-apiserver with only what no manager can do without: one write admits each workload, eight at once,
and nothing is weighed, told or counted. Writes are those of everyone, as the server counts them; bytes watched are
those that kube-apiserver sent to watches, without the player's own.

The second has one workload that runs and the others that wait, a leader, and a standby. The leader is killed, and the
workload ends in the same moment: the time is from there to when another is seen to be admitted.
"""

import argparse
import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import uvloop
from admission import CREATORS, FINISHERS, WATCHED, Arrival, Class, Plan, Player, body, most, plan, requests
from clients import Watch, Wire
from tests.documents import PEERS
from tests.kubeplane import free_port, kube_plane

from muster.api.kueue import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR, WORKLOAD
from muster.runtime.kube.credentials import ClientCertificate
from muster.runtime.kube.kubeconfig import UserConfig
from muster.runtime.kube.kubeconfig_files import load
from muster.runtime.kube.tls import client_context

MUSTER = str(Path(sys.executable).parent / "muster")
TICK = os.sysconf("SC_CLK_TCK")
WORKLOADS = WORKLOAD.path("default")
# So long a start may take, and so long a follower may be behind.
PATIENCE_SECONDS, SETTLE_SECONDS = 120.0, 5.0


@dataclass(frozen=True, slots=True)
class Process:
    """One that is measured, from the time when it is made here."""

    name: str
    pid: int
    before: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "before", self._cpu())

    def _cpu(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def told(self) -> str:
        """What it took since, and the most memory that it had."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        most = re.search(r"VmHWM:\s+(\d+)", status)
        memory = int(most[1]) / 1e3 if most else 0.0
        return f"  {self.name:<20} CPU {self._cpu() - self.before:8.1f} s   memory {memory:8,.0f} MB at most"


class Following:
    """What was heard of workloads."""

    def __init__(self, seen: Callable[[bytes], None]) -> None:
        self._seen = seen
        self._last = b""
        self.bytes = self.ended = 0  # that came; watches that the server has ended

    def seen(self, line: bytes) -> None:
        """One change."""
        self.bytes += len(line)
        self._last = line
        self._seen(line)

    @property
    def version(self) -> str:
        """The resource version of the last change."""
        found = re.search(rb'"resourceVersion":"(\d+)"', self._last)
        return found[1].decode() if found else "0"


class Site:
    """A server, and the processes that make it up."""

    def __init__(self, kubeconfig: Path, pids: dict[str, int], settings: Path | None = None) -> None:
        """settings: for replicas of `muster controllers`, which the server needs; None: it has an engine."""
        self.pids = pids
        self.settings = settings
        self.kubeconfig = kubeconfig
        connection = load({}, path=kubeconfig)
        url = urlsplit(connection.cluster.server)
        self._host, self._port = url.hostname or "", url.port or 443
        self._context = client_context(connection.cluster, _certificate(connection.user))
        token = connection.user.token
        self._headers = f"authorization: Bearer {token}\r\n" if token else ""

    async def wire(self) -> Wire:
        """A connection."""
        loop = asyncio.get_running_loop()
        _, wire = await loop.create_connection(lambda: Wire(self._headers), self._host, self._port, ssl=self._context)
        await wire.ask("GET", "/version")
        return wire

    async def follow(self, following: "Following") -> None:
        """Let someone see every change of a workload; a server ends watches whose client is slow."""
        loop = asyncio.get_running_loop()
        while True:
            _, watch = await loop.create_connection(
                lambda: Watch(following.seen, WATCHED, self._headers, following.version),
                self._host,
                self._port,
                ssl=self._context,
            )
            await watch.ended.wait()
            following.ended += 1

    async def revision(self, wire: Wire) -> int:
        """How many writes it has stored."""
        text = (await wire.ask("GET", "/api/v1/namespaces?limit=1")).decode()
        found = re.search(r'"resourceVersion":"(\d+)"', text)
        assert found
        return int(found[1])

    async def bytes_watched(self, wire: Wire) -> float:
        """Sent to all watches so far, where it counts them."""
        text = (await wire.ask("GET", "/metrics")).decode()
        return sum(
            float(each) for each in re.findall(r"^apiserver_watch_events_sizes_sum\S* (\S+)$", text, re.MULTILINE)
        )


def _certificate(user: UserConfig) -> ClientCertificate | None:
    if user.client_certificate is None or user.client_key is None:
        return None
    return ClientCertificate(user.client_certificate, user.client_key)


@asynccontextmanager
async def kube(directory: Path, rate: int) -> AsyncIterator[Site]:
    """kube-apiserver and etcd with Kueue's kinds; rate: requests a second of each replica, 0 for no limit."""
    with kube_plane(directory) as plane:
        environment = os.environ | {"KUBECONFIG": str(plane.kubeconfig)}

        def kubectl(*arguments: str) -> None:
            subprocess.run(["kubectl", *arguments], env=environment, check=True, capture_output=True)

        kubectl("create", "namespace", "kueue-system")
        for folder in ("kueue", "jobset"):
            kubectl("apply", "--server-side", "-f", str(PEERS / "crds" / folder))
        time.sleep(2.0)  # it complains of those of which nothing is said yet
        kubectl("wait", "--for", "condition=Established", "crd", "--all", "--timeout=60s")
        settings = directory / "settings.yaml"
        settings.write_text(
            "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nmetrics: {bindAddress: '0'}\n"
            + (f"clientConnection: {{qps: {rate}, burst: {2 * rate}}}\n" if rate else "")
        )
        pids = {name: _child_named(name) for name in ("kube-apiserver", "etcd")}
        yield Site(plane.kubeconfig, pids, settings)


def _child_named(name: str) -> int:
    """The process of that name which this one has started."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return next(
        int(pid)
        for pid in children
        if Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].endswith(name.encode())
    )


@asynccontextmanager
async def up(directory: Path) -> AsyncIterator[Site]:
    """`muster up` with one simulated node."""
    environment = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
    command = [MUSTER, "up", "--port", "0", "--nodes", "simulated"]
    kubeconfig = directory / "kubeconfig"
    with (
        (directory / "log").open("w") as log,
        subprocess.Popen(command, env=environment | {"MUSTER_HOME": str(directory)}, stdout=log, stderr=log) as process,
    ):
        try:
            await until(kubeconfig.exists)
            site = Site(kubeconfig, {"muster up": process.pid})
            await until_ready(site)
            yield site
        finally:
            process.terminate()


async def until_ready(site: Site) -> None:
    """Until the server, and all that runs in it, have started."""
    wire = await site.wire()
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            with contextlib.suppress(Exception):
                await wire.ask("GET", "/readyz")
                return
            await asyncio.sleep(0.2)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            await asyncio.sleep(0.05)


class Replica:
    """`muster controllers` as a process."""

    def __init__(self, site: Site, log: Path) -> None:
        assert site.settings is not None
        self.log = log
        self._health = free_port()
        settings = log.with_suffix(".yaml")
        settings.write_text(
            f'{site.settings.read_text()}health: {{healthProbeBindAddress: "127.0.0.1:{self._health}"}}\n'
            f'webhook: {{host: "127.0.0.1", port: {free_port()}}}\n'
        )
        command = [MUSTER, "controllers", "--kubeconfig", str(site.kubeconfig), "--config", str(settings)]
        with log.open("w") as file:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file)

    async def ready(self) -> None:
        """Until it works, or stands by."""
        await until(self.is_ready)

    def is_ready(self) -> bool:
        """Whether it works, or stands by, now."""
        assert self.process.poll() is None, self.log.read_text()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._health}/readyz") as answer:
                return bool(answer.read() == b"ok")  # or it says what the start waits for
        except OSError:
            return False

    def leads(self) -> bool:
        return " leads " in self.log.read_text()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Granting:
    """Admits every workload by one write, whatever it asks for."""

    def __init__(self, wires: Sequence[Wire]) -> None:
        self._wires = wires
        self._new: asyncio.Queue[str] = asyncio.Queue()

    def seen(self, line: bytes) -> None:
        """One change."""
        if b'"type":"ADDED"' in line and (name := re.search(rb'"name":"([^"]+)","namespace"', line)):
            self._new.put_nowait(name[1].decode())

    async def run(self) -> None:
        """Until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            for wire in self._wires:
                group.create_task(self._admit(wire))

    async def _admit(self, wire: Wire) -> None:
        conditions = [
            {
                "type": each,
                "status": "True",
                "reason": each,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
                "message": said,
            }
            for each, said in (
                ("QuotaReserved", "Quota reserved in ClusterQueue q"),
                ("Admitted", "The workload is admitted"),
            )
        ]
        podset = {"name": "main", "count": 1, "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "1"}}
        status = {"conditions": conditions, "admission": {"clusterQueue": "q", "podSetAssignments": [podset]}}
        patch = msgspec.json.encode({"status": status})
        while True:
            await wire.ask("PATCH", f"{WORKLOADS}/{await self._new.get()}/status", patch)


async def create(wire: Wire, script: Plan) -> None:
    """Make the queues."""
    for kind, namespace, document in script.setup:
        made = {"apiVersion": kind.api_version, "kind": kind.kind, **document}
        await wire.ask("POST", kind.path(namespace), msgspec.json.encode(made))


async def baseline(where: str, path: Path, fraction: float, directory: Path) -> None:
    """Play a configuration at one place, and print what it took."""
    script = plan(path, fraction)
    number = len(script.arrivals)
    async with place(where, directory) as site:
        engine = site.settings is not None and where != "floor"
        replica = Replica(site, directory / "replica.log") if engine else None
        try:
            if replica is not None:
                await until(replica.leads)
                await replica.ready()
                site.pids["muster controllers"] = replica.process.pid
            wires = [await site.wire() for _ in range(CREATORS + FINISHERS)]
            await create(wires[0], script)
            player = Player(script)
            heard = Following(player.seen)
            tasks = [asyncio.create_task(site.follow(heard))]
            if where == "floor":
                granting = Granting([await site.wire() for _ in range(8)])
                tasks += [
                    asyncio.create_task(site.follow(Following(granting.seen))),
                    asyncio.create_task(granting.run()),
                ]
            await asyncio.sleep(1.0)
            revision, watched = await site.revision(wires[0]), await site.bytes_watched(wires[0]) - heard.bytes
            asked = await requests(wires[0])
            processes = [Process(name, pid) for name, pid in site.pids.items()]
            took = await player.play(wires[:CREATORS], wires[CREATORS:])
            told = "\n".join(process.told() for process in processes)
            print(f"\n{where}: {path.stem}, {number:,} workloads in {took:.1f} s (bound {script.bound:.1f} s)")
            print(
                f"{told}\n  load {os.getloadavg()[0]:.1f}, evictions {player.evictions:,}, watches ended {heard.ended}"
            )
            await asyncio.sleep(SETTLE_SECONDS)
            again = await site.wire()  # a server closes those that were idle all the time
            writes = await site.revision(again) - revision
            watched = await site.bytes_watched(again) - heard.bytes - watched
            read = f", {watched / number:,.0f} bytes watched" if replica is not None else ""
            print(f"  for each workload: {writes / number:.2f} writes{read}")
            print(most(await requests(again) - asked, number), flush=True)
            for task in tasks:
                task.cancel()
        finally:
            if replica is not None:
                replica.kill()


def place(where: str, directory: Path) -> "contextlib.AbstractAsyncContextManager[Site]":
    name, _, rate = where.partition(":")
    return up(directory) if name == "up" else kube(directory, int(rate or 0))


def _one_queue() -> Plan:
    quota = {"name": "cpu", "nominalQuota": 1}
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": [quota]}]}
    return Plan([
        (RESOURCE_FLAVOR, "", {"metadata": {"name": "f"}}),
        (CLUSTER_QUEUE, "", {"metadata": {"name": "q"}, "spec": {"namespaceSelector": {}, "resourceGroups": [group]}}),
        (LOCAL_QUEUE, "default", {"metadata": {"name": "q"}, "spec": {"clusterQueue": "q"}}),
    ])  # fmt: skip


async def failover(pending: int, directory: Path) -> None:
    """Kill a leader, and print when the standby has done what."""
    async with kube(directory, 0) as site:
        replicas: list[Replica] = []
        admitted: dict[str, float] = {}

        def seen(line: bytes) -> None:
            if b'"reason":"Admitted"' in line and (name := re.search(rb'"name":"(w-\d+)"', line)):
                admitted.setdefault(name[1].decode(), time.monotonic())

        try:
            replicas.append(Replica(site, directory / "leader.log"))
            await until(replicas[0].leads)
            await replicas[0].ready()
            wires = [await site.wire() for _ in range(CREATORS)]
            await create(wires[0], _one_queue())
            following = asyncio.create_task(site.follow(Following(seen)))
            await _submit(wires, pending + 1)
            await until(lambda: admitted)
            replicas.append(Replica(site, directory / "standby.log"))
            await replicas[1].ready()
            await asyncio.sleep(SETTLE_SECONDS)
            running, *others = admitted
            assert not others
            standby = Process("the standby", replicas[1].process.pid)
            replicas[0].process.send_signal(signal.SIGKILL)
            start = time.monotonic()
            await wires[0].ask("DELETE", f"{WORKLOADS}/{running}")
            await until(replicas[1].leads)
            leads = time.monotonic() - start
            await replicas[1].ready()
            ready = time.monotonic() - start
            await until(lambda: len(admitted) > 1)
            first = sorted(admitted.values())[1] - start
            print(
                f"\n{pending:,} pending: leads after {leads:.1f} s, ready {ready:.1f} s, first admission {first:.1f} s"
            )
            print(f"{standby.told()}\n  load {os.getloadavg()[0]:.1f}", flush=True)
            following.cancel()
        finally:
            for replica in replicas:
                replica.kill()


async def _submit(wires: Sequence[Wire], number: int) -> None:
    kind = Class("w", run_seconds=0.0, priority=0, cpus=1.0)
    names = iter(range(number))

    async def submit(wire: Wire) -> None:
        for each in names:
            await wire.ask("POST", WORKLOADS, body(Arrival(0.0, f"w-{each}", "q", kind)))

    await asyncio.gather(*(submit(wire) for wire in wires))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("configurations", nargs="*", type=Path)
    parser.add_argument("--where", default="kube,up", help="kube, kube:REQUESTS_A_SECOND, floor, up; in this order")
    parser.add_argument("--fraction", type=float, default=1.0, help="of the workloads of each kind")
    parser.add_argument(
        "--failover", type=int, default=0, metavar="PENDING", help="kill a leader with so many that wait"
    )
    options = parser.parse_args()
    for path in options.configurations:
        for where in options.where.split(","):
            with tempfile.TemporaryDirectory() as directory:
                uvloop.run(baseline(where, path, options.fraction, Path(directory)))
    if options.failover:
        with tempfile.TemporaryDirectory() as directory:
            uvloop.run(failover(options.failover, Path(directory)))


if __name__ == "__main__":
    main()
