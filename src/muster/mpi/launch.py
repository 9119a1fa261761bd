"""Run rank 0: wait for the agents, run `mpirun` on the hosts of the job, and then tell the agents to end."""

import asyncio
import shlex
import signal
import ssl
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from muster.mpi import remote_shell
from muster.mpi.frames import ENDING, FAREWELL, HERE, CommandRequest, read_frames, request_line
from muster.mpi.hosts import Hosts, hydra_hosts, open_mpi_hosts
from muster.mpi.variables import launcher_variables
from muster.runtime.clock import Clock
from muster.runtime.tasks import cancel

_NOT_FOUND, _NOT_EXECUTABLE = 127, 126
_RETRY_SECONDS = 0.2
# The seconds before `launch` reports missing agents.
_PATIENCE_SECONDS = 10.0
# The maximum number of missing agents that a message names.
_NAMED = 3
_ENDING = frozenset({signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM})
# The signals that this process forwards to `mpirun`, which forwards some of them to the ranks.
_PASSED_ON = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGTERM,
    signal.SIGALRM,
    signal.SIGCONT,
    signal.SIGWINCH,
)


def write_files(directory: Path, hosts: Hosts, identity: bytes) -> None:
    """Write the host files, the agents' addresses, the job's identity and the remote shell to the directory.

    Only this user may access the directory, because the identity allows its holder to run commands on all workers.
    """
    key = directory / "identity.pem"
    key.touch(0o600)
    key.write_bytes(identity)
    (directory / "open-mpi-hosts").write_text(open_mpi_hosts(hosts))
    (directory / "hydra-hosts").write_text(hydra_hosts(hosts))
    (directory / "job.json").write_bytes(msgspec.json.encode({"names": hosts.names, "port": hosts.port}))
    program = [sys.executable, "-I", "-S", remote_shell.__file__, str(directory)]
    shell = directory / "remote-shell"
    shell.write_text(f'#!/bin/sh\nexec {shlex.join(program)} "$@"\n')
    shell.chmod(0o700)


def make_variables(directory: Path, hosts: Hosts, interface: str) -> dict[str, str]:
    """Return the environment variables that make `mpirun` use the files in the directory, and this interface.

    interface: the network interface of the pod; "" if it is unknown.
    """
    shell, open_mpi, hydra = (directory / name for name in ("remote-shell", "open-mpi-hosts", "hydra-hosts"))
    return launcher_variables(shell, open_mpi, hydra, hosts.slots, interface)


class Launch:
    """One run of `mpirun` by rank 0, with a connection to the agent of each other worker."""

    def __init__(self, hosts: Hosts, context: ssl.SSLContext, clock: Clock) -> None:
        self._hosts = hosts
        self._context = context
        self._clock = clock
        self._agents: dict[int, asyncio.StreamWriter] = {}
        self._watches = set[asyncio.Task[str]]()
        self._process: asyncio.subprocess.Process | None = None
        self._end_signal: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._ends_it = False  # whether a worker was lost, so that `mpirun` got SIGTERM

    async def run(self, command: Sequence[str], environment: Mapping[str, str]) -> int:
        """Wait for all agents, run the command, and tell the agents to end; return the command's exit code.

        If a termination signal arrives before the command runs, return 128 + the signal's number.
        """
        for number in _PASSED_ON:
            asyncio.get_running_loop().add_signal_handler(number, self._on_signal, number)
        reaching = asyncio.create_task(self._connect_to_agents(), name="reach agents")
        try:
            both: list[asyncio.Future[Any]] = [reaching, self._end_signal]
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if self._end_signal.done():
                return 128 + self._end_signal.result()
            await reaching
            code = await self._run_command(command, environment)
            await self._say_farewell()
            return code
        finally:
            await cancel({reaching, *self._watches})

    def _on_signal(self, number: int) -> None:
        if number in _ENDING and not self._end_signal.done():
            self._end_signal.set_result(number)
        is_told = number == signal.SIGTERM and self._ends_it  # Hydra would exit immediately after a second signal
        if self._process is not None and self._process.returncode is None and not is_told:
            self._process.send_signal(number)

    async def _connect_to_agents(self) -> None:
        """Connect to all agents. After a while, print the workers that do not respond yet."""
        ranks = range(1, self._hosts.workers)
        async with asyncio.TaskGroup() as group:
            reaching = [group.create_task(self._connect_to_agent(rank), name=f"reach {rank}") for rank in ranks]
            if reaching:
                await asyncio.wait(reaching, timeout=_PATIENCE_SECONDS)
            if missing := [self._hosts.name(rank) for rank in ranks if rank not in self._agents]:
                others = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
                _say(f"the job waits for {', '.join(missing[:_NAMED])}{others}")

    async def _connect_to_agent(self, rank: int) -> None:
        """Connect to the agent of the worker with this rank; retry until the agent responds.

        The worker may start later than rank 0, and DNS may resolve its host name even later.
        """
        while True:
            with suppress(OSError):  # ssl.SSLError is one
                host, port = self._hosts.name(rank), self._hosts.port
                reader, writer = await asyncio.open_connection(host, port, ssl=self._context)
                writer.write(request_line(CommandRequest()))
                answers = read_frames(reader)
                if await anext(answers, None) == (HERE, b""):
                    self._agents[rank] = writer
                    self._watches.add(asyncio.create_task(self._watch(rank, answers), name=f"watch {rank}"))
                    return
                writer.close()
            await self._clock.sleep(_RETRY_SECONDS)

    async def _watch(self, rank: int, answers: AsyncIterator[tuple[int, bytes]]) -> str:
        """Wait until a worker is being stopped or its connection is lost; return a sentence about which happened."""
        with suppress(OSError):
            async for channel, _ in answers:
                if channel == ENDING:
                    return f"{self._hosts.name(rank)} is told to end"
        return f"{self._hosts.name(rank)} has gone"

    async def _run_command(self, command: Sequence[str], environment: Mapping[str, str]) -> int:
        """Run the command until it exits, and return its exit code. Send it SIGTERM as soon as a worker is lost."""
        try:
            self._process = await asyncio.create_subprocess_exec(*command, env=environment)
        except FileNotFoundError:
            _say(f"{command[0]}: there is no such program")
            return _NOT_FOUND
        except OSError as error:
            _say(f"{command[0]}: {error.strerror}")
            return _NOT_EXECUTABLE
        ended = asyncio.create_task(self._process.wait(), name="wait")
        done, _ = await asyncio.wait({ended, *self._watches}, return_when=asyncio.FIRST_COMPLETED)
        broken = ended not in done
        if broken and not self._end_signal.done():
            _say(f"{next(task.result() for task in self._watches if task in done)}: the job is ended")
            self._ends_it = True
            self._process.terminate()
        code = await ended
        return (code if code >= 0 else 128 - code) or int(broken)

    async def _say_farewell(self) -> None:
        for writer in self._agents.values():
            with suppress(OSError):
                writer.write(FAREWELL)
                await writer.drain()
                writer.close()
                await writer.wait_closed()


def _say(message: str) -> None:
    print(f"muster: {message}", file=sys.stderr, flush=True)
