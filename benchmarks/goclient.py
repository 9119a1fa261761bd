"""Rows that a client in Go measures: the HTTP stack of client-go, at less CPU than any server needs for the same.

`client_in_go/main.go` is built with the program that MUSTER_GO names, or `go` on the PATH.
"""

import asyncio
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from clients import Times
from protocols import CHANGES, CONNECTIONS, WATCHES, WRITERS, Result, Row, Server

SOURCE = Path(__file__).parent / "client_in_go"
JOBS = {"creates": "create", "gets": "get", "status patches": "status"}
PROTOCOLS = {
    f"HTTP/1.1, {CONNECTIONS} connections": "1.1",
    f"one HTTP/2 connection, {CONNECTIONS} at once": "2",
}
WATCH_PROTOCOLS = {f"HTTP/1.1, {WATCHES} connections": "1.1", "HTTP/2, as few connections as it lets": "2"}


@contextmanager
def built_client() -> Iterator[Path | None]:
    """Build the client, and yield its path; None on a machine without Go."""
    go = shutil.which(os.environ.get("MUSTER_GO", "go"))
    if go is None:
        yield None
        return
    with tempfile.TemporaryDirectory() as directory:
        program = Path(directory) / "goclient"
        subprocess.run([go, "build", "-o", program, "."], cwd=SOURCE, check=True)
        yield program


def rows_by(program: Path) -> dict[str, Row]:
    """Return the rows that the client can measure, by their titles."""
    requests = {
        f"{name}/s, {where}": partial(_measure, program, ["-do", job, "-protocol", protocol])
        for name, job in JOBS.items()
        for where, protocol in PROTOCOLS.items()
    }
    watches = {
        f"events/s, {WATCHES} watches, {where}": partial(_measure, program, ["-do", "watch", "-protocol", protocol])
        for where, protocol in WATCH_PROTOCOLS.items()
    }
    return requests | watches


async def _measure(program: Path, words: list[str], server: Server, seconds: float) -> Result:
    with tempfile.NamedTemporaryFile("w", suffix=".crt") as authority:
        authority.write(server.authority)
        authority.flush()
        at_once = WRITERS if "watch" in words else CONNECTIONS
        options = {"url": f"https://{server.host}:{server.port}", "ca": authority.name, "at-once": at_once}
        options |= {"seconds": seconds, "watches": WATCHES, "changes": CHANGES}
        flags = [f"-{name}={value}" for name, value in options.items()]
        client = await asyncio.create_subprocess_exec(
            program, *words, *flags, env=os.environ | {"TOKEN": server.token}, stdout=subprocess.PIPE
        )
        printed, _ = await client.communicate()
    if client.returncode:
        raise RuntimeError(f"the client in Go failed beside {server.name}")
    found = json.loads(printed)
    note = f"{found['reopened']} watches began again" if found["reopened"] else ""
    return Result(found["units"] / found["seconds"], Times([found["p50"] / 1e3]), note)
