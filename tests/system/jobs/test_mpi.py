"""The agents of a job of MPI as processes on this machine: whom they obey, what they pass on, and when they end."""

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from muster.mpi.frames import ENDED, HERE, STDOUT
from muster.mpi.identity import client_context, make_identity
from muster.runtime.clock import RealClock

LAUNCHER = str(Path(__file__).with_name("mpi_launcher.py"))
SHOWS = 'echo "$PMI_RANK of $PMI_SIZE"; echo "err $PMI_RANK" >&2'


class World:
    """The workers of one job, by rank: each a process with an address of its own in 127.0.0.0/8."""

    def __init__(self, directory: Path, workers: int, slots: int, port: int) -> None:
        self.identity = directory / "identity.pem"
        self.identity.write_bytes(make_identity(RealClock().now()))
        self.port = port
        self._options = [
            "--hosts",
            "127.77.5.{}",
            "--workers",
            str(workers),
            "--slots",
            str(slots),
            "--port",
            str(port),
        ]
        self._workers = workers
        self.processes: dict[int, subprocess.Popen[str]] = {}
        self._connections: list[socket.socket] = []

    def address(self, rank):
        return f"127.77.5.{rank}"

    def start(self, rank, *command):
        own = {"JOB_COMPLETION_INDEX": str(rank), "MUSTER_MPI_IDENTITY": self.identity.read_text()}
        self.processes[rank] = subprocess.Popen(
            [sys.executable, "-m", "muster.cli", "mpi-agent", *self._options, "--", *command],
            env=os.environ | own,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        return self.processes[rank]

    def run(self, *command):
        """All of them, to the end; exit codes by rank, and what rank 0 printed."""
        for rank in range(self._workers):
            self.start(rank, *command)
        printed, errors = self.processes[0].communicate(timeout=60)
        codes = [self.processes[rank].wait(timeout=60) for rank in range(self._workers)]
        return codes, printed, errors

    def hold(self, rank):
        """A connection to an agent, as rank 0 has one."""
        connection = self.connect(rank, client_context(self.identity))
        connection.sendall(b"{}\n")
        assert connection.recv(5) == bytes((HERE, 0, 0, 0, 0))
        return connection

    def connect(self, rank, context):
        while True:  # until it listens
            try:
                plain = socket.create_connection((self.address(rank), self.port), timeout=60)
            except ConnectionRefusedError:
                assert self.processes[rank].poll() is None, self.processes[rank].stderr.read()
                continue
            self._connections.append(plain)
            if context is None:
                return plain
            self._connections[-1] = connection = context.wrap_socket(plain)
            return connection

    def close(self):
        for connection in self._connections:
            connection.close()
        for process in self.processes.values():
            process.kill()
            process.communicate()


@contextmanager
def world(directory, workers=2, slots=1):
    with socket.create_server(("127.77.5.1", 0)) as free:
        port = free.getsockname()[1]
    made = World(directory, workers, slots, port)
    try:
        yield made
    finally:
        made.close()


def test_the_launcher_starts_processes_on_every_worker_and_its_exit_code_is_that_of_rank_0(tmp_path):
    with world(tmp_path, workers=3, slots=2) as job:
        codes, printed, errors = job.run(LAUNCHER, "sh", "-c", f"{SHOWS}; exit $PMI_RANK")
    assert sorted(printed.splitlines()) == [f"{rank} of 6" for rank in range(6)]
    assert sorted(errors.splitlines()) == [f"err {rank}" for rank in range(6)]
    assert codes == [5, 0, 0]


@pytest.mark.parametrize(("program", "code"), [("/no/such/mpirun", 127), ("/etc/passwd", 126)])
def test_a_launcher_that_cannot_be_run_ends_the_job_as_a_shell_would(tmp_path, program, code):
    with world(tmp_path) as job:
        codes, _, errors = job.run(program)
    assert codes == [code, 0]
    assert program in errors


def test_processes_know_neither_the_identity_nor_what_would_let_them_into_another_worker(tmp_path):
    with world(tmp_path) as job:
        codes, printed, _ = job.run(LAUNCHER, "sh", "-c", "env")
    assert codes == [0, 0]
    assert "PMI_RANK=1" in printed
    assert "MUSTER_MPI_IDENTITY" not in printed
    assert "PRIVATE KEY" not in printed


def answer(job, context, request):
    """What a stranger hears, b"" if the agent hangs up."""
    try:
        stranger = job.connect(1, context)
        stranger.sendall(json.dumps(request).encode() + b"\n")
        return stranger.recv(1)
    except OSError:
        return b""


def test_a_stranger_starts_nothing_and_the_agent_serves_its_own_rank_0_afterwards(tmp_path):
    other = tmp_path / "other.pem"
    other.write_bytes(make_identity(RealClock().now()))
    unnamed = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    unnamed.check_hostname, unnamed.verify_mode = False, ssl.CERT_NONE
    untrusting = client_context(other)
    untrusting.verify_mode = ssl.CERT_NONE  # it takes whatever it is shown, and shows its own
    mark = tmp_path / "started"
    with world(tmp_path) as job:
        job.start(1, "mpirun")
        for context in (None, unnamed, untrusting):
            assert answer(job, context, {"command": f"touch {mark}"}) == b""
        job.hold(1).sendall(b"bye\n")
        assert job.processes[1].wait(timeout=60) == 0
        assert job.processes[1].stderr.read() == ""
    assert not mark.exists()


def test_an_agent_without_rank_0_fails_and_its_processes_end(tmp_path):
    with world(tmp_path) as job:
        agent = job.start(1, "mpirun")
        holder = job.hold(1)
        running = job.connect(1, client_context(job.identity))
        running.sendall(b'{"command": "echo $$; exec sleep 1000"}\n')
        header = running.recv(5)
        assert header[0] == STDOUT
        pid = int(running.recv(int.from_bytes(header[1:])))
        holder.close()
        assert agent.wait(timeout=60) == 1
        assert "127.77.5.0, which ran the job, has gone" in agent.stderr.read()
        running.close()
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_command_ends_when_its_connection_does(tmp_path):
    with world(tmp_path) as job:
        job.start(1, "mpirun")
        holder = job.hold(1)
        done = tmp_path / "done"
        running = job.connect(1, client_context(job.identity))
        running.sendall(
            b'{"command": "trap \'touch %s; exit\' TERM; echo here; sleep 1000 & wait"}\n' % str(done).encode()
        )
        assert running.recv(5)[0] == STDOUT
        running.close()
        holder.sendall(b"bye\n")
        assert job.processes[1].wait(timeout=60) == 0
    assert done.exists()


def test_the_end_of_one_worker_is_the_end_of_all(tmp_path):
    with world(tmp_path, workers=3) as job:
        for rank in range(3):
            job.start(rank, LAUNCHER, "sh", "-c", "echo here; exec sleep 1000")
        for _ in range(3):
            assert job.processes[0].stdout.readline() == "here\n"
        job.processes[2].send_signal(signal.SIGTERM)  # as of a pod that is evicted
        assert job.processes[0].wait(timeout=60) != 0
        assert "127.77.5.2 is told to end: the job is ended" in job.processes[0].stderr.read()
        assert [job.processes[rank].wait(timeout=60) for rank in (1, 2)] == [0, 128 + signal.SIGTERM]


def test_a_worker_that_is_lost_ends_mpirun(tmp_path):
    with world(tmp_path) as job:
        for rank in range(2):
            job.start(rank, LAUNCHER, "sh", "-c", "echo $$; exec sleep 1000")
        left = [int(job.processes[0].stdout.readline()) for _ in range(2)]
        job.processes[1].kill()
        assert job.processes[0].wait(timeout=60) != 0
        assert "127.77.5.1 has gone: the job is ended" in job.processes[0].stderr.read()
        for pid in left:  # in a pod it would go with its agent
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_a_job_that_is_told_to_end_before_all_workers_are_there_ends(tmp_path):
    with world(tmp_path) as job:
        waiting = job.start(0, LAUNCHER, "true")
        assert "the job waits for 127.77.5.1" in waiting.stderr.readline()
        waiting.send_signal(signal.SIGTERM)
        assert waiting.wait(timeout=60) == 128 + signal.SIGTERM


def test_a_command_gets_the_signals_that_its_connection_asks_for(tmp_path):
    with world(tmp_path) as job:
        job.start(1, "mpirun")
        holder = job.hold(1)
        running = job.connect(1, client_context(job.identity))
        running.sendall(b'{"command": "exec 2>/dev/null; trap \'exit 7\' USR1; echo; while :; do sleep 0.1; done"}\n')
        assert running.recv(6) == bytes((STDOUT, 0, 0, 0, 1)) + b"\n"
        running.sendall(bytes((signal.SIGUSR1,)))
        assert running.recv(6) == bytes((ENDED, 0, 0, 0, 1)) + b"7"
        holder.sendall(b"bye\n")
        assert job.processes[1].wait(timeout=60) == 0


def test_a_command_that_is_longer_than_linux_allows_is_said_to_be_so(tmp_path):
    with world(tmp_path) as job:
        job.start(1, "mpirun")
        holder = job.hold(1)
        running = job.connect(1, client_context(job.identity))
        running.sendall(json.dumps({"command": f"true {'x' * 200_000}"}).encode() + b"\n")
        answer = b""
        while data := running.recv(1 << 12):
            answer += data
        assert b"muster: the command cannot begin: Argument list too long\n" in answer
        assert answer.endswith(bytes((ENDED, 0, 0, 0, 3)) + b"126")
        holder.sendall(b"bye\n")
        assert job.processes[1].wait(timeout=60) == 0
