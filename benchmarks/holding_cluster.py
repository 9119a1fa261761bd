"""What `muster controllers` holds of a big cluster on a real control plane, with what its server and store hold.

    PYTHONPATH=. python benchmarks/holding_cluster.py [--workloads 100000] [--pods 200000] [--nodes 5000]

The objects are those of `holding.py`: workloads that wait in one queue without quota, and running pods of others. They
are made before the engine starts, which then tells each workload why it waits. The table is of the time from its start
until hardly anything was written any more. MUSTER_KUBE_ASSETS names the folder with kube-apiserver and etcd.
"""

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import uvloop
from clients import Wire
from holding import node, pod, queues, workload

from cluster import CREATORS, Process, Replica, Site, kube, until
from muster.api.core import NODE, POD, SERVICE_ACCOUNT
from muster.api.kinds import Kind
from muster.api.kueue import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR, WORKLOAD

SPACE = "default"
# The engine has done all when so little was written for so long: Leases always are. It may take as long as the last.
QUIET_SECONDS, QUIET_WRITES, START_SECONDS = 10.0, 20, 1800.0
# etcd takes 2 GB of itself.
STORE_BYTES = 16 << 30


async def make(
    wires: Sequence[Wire], kind: Kind[Any], number: int, made: Callable[[int], dict[str, Any]], *, status: bool = False
) -> None:
    """Create so many objects, over all connections; status: give them theirs, too."""
    numbers, start = iter(range(number)), time.monotonic()

    async def some(wire: Wire) -> None:
        for each in numbers:
            whole = made(each)
            meta = {
                key: whole["metadata"][key] for key in ("name", "labels", "ownerReferences") if key in whole["metadata"]
            }
            written = {
                "apiVersion": kind.api_version,
                "kind": kind.kind,
                "metadata": meta,
                "spec": whole.get("spec", {}),
            }
            await wire.ask("POST", kind.path(SPACE), msgspec.json.encode(written))
            if status:
                told = msgspec.json.encode({"status": whole["status"]})
                await wire.ask("PATCH", kind.path(SPACE, meta["name"], "status"), told)

    await asyncio.gather(*map(some, wires))
    print(f"{number:>8,} {kind.plural} made in {time.monotonic() - start:.0f} s", flush=True)


async def hold(workloads: int, pods: int, nodes: int, directory: Path) -> None:
    """Make everything, start the engine, and print what each process took."""
    async with kube(directory, 0) as site:
        wires = [await site.wire() for _ in range(CREATORS)]
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        await wires[0].ask("POST", SERVICE_ACCOUNT.path(SPACE), msgspec.json.encode(account))
        for kind in (RESOURCE_FLAVOR, CLUSTER_QUEUE, LOCAL_QUEUE):
            for one in queues()[kind.plural]:
                await make(wires[:1], kind, 1, lambda _, one=one: one)  # type: ignore[misc]
        await make(wires, NODE, nodes, node, status=True)
        await make(wires, POD, pods, lambda number: pod(number, nodes), status=True)
        await make(wires, WORKLOAD, workloads, workload)
        replica = Replica(site, directory / "replica.log")
        try:
            await _measure(site, wires[0], replica, workloads + pods)
        finally:
            replica.kill()


async def _measure(site: Site, wire: Wire, replica: Replica, objects: int) -> None:
    engine = {"muster controllers": replica.process.pid}
    processes = [Process(name, pid) for name, pid in (site.pids | engine).items()]
    start, before = time.monotonic(), await site.revision(wire)
    async with asyncio.timeout(START_SECONDS):
        await until(replica.leads)
        while not replica.is_ready():
            await asyncio.sleep(0.2)
        started, seen, now = time.monotonic() - start, 0, before
        while now > seen + QUIET_WRITES:
            await asyncio.sleep(QUIET_SECONDS)
            seen, now = now, await site.revision(wire)
    print(f"started after {started:.1f} s, {now - before:,} writes; load {os.getloadavg()[0]:.1f}")
    for process in processes:
        print(process.told())
    resident = Path(f"/proc/{replica.process.pid}/statm").read_text().split()[1]
    each = int(resident) * os.sysconf("SC_PAGE_SIZE") / objects
    print(f"  of the engine, in the end: {each * objects / 1e6:,.0f} MB, {each:,.0f} bytes an object")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", type=int, default=100_000)
    parser.add_argument("--pods", type=int, default=200_000)
    parser.add_argument("--nodes", type=int, default=5_000)
    options = parser.parse_args()
    os.environ["ETCD_QUOTA_BACKEND_BYTES"] = str(STORE_BYTES)
    with tempfile.TemporaryDirectory() as directory:
        uvloop.run(hold(options.workloads, options.pods, options.nodes, Path(directory)))


if __name__ == "__main__":
    main()
