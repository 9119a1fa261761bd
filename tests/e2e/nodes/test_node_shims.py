"""Containers as processes: the shim, in every kind of isolation that the machine allows, as root and as a user."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from muster.cluster.nodes import shims
from muster.cluster.nodes.container import processes
from muster.cluster.nodes.fence import Fence
from muster.cluster.nodes.machine import isolation
from muster.cluster.nodes.machine.isolation import Isolation
from muster.cluster.nodes.shim.fence import MESSAGE
from muster.cluster.nodes.shim.spec import ProgramSpec
from muster.cluster.nodes.shims import ClaimedError, ShimError
from muster.cluster.nodes.volumes.mounts import Mount, plan
from muster.runtime.clock import boot_nanoseconds

LIMIT = 20.0
NOBODY = 65534


def kinds():
    found = [Isolation("none"), *isolation.list_candidates()]
    if os.geteuid() == 0:
        found.append(Isolation("user-namespaces", own_pids=True))
    return found


def works(kind):
    directory = Path(tempfile.mkdtemp(prefix="muster-probe-"))
    try:
        return asyncio.run(isolation.probe(directory, [kind])).kind == kind.kind
    finally:
        shutil.rmtree(directory)


ALL = [pytest.param(kind, id=f"{kind.kind}{'' if kind.own_pids else '-shared-pids'}") for kind in kinds()]
BEST = [param for param in ALL if param.values[0].own_pids]


class Node:
    """Starts containers in a directory."""

    def __init__(self, root, kind):
        self.root, self.kind = root, kind
        self.number = 0
        self.shims = []

    def spec(self, *argv, mounts=(), **changes):
        self.number += 1
        directory = self.root / str(self.number)
        directory.mkdir()
        operations = plan(mounts, str(directory)) if self.kind.kind != "none" else []
        spec = {
            "identity": None,
            "directory": str(directory),
            "isolation": self.kind.kind,
            "own_pids": self.kind.own_pids,
            "bubblewrap": isolation.make_command(self.kind, operations, "pod-0"),
            "mounts": operations,
            "hostname": "pod-0",
            "argv": [os.fsencode(word) for word in argv],
            "env": [(b"PATH", os.fsencode(os.environ["PATH"])), (shims.MARK, os.fsencode(directory))],
            "working_directory": b"/",
            "ids": None,
            "no_new_privileges": False,
            "umask": 0o022,
            "dropped": [],
            "writable": None,
            "cgroups": [],
            "cpus": [],
            "log_bytes": 10 << 20,
            "log_files": 5,
            "log_patience": 0.0,
            "report": -1,
            "lifeline": -1,
            "fence": -1,
            "patience": 0.0,
            "stdin": False,
            "stdin_once": False,
            "tty": False,
        }
        return spec | changes

    def reserve(self, fence=-1):
        return shims.ReservedShim(self.kind.kind, own_pids=self.kind.own_pids, lifeline=-1, fence=fence)

    async def start(self, spec, reserve=None):
        shim = await shims.start(spec, reserve)
        if shim is not None:
            self.shims.append(shim)
        return shim

    async def run(self, *argv, **changes):
        """The record and the output of a container that ends by itself."""
        spec = self.spec(*argv, **changes)
        directory = Path(spec["directory"])
        shim = await self.start(spec)
        record = await shim.wait_for_end() if shim else shims.read_record(directory)
        return record, output(directory)


def output(directory):
    return "\n".join(line.split(" ", 3)[3] for line in log_lines(directory))


def log_lines(directory):
    files = sorted(directory.glob("log.*"), key=lambda path: int(path.name.split(".")[1]))
    return [line for path in files for line in path.read_bytes().decode("latin-1").splitlines()]


async def until(condition, what="it"):
    async with asyncio.timeout(LIMIT):
        while not condition():
            await asyncio.sleep(0.01)


def living(mark):
    """The processes whose environment says that they belong to a container."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and b"MARK_OF_TEST=" + mark in (entry / "environ").read_bytes().split(b"\0"):
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                found += [int(entry.name)] * (state != "Z")
    return found


@pytest.fixture
def node(request, tmp_path):
    kind = request.param
    if not works(kind):
        pytest.skip(f"this machine does not allow {kind.kind}")
    node = Node(tmp_path, kind)
    yield node
    for shim in node.shims:
        shim.destroy()


every = pytest.mark.parametrize("node", ALL, indirect=True)
reserved = pytest.mark.parametrize("node", [each for each in ALL if each.values[0].kind != "bubblewrap"], indirect=True)
best = pytest.mark.parametrize("node", BEST, indirect=True)


@every
@pytest.mark.parametrize("code", [0, 1, 42, 255])
def test_the_exit_code_is_recorded(node, code):
    record, _ = asyncio.run(node.run("sh", "-c", f"exit {code}"))
    assert (record.code, record.reason) == (code, "")
    assert record.claimed <= record.started <= record.finished


@every
def test_death_by_signal_is_128_and_the_signal(node):
    record, _ = asyncio.run(node.run("sh", "-c", "kill -USR1 $$"))
    assert record.code == 128 + signal.SIGUSR1


@every
def test_both_outputs_are_logged_in_the_runtimes_format(node):
    spec = node.spec("sh", "-c", "echo out; echo err >&2; printf unfinished")

    async def run():
        if shim := await node.start(spec):  # it may have ended already
            await shim.wait_for_end()

    asyncio.run(run())
    lines = [line.split(" ", 3) for line in log_lines(Path(spec["directory"]))]
    assert sorted((stream, tag, text) for _, stream, tag, text in lines) == [
        ("stderr", "F", "err"),
        ("stdout", "F", "out"),
        ("stdout", "P", "unfinished"),
    ]
    assert all(len(time) == len("2026-01-01T00:00:00.000000000Z") for time, *_ in lines)


@every
def test_the_container_gets_its_environment_and_nothing_else(node):
    record, text = asyncio.run(node.run("env", env=[(b"PATH", b"/usr/bin:/bin"), (b"A", b"1=2"), (b"B", b"\xff")]))
    assert record.code == 0
    assert sorted(text.splitlines()) == ["A=1=2", "B=\xff", "PATH=/usr/bin:/bin"]


@every
@pytest.mark.parametrize(
    ("argv", "changes", "message"),
    [
        (["no-such-program"], {}, 'exec: "no-such-program": executable file not found in $PATH'),
        (["/no/such/program"], {}, 'exec: "/no/such/program": no such file or directory'),
        (["/etc"], {}, 'exec: "/etc": is a directory'),
        (["/etc/passwd"], {}, 'exec: "/etc/passwd": permission denied'),
        (["true", "x" * 3_000_000], {}, "argument list too long"),
        (["true", "a\0b"], {}, "a NUL byte in the command, its arguments or its environment"),
        (["true"], {"env": [(b"A", b"x\0y")]}, "a NUL byte in the command"),
        (["true"], {"working_directory": b"/no/such/place"}, 'working directory "/no/such/place": no such file'),
    ],
)
def test_what_cannot_be_started_says_why(node, argv, changes, message):
    if "env" not in changes:
        changes = {"env": [(b"PATH", b"/usr/bin:/bin")]} | changes
    record, _ = asyncio.run(node.run(*argv, **changes))
    assert (record.code, record.reason, record.started) == (128, "StartError", 0)
    assert message in record.message


@every
def test_a_missing_interpreter_is_named_as_such(node, tmp_path):
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    record, _ = asyncio.run(node.run(str(script)))
    assert "the interpreter that it names does not exist" in record.message


@every
def test_an_attempt_never_runs_twice(node):
    spec = node.spec("sh", "-c", "echo ran; sleep 0.2")

    async def run():
        outcomes = await asyncio.gather(*(node.start(spec) for _ in range(5)), return_exceptions=True)
        assert sum(isinstance(outcome, ClaimedError) for outcome in outcomes) == 4
        for shim in outcomes:
            if isinstance(shim, shims.Shim):
                await shim.wait_for_end()
        with pytest.raises(ClaimedError):
            await node.start(spec)

    asyncio.run(run())
    assert output(Path(spec["directory"])) == "ran"


@every
def test_a_signal_reaches_the_program_and_its_answer_counts(node):
    script = "trap 'echo asked; exit 3' TERM; echo ready; while :; do sleep 0.01; done"
    spec = node.spec("sh", "-c", script)

    async def run():
        shim = await node.start(spec)
        await until(lambda: "ready" in output(Path(spec["directory"])))
        shim.send(signal.SIGTERM)
        return await shim.wait_for_end()

    record = asyncio.run(run())
    assert record.code == 3
    assert output(Path(spec["directory"])) == "ready\nasked"


@every
def test_a_program_without_a_handler_ends_at_sigterm(node):
    """It is not the first process of its pid namespace, which would ignore the signal."""

    async def run():
        shim = await node.start(node.spec("sleep", "1000"))
        shim.send(signal.SIGTERM)
        return await shim.wait_for_end()

    assert asyncio.run(run()).code == 128 + signal.SIGTERM


DAEMONS = "setsid sleep 1000 & (setsid sh -c 'sleep 1000 & sleep 1000' &) ; sleep 1000 & "


@every
@pytest.mark.parametrize("how", ["exit", "end", "destroy"])
def test_nothing_survives_its_container(node, how):
    mark = f"{node.root}-{how}".encode()
    spec = node.spec("sh", "-c", DAEMONS + ("exit 0" if how == "exit" else "sleep 1000"))
    spec["env"].append((b"MARK_OF_TEST", mark))

    async def run():
        shim = await node.start(spec)
        if shim is None:
            return shims.read_record(Path(spec["directory"]))
        if how == "end":
            await until(lambda: len(living(mark)) >= 5)
            shim.end()
        elif how == "destroy":
            await until(lambda: len(living(mark)) >= 5)
            shim.destroy()
        return await shim.wait_for_end()

    record = asyncio.run(run())
    if how == "destroy":
        assert record is None
        assert shims.find(Path(spec["directory"])) is None
        if not node.kind.own_pids:
            shims.kill_marked(os.fsencode(spec["directory"]))
    else:
        assert record.code == (0 if how == "exit" else 137)
    asyncio.run(until(lambda: not living(mark)))


def test_what_is_forked_while_it_is_killed_is_killed_too(tmp_path):
    """The shell forks for as long as it lives: a single look at /proc misses its last children."""
    mark = str(tmp_path).encode()
    environment = {"PATH": os.environ["PATH"], shims.MARK.decode(): str(tmp_path), "MARK_OF_TEST": str(tmp_path)}
    with subprocess.Popen(["sh", "-c", "while :; do sleep 1000 & done"], env=environment):
        asyncio.run(until(lambda: len(living(mark)) >= 200))
        killed = shims.kill_marked(mark)
    asyncio.run(until(lambda: not living(mark)))
    assert killed > 200


@every
def test_with_a_lifeline_everything_ends_with_the_server(node):
    mark = str(node.root).encode()
    reader, writer = os.pipe2(os.O_CLOEXEC)
    spec = node.spec("sh", "-c", "sleep 1000 & sleep 1000", lifeline=reader)
    spec["env"].append((b"MARK_OF_TEST", mark))

    async def run():
        shim = await node.start(spec)
        await until(lambda: len(living(mark)) >= 2)
        os.close(writer)
        record = await shim.wait_for_end()
        assert record.code == 137
        await until(lambda: not living(mark))

    asyncio.run(run())
    os.close(reader)


@every
def test_behind_a_closed_fence_nothing_runs_on_whoever_lives(node):
    """The node's file says how long; each renewal moves the time, and after the last one nobody has to be there."""
    mark, fence = str(node.root).encode(), Fence(node.root)

    async def run():
        fence.record_renewal(boot_nanoseconds(), 1.0)
        specs = [
            node.spec("sh", "-c", "sleep 1000 & sleep 1000", fence=fence.descriptor, patience=patience)
            for patience in (1.0, 1.0, 1000.0)
        ]
        for spec in specs:
            spec["env"].append((b"MARK_OF_TEST", mark))
        reserve = node.reserve(fence.descriptor) if node.kind.kind != "bubblewrap" else None
        first, reserved, patient = (
            await node.start(specs[0]),
            await node.start(specs[1], reserve),
            await node.start(specs[2]),
        )
        for _ in range(25):
            await asyncio.sleep(0.1)
            fence.record_renewal(boot_nanoseconds(), 1.0)
        renewed = boot_nanoseconds()
        assert all(shims.is_alive(shim.directory) for shim in (first, reserved, patient))
        for shim in (first, reserved):
            record = await shim.wait_for_end()
            assert (record.code, record.reason, record.message) == (137, "Fenced", MESSAGE)
        assert boot_nanoseconds() - renewed > 1.9e9
        assert shims.is_alive(patient.directory)
        patient.end()
        assert (await patient.wait_for_end()).reason == ""
        await until(lambda: not living(mark))
        fence.record_renewal(boot_nanoseconds(), 0.0)
        await asyncio.sleep(0.5)
        late = node.spec("sh", "-c", "echo ran", fence=fence.descriptor, patience=0.3)
        assert await node.start(late) is None
        assert shims.read_record(Path(late["directory"])).reason == "Fenced"
        assert output(Path(late["directory"])) == ""

    asyncio.run(run())
    fence.close()


@every
def test_a_later_server_finds_the_shim_and_its_record(node):
    spec = node.spec("sh", "-c", "echo one; sleep 0.3; echo two; exit 5")
    directory = Path(spec["directory"])

    async def first():
        shim = await node.start(spec)
        assert shims.is_alive(directory)
        shim.close()

    async def second():
        shim = shims.find(directory)
        assert shim is not None
        return await shim.wait_for_end()

    asyncio.run(first())
    record = asyncio.run(second())
    assert record.code == 5
    assert output(directory) == "one\ntwo"
    assert not shims.is_alive(directory)


@reserved
@pytest.mark.parametrize("pause", [0.0, 0.5])
def test_a_shim_that_was_made_before_runs_what_it_is_told(node, pause):
    """Even if it is told before it has found out that it is to wait."""
    spec = node.spec("sh", "-c", "echo ran; exit 5")

    async def run():
        reserve = node.reserve()
        await asyncio.sleep(pause)
        shim = await node.start(spec, reserve)
        return await shim.wait_for_end() if shim else shims.read_record(Path(spec["directory"]))

    assert asyncio.run(run()).code == 5
    assert output(Path(spec["directory"])) == "ran"


@reserved
@pytest.mark.parametrize("claimed", [False, True])
def test_a_shim_that_was_killed_while_it_waited_is_made_again(node, claimed):
    """And runs nothing where another has claimed the attempt."""
    spec = node.spec("sh", "-c", "echo ran; exit 5")

    async def run():
        processes.adopt_orphans()
        before = set(children_of(os.getpid()))
        reserve = node.reserve()
        await until(lambda: len(mine := set(children_of(os.getpid())) - before) == 1 and sleeping(*mine))
        for pid in set(children_of(os.getpid())) - before:
            os.kill(pid, signal.SIGKILL)
        if claimed:
            first = await node.start(spec)
            assert first is None or (await first.wait_for_end()).code == 5
        shim = await node.start(spec, reserve)
        record = await shim.wait_for_end() if shim else shims.read_record(Path(spec["directory"]))
        assert record.code == 5

    asyncio.run(run())
    assert output(Path(spec["directory"])) == "ran"


@reserved
def test_a_shim_that_is_not_wanted_or_whose_server_has_gone_ends_and_has_run_nothing(node):
    script = (
        "import sys; from muster.cluster.nodes import shims; import asyncio\n"
        "async def run():\n"
        f"    shims.ReservedShim({node.kind.kind!r}, own_pids={node.kind.own_pids}, lifeline=-1)\n"
        "    print('made', flush=True); await asyncio.sleep(1000)\n"
        "asyncio.run(run())"
    )
    processes.adopt_orphans()
    before = set(children_of(os.getpid()))
    server = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert server.stdout.readline() == b"made\n"
    server.kill()
    server.wait()
    server.stdout.close()
    asyncio.run(until(lambda: all(state_of(pid) == "Z" for pid in set(children_of(os.getpid())) - before)))
    assert not [*node.root.iterdir()]


@every
def test_orphans_are_reaped_while_the_container_runs(node):
    script = "for i in 1 2 3 4 5 6; do (sleep 0.01 &); done; sleep 0.5; ps -eo stat,ppid || true"

    async def run():
        shim = await node.start(node.spec("sh", "-c", script))
        await asyncio.sleep(0.3)
        zombies = [p for p in children_of(shim.pid) if state_of(p) == "Z"]
        await shim.wait_for_end()
        return zombies

    assert asyncio.run(run()) == []


def children_of(pid):
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(entry.name))
    return found


def sleeping(pid):
    """Whether it waits, and has become what it is to be."""
    return state_of(pid) == "S" and b"reserve" in Path(f"/proc/{pid}/cmdline").read_bytes()


def state_of(pid):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


@every
def test_a_command_can_be_run_inside(node):
    async def run():
        shim = await node.start(node.spec("sleep", "1000"))
        command: Any = {key: node.spec("sh", "-c", "hostname; echo x >&2; exit 4")[key] for key in COMMAND}
        done = await shims.run_inside(shim, command, LIMIT, 1000)
        slow: Any = {key: node.spec("sh", "-c", "sleep 1000 & sleep 1000")[key] for key in COMMAND}
        slow["env"] = [*slow["env"], (b"MARK_OF_TEST", bytes(node.root))]
        with pytest.raises(TimeoutError):
            await shims.run_inside(shim, slow, 0.5, 1000)
        await until(lambda: not living(bytes(node.root)))
        missing: Any = {key: node.spec("no-such-program")[key] for key in COMMAND}
        absent = await shims.run_inside(shim, missing, LIMIT, 1000)
        shim.end()
        await shim.wait_for_end()
        with pytest.raises(ShimError):
            await shims.run_inside(shim, command, LIMIT, 1000)
        return done, absent

    (code, text), (absent_code, absent_text) = asyncio.run(run())
    assert code == 4
    assert text.split()[-1] == b"x"
    if node.kind.kind != "none":
        assert text.split()[0] == b"pod-0"
    assert (absent_code, b"not found in $PATH" in absent_text) == (126, True)


COMMAND = tuple(ProgramSpec.__annotations__)


@every
def test_logs_are_rotated_and_no_line_is_lost(node):
    spec = node.spec("seq", "300000", log_bytes=20_000, log_files=1000)

    async def run():
        shim = await node.start(spec)
        if shim:
            await shim.wait_for_end()

    asyncio.run(run())
    directory = Path(spec["directory"])
    # A line that was read in pieces has parts (P) before its end (F).
    pieces = [line.split(" ", 3)[2:] for line in log_lines(directory)]
    text = "".join(piece + "\n" * (tag == "F") for tag, piece in pieces)
    assert len(list(directory.glob("log.*"))) >= 3
    assert text.splitlines() == [str(n) for n in range(1, 300001)]


@best
def test_the_container_sees_its_own_host_name_hosts_and_processes(node, tmp_path):
    hosts = tmp_path / "hosts-of-pod"
    hosts.write_text("127.9.9.9\tpeer-1\n")
    script = "hostname; getent hosts peer-1 | tr -s ' '; ls /proc | grep -c '^[0-9]'; cat /proc/self/comm"
    record, text = asyncio.run(
        node.run("sh", "-c", script, mounts=[Mount("/etc/hosts", str(hosts), is_directory=False)])
    )
    assert record.code == 0
    name, peer, count, comm = text.splitlines()
    assert (name, peer, comm) == ("pod-0", "127.9.9.9 peer-1", "cat")
    assert int(count) < 8


@best
def test_hosts_that_are_rewritten_in_place_are_seen_at_once(node, tmp_path):
    hosts = tmp_path / "hosts-of-pod"
    hosts.write_text("127.9.9.9\tpeer-1\n")
    script = "while ! grep -q peer-2 /etc/hosts; do sleep 0.01; done; echo found"
    spec = node.spec("sh", "-c", script, mounts=[Mount("/etc/hosts", str(hosts), is_directory=False)])

    async def run():
        async with asyncio.timeout(LIMIT):
            shim = await node.start(spec)
            hosts.write_text("127.9.9.9\tpeer-1\n127.9.9.8\tpeer-2\n")
            await shim.wait_for_end()

    asyncio.run(run())
    assert output(Path(spec["directory"])) == "found"


@best
def test_volumes_appear_where_nothing_was_and_the_machine_stays_as_it_is(node, tmp_path):
    before = {path: sorted(os.listdir(path)) for path in ("/", "/etc", "/usr")}
    source = tmp_path / "volume"
    source.mkdir(mode=0o777)
    source.chmod(0o777)
    (source / "x").write_text("hello")
    mounts = [
        Mount("/no-such-root/deep/er", str(source)),
        Mount("/etc/no-such-config", str(source), read_only=True),
        Mount("/usr/no-such/../no-such-either/file", str(source), "x", is_directory=False),
        Mount("/no-such-root/deep/er/inner", str(source)),
    ]
    script = """
        cat /no-such-root/deep/er/x /etc/no-such-config/x /usr/no-such-either/file /no-such-root/deep/er/inner/x
        echo; echo more > /no-such-root/deep/er/y; cat /etc/no-such-config/y
        echo no > /etc/no-such-config/z || echo refused
        touch /usr/new-one && echo made; cat /etc/hostname > /dev/null && ls -d /usr/bin/env /proc/1 /dev/null
    """
    record, text = asyncio.run(node.run("sh", "-c", script, mounts=mounts))
    assert record.code == 0
    lines = [line for line in text.splitlines() if "Read-only" not in line]
    assert lines == ["hello" * 4, "more", "refused", "made", "/dev/null", "/proc/1", "/usr/bin/env"]
    assert (source / "y").read_text() == "more\n"
    assert {path: sorted(os.listdir(path)) for path in before} == before
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()


@best
@pytest.mark.parametrize("path", ["..", "../..", "a/../../x", "link", "link/passwd"])
def test_a_path_that_would_leave_its_volume_is_refused(node, tmp_path, path):
    source = tmp_path / "volume"
    source.mkdir()
    (source / "link").symlink_to("/etc")
    if node.kind.kind == "bubblewrap":
        pytest.skip("bubblewrap opens the sources itself; paths are resolved before")
    record, _ = asyncio.run(node.run("ls", "/mnt", mounts=[Mount("/mnt", str(source), path)]))
    assert (record.code, record.reason) == (128, "StartError")
    assert "volume path" in record.message


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("node", [param for param in BEST if param.values[0].kind == "namespaces"], indirect=True)
def test_root_can_run_a_container_as_somebody_else(node):
    record, text = asyncio.run(node.run("id", ids=(NOBODY, NOBODY, [1234]), no_new_privileges=True))
    assert record.code == 0
    assert text.startswith(f"uid={NOBODY}")
    assert "1234" in text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("node", [param for param in BEST if param.values[0].kind == "namespaces"], indirect=True)
def test_a_program_of_another_user_can_open_its_output_once_more(node):
    record, text = asyncio.run(node.run("sh", "-c", "echo opened > /dev/stdout", ids=(NOBODY, NOBODY, [])))
    assert (record.code, text) == (0, "opened")


AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--inh-caps=-all"]


def interpreter_for_anybody():
    """A Python of this version that an unprivileged user can start, with what it needs to find our packages."""
    script = "import subprocess, sys, msgspec; subprocess.run([sys.executable, '-c', ''], check=True)"
    for path in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        with contextlib.suppress(OSError):
            done = subprocess.run([*AS_NOBODY, path, "-c", script], env=environment, capture_output=True, check=False)
            if done.returncode == 0:
                return path, environment
    pytest.skip("no Python that an unprivileged user can start")


@pytest.mark.skipif(os.geteuid() != 0, reason="tests run as a user already")
def test_all_of_this_as_an_unprivileged_user():
    """The same tests once more, by a process that has given up being root."""
    python, environment = interpreter_for_anybody()
    home = tempfile.mkdtemp(prefix="muster-nobody-")
    os.chown(home, NOBODY, NOBODY)
    arguments = ["-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={home}/tmp", __file__]
    arguments += ["-k", "not shared-pids"]  # what is lacking there lacks for root just the same
    try:
        done = subprocess.run(
            [*AS_NOBODY, python, *arguments],
            env=environment | {"HOME": home, "TMPDIR": home},
            cwd=Path(__file__).parents[3],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    finally:
        shutil.rmtree(home)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]


def test_the_spec_is_never_on_disk(tmp_path):
    node = Node(tmp_path, Isolation("none"))
    asyncio.run(node.run("true", env=[(b"PATH", b"/usr/bin:/bin"), (b"SECRET", b"hidden-in-plain-sight")]))
    assert all(b"hidden" not in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_a_full_disk_loses_lines_but_neither_the_container_nor_its_exit_code(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can make a small file system")
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(small)], check=True)
    try:
        node = Node(small, Isolation("none"))
        spec = node.spec("sh", "-c", "for i in $(seq 3000); do echo a-line-of-some-length-$i; done; exit 6")

        async def run():
            shim = await node.start(spec)
            return await shim.wait_for_end() if shim else shims.read_record(Path(spec["directory"]))

        record = asyncio.run(run())
        assert record.code == 6
        assert "lines of the log were lost: no space left on device" in record.message
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_processes_are_reaped(tmp_path):
    """Shims that ended leave no zombies with the server, whose children they have become."""
    processes.adopt_orphans()
    node = Node(tmp_path, Isolation("none"))
    before = set(children_of(os.getpid()))  # tests end their loops before everything is reaped

    async def run():
        for _ in range(5):
            await node.run("true")
        await until(lambda: not set(children_of(os.getpid())) - before)

    asyncio.run(run())


def test_orphans_of_nobody_are_reaped_too():
    processes.adopt_orphans()
    before = set(children_of(os.getpid()))  # servers of other tests may be among them, and live on
    subprocess.run(["sh", "-c", "(sleep 0.1; true) & exit 0"], check=True)
    mine = set(children_of(os.getpid())) - before
    assert mine
    asyncio.run(until(lambda: all(state_of(pid) == "Z" for pid in mine)))
    orphans = processes.Orphans()
    orphans.sweep()
    assert set(children_of(os.getpid())) >= mine, "somebody may still wait for them"
    orphans.sweep()
    assert not set(children_of(os.getpid())) & mine


def test_it_works_on_uvloop_too(tmp_path):
    import uvloop

    node = Node(tmp_path, Isolation("none"))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        record, text = runner.run(node.run("sh", "-c", "echo hi; exit 2"))
    assert (record.code, text) == (2, "hi")


def test_the_state_is_json_that_anybody_can_read(tmp_path):
    node = Node(tmp_path, Isolation("none"))
    asyncio.run(node.run('/no/such/"quoted\\\nprogram'))
    state = json.loads((tmp_path / "1" / "state").read_text())
    assert state["code"] == 128
    assert "\\" in state["message"]


@best
@pytest.mark.parametrize(("excess", "reason", "least"), [("123456789", "OOMKilled", 123_456_789), ("much", "", 0)])
def test_a_container_that_is_ended_for_its_memory_says_so(node, excess, reason, least):
    async def story():
        shim = await node.start(spec := node.spec("sleep", "1000"))
        (Path(spec["directory"]) / "excess").write_text(excess)
        shim.end()
        record = await shim.wait_for_end()
        assert (record.code, record.reason) == (137, reason)
        assert record.memory_bytes >= least

    asyncio.run(story())
