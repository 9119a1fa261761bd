"""Run a step: the program that scripts with #SBATCH lines call as `srun`.

This program starts the tasks of the script's own node as its child processes. On another node, the agent of
`muster.mpi` starts the tasks. This program forwards each signal that it receives to all tasks.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from muster.mpi.frames import ENDED, STDERR, STDOUT, CommandRequest, read_frames, request_line
from muster.mpi.identity import client_context
from muster.mpi.remote_shell import read_environment
from muster.runtime.clock import RealClock
from muster.runtime.tasks import cancel
from muster.slurm.allocation import STEP_SIGNAL
from muster.slurm.ledger import LEDGER, take_cpus
from muster.slurm.options import OptionError
from muster.slurm.steps import SrunStep, Task, find_demand, find_launcher, plan_step, task_files, task_text
from muster.slurm.values import parse_signal

_PASSED_ON = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
_ENDING = (signal.SIGINT, signal.SIGTERM)
# The seconds for which the output of an ended task may stay open, because a daemon may keep it open forever.
_DRAIN_SECONDS = 1.0
_LOST = 255
_USAGE, _NOT_FOUND = 2, 127


class _Job(Struct, frozen=True):
    """The addresses of a job's agents, from the file of `muster.mpi.launch`: the host names by rank, and the port."""

    names: list[str]
    port: int


class _Sink:
    """The destination of one output stream of one task.

    label: the prefix of each line; b"" for no prefix.
    """

    def __init__(self, stream: int, label: bytes) -> None:
        self._stream, self._label, self._rest = stream, label, b""

    def write(self, data: bytes) -> None:
        """Write data to the stream. If the stream's reader has closed it, end this process.

        With a label, an incomplete last line is held back until it is complete.
        """
        if self._label:
            *lines, self._rest = (self._rest + data).split(b"\n")
            data = b"".join(self._label + line + b"\n" for line in lines)
        try:
            while data:
                data = data[os.write(self._stream, data) :]
        except BrokenPipeError:  # end as any program does when its reader has closed the pipe
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGPIPE)

    def close(self) -> None:
        """Write the incomplete last line that `write` held back, if there is one."""
        if self._rest:
            self.write(b"\n")


class _TaskEnd(asyncio.SubprocessProtocol):
    """A protocol that forwards the output of a task's process and signals its end.

    exited: done when the process has exited.
    drained: done when the process's pipes are closed, too. An asyncio stream reports only that, which a daemon that
    keeps a pipe open delays.
    """

    def __init__(self, sinks: Mapping[int, _Sink]) -> None:
        self._sinks = sinks
        self.exited: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.drained: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Write output of the process to the task's stdout or stderr."""
        self._sinks[fd].write(data)

    def process_exited(self) -> None:
        """Complete the future `exited`, because the process has exited."""
        self.exited.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's own
        """Complete the future `drained`, because the pipes are closed."""
        self.drained.set_result(None)


class StepRun:
    """One run of a step. `run` starts all tasks, and returns when they have ended."""

    def __init__(self, step: SrunStep) -> None:
        self._step = step
        self._leaders: dict[int, int] = {}
        self._connections: dict[int, asyncio.StreamWriter] = {}
        self._files: dict[str, int] = {}
        self._ending = 0  # the signal that ended the tasks, for tasks that start later

    async def run(self, alarm: tuple[float, int] | None) -> int:
        """Run all tasks to their end; return the highest exit code.

        alarm: the seconds after which all tasks get a signal, and the signal's number; None for no signal.
        """
        loop = asyncio.get_running_loop()
        for number in _PASSED_ON:
            loop.add_signal_handler(number, self._signal_tasks, number)
        if alarm is not None:
            loop.call_later(alarm[0], self._signal_tasks, alarm[1])
        running = [asyncio.create_task(self._run_task(task), name=f"task {task.rank}") for task in self._step.tasks]
        try:
            return max([await one for one in running])
        finally:
            await cancel(running)

    def _signal_tasks(self, number: int) -> None:
        if number in _ENDING:
            self._ending = number
        for leader in self._leaders.values():
            _signal_group(leader, number)
        for writer in self._connections.values():
            writer.write(bytes((number,)))

    async def _run_task(self, task: Task) -> int:
        try:
            sinks = self._open_sinks(task)
            code = await (self._run_here(task, sinks) if task.node == 0 else self._run_there(task, sinks))
            for sink in sinks.values():
                sink.close()
        except (OSError, msgspec.MsgspecError) as error:
            print(f"srun: task {task.rank} on {task.host}: {error}", file=sys.stderr, flush=True)
            code = _LOST
        if code:
            print(f"srun: task {task.rank} on {task.host} ended with exit code {code}", file=sys.stderr, flush=True)
            if self._step.ends_at_failure:
                self._signal_tasks(signal.SIGTERM)
        return code

    def _open_sinks(self, task: Task) -> dict[int, _Sink]:
        label = f"{task.rank}: ".encode() if self._step.label else b""
        output, error = task_files(self._step, task)
        return {STDOUT: _Sink(self._open(output, 1), label), STDERR: _Sink(self._open(error, 2), label)}

    def _open(self, name: str, stream: int) -> int:
        """Return the descriptor of the named file, which is opened once for all tasks; `stream` if the name is ""."""
        if not name:
            return stream
        if name not in self._files:
            mode = os.O_APPEND if self._step.append else os.O_TRUNC
            self._files[name] = os.open(name, os.O_WRONLY | os.O_CREAT | mode, 0o666)
        return self._files[name]

    async def _run_here(self, task: Task, sinks: Mapping[int, _Sink]) -> int:
        process, task_end = await asyncio.get_running_loop().subprocess_exec(
            lambda: _TaskEnd(sinks),
            *("/bin/sh", "-c", task_text(self._step, task, here=True), "srun", *self._step.command),
            env=self._step.environment,
            stdin=None if task.rank == 0 else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        self._leaders[task.rank] = process.get_pid()
        if self._ending:
            _signal_group(process.get_pid(), self._ending)
        await task_end.exited
        del self._leaders[task.rank]
        _signal_group(process.get_pid(), signal.SIGKILL)  # processes that the task left behind
        await asyncio.wait({task_end.drained}, timeout=_DRAIN_SECONDS)
        process.close()
        code = process.get_returncode() or 0
        return code if code >= 0 else 128 - code

    async def _run_there(self, task: Task, sinks: Mapping[int, _Sink]) -> int:
        directory = _find_directory()
        job = msgspec.json.decode((directory / "job.json").read_bytes(), type=_Job)
        context = client_context(directory / "identity.pem")
        reader, writer = await asyncio.open_connection(job.names[task.node], job.port, ssl=context)
        try:
            writer.write(request_line(CommandRequest(task_text(self._step, task, here=False))))
            self._connections[task.rank] = writer
            if self._ending:
                writer.write(bytes((self._ending,)))
            async for channel, data in read_frames(reader):
                if channel == ENDED:
                    return int(data)
                sinks[channel].write(data)
        finally:
            self._connections.pop(task.rank, None)
            writer.close()
        raise ConnectionError("the node has gone")


def _signal_group(leader: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(leader, number)


def _find_directory() -> Path:
    """Return the directory with the agents' addresses and the job's identity; a job with one node has neither."""
    return Path(os.environ.get("MUSTER_REMOTE_SHELL", os.devnull)).parent


def find_alarm(environment: Mapping[str, str], now: float) -> tuple[float, int] | None:
    """Return the seconds until the tasks get the signal before the time limit, and its number.

    Return None if they get no signal, or if its time is over.
    """
    told, end = environment.get(STEP_SIGNAL, ""), environment.get("SLURM_JOB_END_TIME", "")
    if not told or not end:
        return None
    asked = parse_signal(told)
    seconds = int(end) - asked.seconds - now
    return (seconds, signal.Signals[f"SIG{asked.name}"]) if seconds > 0 else None


def main(words: Sequence[str]) -> int:
    """Run the `srun` command with these arguments; return its exit code."""
    try:
        launcher = find_launcher(words, os.environ)
        return _become(launcher) if launcher else asyncio.run(_run(words))
    except OptionError as error:
        print(f"srun: {error}", file=sys.stderr)
        return _USAGE
    except OSError as error:  # such as a working directory that was deleted
        print(f"srun: {error}", file=sys.stderr)
        return _LOST


def _become(launcher: Sequence[str]) -> int:
    """Replace this process by the MPI launcher; return an exit code only if the launcher is not installed."""
    try:
        os.execvp(launcher[0], list(launcher))  # noqa: S606
    except FileNotFoundError:
        print("srun: --mpi needs mpirun, which is not on the PATH", file=sys.stderr)
        return _NOT_FOUND


async def _run(words: Sequence[str]) -> int:
    clock, demand = RealClock(), find_demand(words, os.environ)
    nodes: Sequence[int] = demand.nodes[: len(demand.counts)]
    if demand.waits and LEDGER in os.environ:
        nodes = await take_cpus(os.environ[LEDGER], demand, int(os.environ["SLURM_CPUS_ON_NODE"]), clock)
    before = read_environment(_find_directory())
    step = plan_step(words, os.environ, before, str(Path.cwd()), os.getpid(), nodes)
    return await StepRun(step).run(find_alarm(os.environ, clock.now().timestamp()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
