"""What the server's memory is for: what it holds, and not what so many ask for at once."""

import asyncio
import re
from pathlib import Path

from muster.api.core import CONFIG_MAP
from muster.runtime.client import Client
from muster.runtime.clock import RealClock
from muster.runtime.ids import Random
from muster.runtime.kube.https import HttpsTransport
from muster.runtime.kube.kubeconfig_files import load
from muster.runtime.transport import Request

OBJECTS, ASKING = 40, 12
MEGABYTE = 1_000_000


def most_memory(pid):
    """The most that a process ever had, in bytes."""
    (found,) = re.findall(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found) * 1024


def test_many_who_list_what_is_big_do_not_make_the_server_big(up):
    """Each list was in memory as a whole, twice: 20 of 200 MB at once took 3.7 GB."""
    pid = int((up.home / "lock").read_text())
    path = CONFIG_MAP.path("default")

    async def listed(transport):
        async with transport.stream(Request("GET", path)) as chunks:
            return sum([len(chunk) async for chunk in chunks])

    async def story():
        transport = HttpsTransport(load({}, path=str(up.home / "kubeconfig")), RealClock(), Random())
        try:
            client = Client(transport)
            for number in range(OBJECTS):
                big = {"metadata": {"name": f"big{number}"}, "data": {"k": "x" * MEGABYTE}}
                await client.create(CONFIG_MAP.seen_as(dict), big, "default")
            before = most_memory(pid)
            sizes = await asyncio.gather(*[listed(transport) for _ in range(ASKING)])
            assert min(sizes) > OBJECTS * MEGABYTE
            assert most_memory(pid) - before < 3 * OBJECTS * MEGABYTE
        finally:
            await transport.close()

    asyncio.run(story())


def test_an_idle_server_loads_no_library_that_it_does_not_need(muster):
    """numpy takes 12 MB, and the compiler of CEL takes 20 MB."""
    muster.start("up", "--detach", "--port", "0").communicate(timeout=60)  # a forked server has more libraries
    pid = int((muster.home / "lock").read_text())

    def find_loaded():
        maps = Path(f"/proc/{pid}/maps").read_text()
        return [library for library in ("/numpy/", "/cel_expr_python/", "/yaml/") if library in maps]

    assert find_loaded() == []
    muster("run", "--", "true")
    assert find_loaded() == ["/numpy/"]
