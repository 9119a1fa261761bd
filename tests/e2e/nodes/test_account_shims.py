"""Containers that root starts for an account: the account gets nothing of root's with them."""

import asyncio
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.nodes.test_node_shims import Node, output
from tests.e2e.unixpeople import CAN_MAKE_USERS, WHY_NOT, Person, new_people

from muster.cluster.nodes import shims
from muster.cluster.nodes.container.programs import execute
from muster.cluster.nodes.machine.isolation import Isolation

pytestmark = pytest.mark.skipif(not CAN_MAKE_USERS, reason=WHY_NOT)

_PIDFD_GETFD, _KEYCTL, _ADD_KEY = 438, 250, 248
_SESSION_KEYRING = ctypes.c_int(-3)
_COMMAND = (
    "identity",
    "env",
    "working_directory",
    "umask",
    "ids",
    "no_new_privileges",
    "dropped",
    "writable",
    "cgroups",
    "cpus",
)


@pytest.fixture
def ada() -> Iterator[Person]:
    with new_people(Path("/"), f"muster-{os.getpid()}") as (ada,):
        yield ada


@pytest.fixture
def node() -> Iterator[Node]:
    root = Path(tempfile.mkdtemp(prefix="muster-test-", dir="/var/lib"))  # the account reaches it
    root.chmod(0o711)
    made = Node(root, Isolation("user-namespaces", own_pids=True))
    yield made
    for shim in made.shims:
        shim.destroy()
    shutil.rmtree(root)


@pytest.fixture
def cgroup() -> Iterator[Path]:
    roots = [
        path for path in map(Path, ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")) if (path / "cgroup.procs").exists()
    ]
    made = roots[0] / f"muster-test-{os.getpid()}" if roots else Path()
    try:
        made.mkdir()
    except OSError:
        pytest.skip("this machine allows no cgroup v2")
    yield made
    made.rmdir()


def spec_for(node: Node, account: Person, *argv: str, **changes: Any) -> Any:
    identity = {"uid": account.uid, "gid": account.entry.pw_gid, "groups": [account.entry.pw_gid], "limits": []}
    spec = node.spec(*argv, identity=identity, no_new_privileges=True, **changes)
    os.chown(spec["directory"], account.uid, account.entry.pw_gid)
    return spec


def cgroup_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cgroup").read_text().rpartition("0::")[2].strip()


def test_an_account_joins_its_cgroup_and_moves_no_other_process(node: Node, ada: Person, cgroup: Path) -> None:
    """A descriptor of `cgroup.procs` that root opened would let the account move, and so end, any process."""

    def move_by_the_shims_descriptors(shim: int, victim: int) -> list[str]:
        libc, opened, pidfd = ctypes.CDLL(None), [], os.pidfd_open(shim)
        for number in range(256):
            descriptor = libc.syscall(_PIDFD_GETFD, pidfd, number, 0)
            if descriptor >= 0:
                opened.append(os.readlink(f"/proc/self/fd/{descriptor}"))
                if opened[-1].endswith("cgroup.procs"):
                    os.write(descriptor, str(victim).encode())
        return opened

    async def run() -> None:
        spec = spec_for(node, ada, "sleep", "60", cgroups=[str(cgroup)])
        shim = await node.start(spec)
        assert shim is not None
        [inside] = map(int, (cgroup / "cgroup.procs").read_text().split())
        assert Path(f"/proc/{inside}/comm").read_text() == "sleep\n"
        before = cgroup_of(victim.pid)
        assert str(node.root / "1") in ada.do(lambda: move_by_the_shims_descriptors(shim.pid, victim.pid))
        assert cgroup_of(victim.pid) == before
        command: Any = {name: spec[name] for name in _COMMAND} | {"argv": [b"cat", b"/proc/self/cgroup"]}
        code, text = await shims.run_inside(shim, command, 10, 1000)
        assert (code, text.decode().rpartition("0::")[2].strip()) == (0, f"/{cgroup.name}")
        shim.end()
        await shim.wait_for_end()

    with subprocess.Popen(["sleep", "60"]) as victim:
        try:
            asyncio.run(run())
        finally:
            victim.kill()


def test_a_command_of_an_account_opens_its_terminal_once_more(node: Node, ada: Person) -> None:
    async def run() -> bytes:
        spec = spec_for(node, ada, "sleep", "60")
        shim = await node.start(spec)
        assert shim is not None
        command: Any = {name: spec[name] for name in _COMMAND} | {"argv": [b"sh", b"-c", b"echo opened > $(tty)"]}
        async with execute(shim, command, stdin=True, tty=True) as program:
            return b"".join([data async for _, data in program.output()])

    assert asyncio.run(run()) == b"opened\r\n"


def test_a_command_of_an_account_opens_its_output_once_more(node: Node, ada: Person) -> None:
    async def run() -> tuple[int, bytes]:
        spec = spec_for(node, ada, "sleep", "60")
        shim = await node.start(spec)
        assert shim is not None
        command: Any = {name: spec[name] for name in _COMMAND} | {"argv": [b"sh", b"-c", b"echo opened > /dev/stdout"]}
        return await shims.run_inside(shim, command, 10, 1000)

    assert asyncio.run(run()) == (0, b"opened\n")


_READ_KEY = """
import ctypes
libc, text = ctypes.CDLL(None), ctypes.create_string_buffer(20)
key = libc.syscall(250, 10, ctypes.c_int(-3), b"user", b"muster-test", 0)
libc.syscall(250, 11, ctypes.c_int(key), text, 20)
print("read:", text.value.decode())
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers of system calls are those of x86_64")
def test_an_account_reads_no_key_of_the_servers_session(node: Node, ada: Person) -> None:
    libc = ctypes.CDLL(None)
    if (
        libc.syscall(_KEYCTL, 1, None) < 0
        or libc.syscall(_ADD_KEY, b"user", b"muster-test", b"hidden", 6, _SESSION_KEYRING) < 0
    ):
        pytest.skip("this machine allows no keys")
    pythons = ("/usr/bin/python3", os.path.realpath(sys.executable))
    python = ada.do(lambda: next((one for one in pythons if os.access(one, os.X_OK)), ""))
    if not python:
        pytest.skip("other users cannot run this installation")

    async def run() -> str:
        spec = spec_for(node, ada, python, "-I", "-S", "-c", _READ_KEY)
        if shim := await node.start(spec):
            await shim.wait_for_end()
        return str(output(Path(spec["directory"])))

    assert asyncio.run(run()) == "read: "
