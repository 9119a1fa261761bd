"""Serve the API server's requests to a process node: logs, exec, attach, and port forwarding."""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from msgspec import structs

from muster.api.core import Pod
from muster.api.pods import all_containers
from muster.api.status import bad_request, internal_error
from muster.cluster.nodeconnection import CommandOptions, Dial, LogOptions, Opening, Program, Reading
from muster.cluster.nodes.container.attaching import follow, join
from muster.cluster.nodes.container.logs import Logs
from muster.cluster.nodes.container.programs import execute
from muster.cluster.nodes.disk.past import Past
from muster.cluster.nodes.machine.consumption import read_usage
from muster.cluster.nodes.network import localports
from muster.cluster.nodes.pod.runner import PodRunner
from muster.cluster.nodes.shims import Shim, ShimError
from muster.runtime.clock import Clock
from muster.runtime.containerlogs import KeptPod
from muster.runtime.objects import key_of

DIAL_SECONDS = 10.0
# Tells a program the type of its terminal, as container runtimes do.
_TERMINAL_DEFAULTS: Mapping[str, str] = {"TERM": "xterm"}
_PIPE_DEFAULTS: Mapping[str, str] = {}


class Connection:
    """The API server's access to one node. `runners` contains the runners of the node's pods, by pod key."""

    def __init__(self, logs: Logs, past: Past, runners: Mapping[str, PodRunner], clock: Clock) -> None:
        self._logs = logs
        self._past_pods = past
        self._clock = clock
        self._runners = runners

    def logs(self, pod: Pod, options: LogOptions) -> AsyncIterator[bytes]:
        """Yield the log of a container, in pieces. Raises `ApiError` before the first piece if there is no log."""
        return self._logs.logs(pod, options)

    def list_kept_pods(self, job: str) -> Sequence[KeptPod]:
        """Return the deleted pods of a Job whose logs the node keeps. job: the UID of the Job."""
        return self._past_pods.of(job)

    def kept_log(self, pod: KeptPod, options: LogOptions) -> AsyncIterator[bytes]:
        """Yield the log of a deleted pod's container, which the node keeps; no text if the node has removed the log."""
        return self._logs.read_kept(pod, options)

    def exec(self, pod: Pod, options: CommandOptions) -> Opening:
        """Return the context that runs a command in a container while it is open.

        Raises `ApiError` (400) if the container does not run. Entering the context raises `ApiError` (500) if the
        command cannot be started.
        """
        runner, shim = self._find_running(pod, options.container)

        @asynccontextmanager
        async def opening() -> AsyncIterator[Program]:
            defaults = _TERMINAL_DEFAULTS if options.tty else _PIPE_DEFAULTS
            try:
                command = await runner.command(options.container, options.command, defaults)
                async with execute(shim, command, stdin=options.stdin, tty=options.tty) as program:
                    yield program
            except ShimError as error:
                raise internal_error(f"error executing command in container: {error}") from error

        return opening

    def attach(self, pod: Pod, options: CommandOptions) -> Opening:
        """Return a context that connects a client to the streams of a container's main process while it is open.

        Raises `ApiError` (400) if the container does not run.
        """
        _, shim = self._find_running(pod, options.container)
        container = next(each for each in all_containers(pod.spec) if each.name == options.container)
        if container.stdin or container.tty:
            writes, listens = container.stdin and options.stdin, options.stdout or options.stderr
            return lambda: join(shim.directory, writes=writes, listens=listens)
        return lambda: follow(shim.directory, self._clock)

    def dial(self, pod: Pod) -> Dial:
        """Return a function that connects to a port of the pod, or raises OSError.

        Raises `ApiError` (400) if the pod does not run.
        """
        runner = self._find_runner(pod)
        if not runner.running:
            raise bad_request(f"unable to forward port because pod is not running. Current status={pod.status.phase}")

        async def dial(port: int) -> socket.socket:
            where = f"error forwarding port {port} to pod {pod.metadata.name}, uid {pod.metadata.uid}"
            try:
                async with asyncio.timeout(DIAL_SECONDS):
                    return await _connect_to_pod(runner, port)
            except TimeoutError:
                raise OSError(f"{where}: dial tcp {runner.address}:{port}: i/o timeout") from None
            except ConnectionRefusedError:
                raise OSError(f"{where}: dial tcp {runner.address}:{port}: connect: connection refused") from None

        return dial

    async def measure_usage(self) -> Mapping[tuple[str, str], Reading]:
        """Return the current usage of the node's containers, by the pod's UID and the container's name."""
        runners = {one.uid: one for one in self._runners.values()}
        running = {(uid, name): metered for uid, one in runners.items() for name, metered in one.list_metered()}
        readings = await asyncio.to_thread(read_usage, running) if running else {}
        return {
            (uid, name): structs.replace(reading, gpus=runners[uid].gpu_use(name))
            for (uid, name), reading in readings.items()
        }

    def _find_runner(self, pod: Pod) -> PodRunner:
        runner = self._runners.get(key_of(pod))
        if runner is None or runner.uid != pod.metadata.uid:
            raise bad_request(f'pod "{pod.metadata.name}" does not run on its node')
        return runner

    def _find_running(self, pod: Pod, container: str) -> tuple[PodRunner, Shim]:
        runner = self._find_runner(pod)
        shim = runner.shim(container)
        if shim is None:
            raise bad_request(f'container "{container}" in pod "{pod.metadata.name}" is not running')
        return runner, shim


async def _connect_to_pod(runner: PodRunner, port: int) -> socket.socket:
    """Connect to the pod's address, or to localhost if the pod's processes listen there. Raises OSError."""
    try:
        return await _connect(runner.address, port)
    except ConnectionRefusedError:
        for shim in runner.running:
            if address := await asyncio.to_thread(localports.find_listener, shim.pid, port):
                return await _connect(address, port)
        raise


async def _connect(address: str, port: int) -> socket.socket:
    connection = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    try:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(connection, (address, port))
    except BaseException:
        connection.close()
        raise
    return connection
