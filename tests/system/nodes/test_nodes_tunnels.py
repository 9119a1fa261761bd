"""Commands in containers, attached clients, and connections to ports, at the node: with real processes."""

import asyncio
import contextlib
import os
import shutil
import sys
from functools import partial

import pytest
from tests.system.nodes import node_world
from tests.system.nodes.node_world import LIMIT, shell

from muster.api.core import POD
from muster.api.status import ApiError
from muster.api.values.shells import HANGS_UP
from muster.cluster.nodeconnection import CommandOptions
from muster.cluster.nodes.machine.isolation import Isolation

pytestmark = pytest.mark.slow

FOREVER = shell("trap 'exit 0' TERM; while :; do sleep 0.05; done")
KINDS = {
    "namespaces": Isolation("namespaces" if os.geteuid() == 0 else "user-namespaces", own_pids=True),
    "user-namespaces": Isolation("user-namespaces", own_pids=True),
    "shared-pids": Isolation("namespaces" if os.geteuid() == 0 else "user-namespaces"),
    "bubblewrap": Isolation("bubblewrap", own_pids=True, bubblewrap=shutil.which("bwrap") or ""),
    "none": Isolation("none"),
}


@pytest.fixture(params=KINDS)
def play(request, tmp_path):
    """Runs a story on a node that isolates in one of the ways."""

    def run(story, **options):
        async def guarded(world):
            if world.node._kit.isolation.kind != KINDS[request.param].kind:
                pytest.skip("this machine does not allow that")
            await story(world)

        node_world.play(tmp_path, guarded, tried=[KINDS[request.param]], **options)

    return run


@pytest.fixture
def play_once(tmp_path):
    """Runs a story on a node that isolates as well as it can."""
    return partial(node_world.play, tmp_path)


async def started(world, name="p", **container):
    await world.create(name, **(FOREVER | container))
    return await world.ready(name)


def opening(world, pod, *command, stdin=False, tty=False, container="main"):
    options = CommandOptions(container, command, stdin=stdin, stdout=True, stderr=not tty, tty=tty)
    node = world.node.connection
    return (node.exec if command else node.attach)(pod, options)()


async def collect(program):
    """All that it writes, by channel."""
    found = {1: b"", 2: b""}
    async for channel, data in program.output():
        found[channel] += data
    return found


async def run(world, pod, *command, input=None, **options):
    async with asyncio.timeout(LIMIT), opening(world, pod, *command, stdin=input is not None, **options) as program:
        if input is not None:
            await program.write(input)
            await program.end_input()
        found = await collect(program)
        return found[1], found[2], await program.wait_for_end()


async def until(condition):
    async with asyncio.timeout(LIMIT):
        while not condition():
            await asyncio.sleep(0.02)


def test_a_command_runs_as_the_container_does(play):
    async def story(world):
        pod = await started(world, env=[{"name": "GREETING", "value": "hello"}], workingDir="/tmp")
        script = 'echo "$GREETING from $(pwd)"; echo trouble >&2; exit 3'
        assert await run(world, pod, "sh", "-c", script) == (b"hello from /tmp\n", b"trouble\n", 3)
        assert await run(world, pod, "cat", input=b"in and out") == (b"in and out", b"", 0)
        assert await run(world, pod, "sh", "-c", "kill -9 $$") == (b"", b"", 137)
        with pytest.raises(ApiError, match='container: exec: "nope": executable file not found in'):
            await run(world, pod, "nope")

    play(story)


def test_much_goes_both_ways_and_nothing_is_lost(play):
    async def story(world):
        pod = await started(world)
        data = os.urandom(3 << 20)
        async with asyncio.timeout(LIMIT), opening(world, pod, "cat", stdin=True) as program:
            reading = asyncio.create_task(collect(program))
            await program.write(data)
            await program.end_input()
            assert (await reading)[1] == data

    play(story)


def test_a_command_has_a_terminal(play):
    async def story(world):
        pod = await started(world)
        script = "tty >/dev/null && stty -echo; echo $TERM; read x; stty size; echo got $x; read y || echo end; exit 5"
        async with asyncio.timeout(LIMIT), opening(world, pod, "sh", "-c", script, stdin=True, tty=True) as program:
            pieces = program.output()
            assert await anext(pieces) == (1, b"xterm\r\n")
            await program.resize(77, 33)
            await program.write(b"hi\n")
            said = b""
            while b"got hi" not in said:
                said += (await anext(pieces))[1]
            assert said.split() == [b"33", b"77", b"got", b"hi"]
            await program.end_input()
            assert b"".join([data async for _, data in pieces]).split() == [b"end"]
            assert await program.wait_for_end() == 5

    play(story)


def test_a_new_size_is_signalled_to_who_is_in_the_foreground(play):
    async def story(world):
        pod = await started(world)
        script = "trap 'stty size; exit 0' WINCH; echo go; while :; do sleep 0.02; done"
        async with asyncio.timeout(LIMIT), opening(world, pod, "sh", "-c", script, tty=True) as program:
            pieces = program.output()
            await anext(pieces)
            await program.resize(10, 20)
            assert (await anext(pieces))[1].split() == [b"20", b"10"]

    play(story)


@pytest.mark.parametrize("tty", [False, True])
def test_a_command_ends_with_its_client(play, tmp_path, tty):
    async def story(world):
        pod = await started(world)
        script = f"echo $$; while :; do date +%s%N > {tmp_path}/alive; sleep 0.02; done"
        async with asyncio.timeout(LIMIT), opening(world, pod, "sh", "-c", script, tty=tty) as program:
            await anext(program.output())
            await until((tmp_path / "alive").exists)
        await still(tmp_path / "alive")

    play(story)


async def still(path):
    """Wait until nobody writes to a file any more."""
    async with asyncio.timeout(LIMIT):
        while True:
            before = path.read_bytes()
            await asyncio.sleep(0.2)
            if path.read_bytes() == before:
                return


def test_a_command_ends_with_the_container(play):
    async def story(world):
        pod = await started(world)
        async with asyncio.timeout(LIMIT), opening(world, pod, "sh", "-c", "echo; exec sleep 1000") as program:
            await anext(program.output())  # it runs
            ending = asyncio.create_task(collect(program))
            await world.client.delete(POD, "p", "default")
            await ending
            assert await program.wait_for_end() in (126, 137), "killed with the container, or by us when it had ended"

    play(story)


def test_who_stays_behind_holds_nobody_up(play_once):
    async def story(world):
        pod = await started(world)
        output, _, code = await run(world, pod, "sh", "-c", "sleep 1000 & echo done")
        assert (output, code) == (b"done\n", 0)

    play_once(story)


def test_what_nobody_reads_is_dropped(play_once):
    async def story(world):
        pod = await started(world)
        assert await run(world, pod, "true", input=b"x" * (1 << 20)) == (b"", b"", 0)

    play_once(story)


def test_no_descriptor_stays(play_once):
    async def story(world):
        pod = await started(world)
        await run(world, pod, "true", input=b"")
        before = len(os.listdir("/proc/self/fd"))
        for tty in (False, True, False, True):
            await run(world, pod, "cat", input=b"x\n", tty=tty)
        with contextlib.suppress(ApiError):
            await run(world, pod, "nope")
        await until(lambda: len(os.listdir("/proc/self/fd")) <= before)

    play_once(story)


def test_only_what_runs_can_be_entered(play_once):
    async def story(world):
        await world.create(**shell("exit 0"))
        pod = await world.phase("Succeeded")
        for refuse in (
            partial(opening, world, pod, "true"), partial(opening, world, pod), partial(world.node.connection.dial, pod)
        ):  # fmt: skip
            with pytest.raises(ApiError) as refused:
                refuse()
            assert refused.value.code == 400
            assert "p" in str(refused.value)

    play_once(story)


def test_a_client_joins_an_input(play):
    async def story(world):
        script = "while read line; do echo got $line; done; echo bye >&2"
        pod = await started(world, stdin=True, stdinOnce=True, **shell(script))
        async with asyncio.timeout(LIMIT), opening(world, pod) as watcher, opening(world, pod, stdin=True) as writer:
            watching = asyncio.create_task(collect(watcher))
            await writer.write(b"one\ntwo\n")
            await writer.end_input()
            told = {1: b"got one\ngot two\n", 2: b"bye\n"}
            assert await collect(writer) == told
            assert await watching == told
            assert await writer.wait_for_end() == 0
        await world.phase("Succeeded")
        assert sorted((await world.log()).splitlines()) == ["bye", "got one", "got two"]

    play(story)


def test_who_only_watches_leaves_the_input_open(play_once):
    async def story(world):
        pod = await started(world, stdin=True, stdinOnce=True, **shell("read line; echo got $line"))
        async with opening(world, pod) as watcher:
            await watcher.write(b"nobody shall see this\n")
        async with opening(world, pod, stdin=True) as writer:
            await writer.write(b"one\n")
            assert (await collect(writer))[1] == b"got one\n"

    play_once(story)


def test_a_client_joins_a_terminal(play):
    async def story(world):
        pod = await started(world, stdin=True, tty=True, **shell("stty -echo; echo ready; read x; stty size; echo $x"))
        await world.says("ready\r\n")
        async with asyncio.timeout(LIMIT), opening(world, pod, stdin=True, tty=True) as program:
            await program.resize(77, 33)
            await program.write(b"hello\n")
            assert (await collect(program))[1].split() == [b"33", b"77", b"hello"]
        await world.phase("Succeeded")

    play(story)


INTERACTIVE = shell("trap 'echo hung up >> $SAID; exit 0' HUP; trap '' TERM; echo ready; while sleep 0.05; do :; done")


async def terminal(world, *, marked=True, said="", **container):
    """A container with a terminal for one client, and whether it is said that it is hung up."""
    meta = {"annotations": {HANGS_UP: "true"}} if marked else {}
    once = {"stdin": True, "stdinOnce": True, "tty": True, "env": [{"name": "SAID", "value": str(said)}]}
    pod = await started(world, meta=meta, **once | container)
    await world.says("ready\r\n")
    return pod


def test_a_terminal_is_hung_up_when_its_client_goes(play, tmp_path):
    async def story(world):
        said = tmp_path / "said"
        pod = await terminal(world, said=said, **INTERACTIVE)
        async with opening(world, pod, tty=True):
            pass  # who only watches leaves it alone
        async with opening(world, pod, stdin=True, tty=True) as program:
            await program.write(b"a line that nobody reads\n")
            await program.end_input()
            assert (await anext(program.output()))[1].startswith(b"a line")
            assert not said.exists(), "its client is still there"
        await world.phase("Succeeded")
        assert said.read_text() == "hung up\n"

    play(story)


def test_a_terminal_that_has_been_hung_up_gives_and_takes_nothing(play_once, tmp_path):
    async def story(world):
        script = "trap '' HUP; echo ready; while read x; do :; done; echo lost; touch $SAID; exec sleep 1000"
        pod = await terminal(world, said=tmp_path / "said", **shell(script))
        async with opening(world, pod, stdin=True, tty=True):
            pass
        await until((tmp_path / "said").exists)
        async with asyncio.timeout(LIMIT), opening(world, pod, stdin=True, tty=True) as late:
            await late.resize(80, 24)
            await late.write(b"x" * 100_000)
            await late.end_input()
        assert await world.log() == "ready\r\n"
        assert (await world.get()).status.phase == "Running"

    play_once(story)


@pytest.mark.parametrize("kept", [{"marked": False}, {"stdinOnce": False}], ids=["as runtimes do", "not for one"])
def test_another_terminal_is_there_when_its_client_comes_again(play_once, kept):
    async def story(world):
        pod = await terminal(world, **kept, **shell("stty -echo; echo ready; read x; echo got $x"))
        async with opening(world, pod, stdin=True, tty=True):
            pass
        async with asyncio.timeout(LIMIT), opening(world, pod, stdin=True, tty=True) as program:
            await program.write(b"one\n")
            assert (await collect(program))[1] == b"got one\r\n"

    play_once(story)


def test_an_input_ends_with_its_client_though_output_is_under_way(play_once):
    async def story(world):
        script = "yes & cat; kill $!"
        pod = await started(world, stdin=True, stdinOnce=True, **shell(script))
        async with asyncio.timeout(LIMIT), opening(world, pod, stdin=True) as program:
            await anext(program.output())
        await world.phase("Succeeded")

    play_once(story)


def test_a_terminal_that_goes_with_its_client_waits_for_it(play_once):
    async def story(world):
        script = "stty -echo -opost; echo ready; read x; head -c 8000000 /dev/zero | tr '\\0' x; echo end; read x"
        meta = {"annotations": {HANGS_UP: "true"}}
        pod = await started(world, meta=meta, stdin=True, stdinOnce=True, tty=True, **shell(script))
        await world.says("ready\n")
        async with asyncio.timeout(LIMIT), opening(world, pod, stdin=True, tty=True) as program:
            await program.write(b"go\n")
            log = ""
            while log != (log := await world.log()) or log == "ready\n":
                await asyncio.sleep(0.2)  # until it writes no more, as nobody takes it
            assert len(log) < 4_000_000
            said = bytearray()  # bytes would be copied whole for each piece
            async for _, data in program.output():
                said += data
                if said.endswith(b"end\n"):
                    break
            assert said == b"x" * 8_000_000 + b"end\n"
            await program.write(b"bye\n")
            await world.phase("Succeeded")  # before the client goes, which hangs up

    play_once(story)


def test_last_words_come_though_nobody_listens_to_us_any_more(play_once):
    async def story(world):
        pod = await started(world, stdin=True, tty=True, **shell("stty -echo; read line; echo got $line"))
        async with asyncio.timeout(LIMIT), opening(world, pod, stdin=True, tty=True) as program:
            await program.write(b"one\n")
            await world.phase("Succeeded")
            await program.resize(80, 24)
            await program.write(b"two\n")
            await program.end_input()
            assert (await collect(program))[1].endswith(b"got one\r\n")

    play_once(story)


def test_who_takes_nothing_holds_nobody_up(play_once):
    async def story(world):
        pod = await started(
            world, stdin=True, **shell("read x; head -c 8000000 /dev/zero | tr '\\0' x; echo; echo end")
        )
        async with opening(world, pod) as idle, opening(world, pod, stdin=True) as writer:
            await writer.write(b"go\n")
            await world.phase("Succeeded")
            assert idle is not writer

    play_once(story)


def test_output_is_followed_where_there_is_no_input(play_once):
    async def story(world):
        pod = await started(world, **shell("while [ ! -e $GO ]; do sleep 0.02; done; echo out; echo err >&2"),
                            env=[{"name": "GO", "value": str(world.state / "go")}])  # fmt: skip
        async with asyncio.timeout(LIMIT), opening(world, pod) as program:
            await program.write(b"nobody reads this")
            await program.end_input()
            await program.resize(1, 1)
            following = asyncio.create_task(collect(program))
            await asyncio.sleep(0)
            (world.state / "go").touch()
            assert await following == {1: b"out\n", 2: b"err\n"}

    play_once(story)


def test_ports_are_reached(play_once):
    async def story(world):
        pod = await started(world)
        seen = []

        async def serve(reader, writer):
            seen.append(await reader.read())
            writer.write(b"answer")
            writer.close()

        server = await asyncio.start_server(serve, pod.status.pod_ip, 0)
        port = server.sockets[0].getsockname()[1]
        dial = world.node.connection.dial(pod)
        reader, writer = await asyncio.open_connection(sock=await dial(port))
        writer.write(b"question")
        writer.write_eof()
        assert await reader.read() == b"answer"
        writer.close()
        server.close()
        assert seen == [b"question"]
        with pytest.raises(
            OSError, match=f"error forwarding port {port} to pod p, uid .*: connect: connection refused"
        ):
            await dial(port)

    play_once(story)


LISTEN = """
import socket
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
while True:
    connection, _ = server.accept()
    connection.sendall(b"from the pod")
    connection.close()
"""


def test_what_a_pod_listens_to_on_localhost_is_its_own(play):
    async def story(world):
        pod = await started(world, command=[sys.executable, "-c", LISTEN])
        other = await started(world, "other")
        async with asyncio.timeout(LIMIT):
            while not (said := await world.log()):
                await asyncio.sleep(0.02)
            port = int(said)
            reader, writer = await asyncio.open_connection(sock=await world.node.connection.dial(pod)(port))
            assert await reader.read() == b"from the pod"
            writer.close()
            with pytest.raises(OSError, match="connection refused"):
                await world.node.connection.dial(other)(port)

    play(story)
