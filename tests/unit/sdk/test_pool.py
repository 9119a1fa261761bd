"""Workers that stay, as processes of their own, and who gives them calls."""

import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from muster.sdk import worker
from muster.sdk.calls import pack_call
from muster.sdk.errors import JobFailedError
from muster.sdk.pool import Pool

IMPATIENT = "import sys; from muster.sdk import worker; worker._GRACE_SECONDS = 0.1; sys.exit(worker.main('stay'))"


def start(directory, rank, *, impatient=False):
    environment = os.environ | {"JOB_COMPLETION_INDEX": str(rank), worker.DIRECTORY: str(directory)}
    command = [sys.executable, "-P", *(("-c", IMPATIENT) if impatient else (worker.__file__, worker.STAY))]
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


@contextmanager
def pool_of(directory, workers, *, impatient=False):
    pool = Pool(directory)
    processes = [start(directory, rank, impatient=impatient) for rank in range(workers)]
    try:
        yield pool, processes
    finally:
        pool.end("it was shut down")
        for process in processes:
            process.communicate(timeout=60)


def made(pool, function, *args):
    outcome, rank = pool.call("train", pack_call(function, args, {}))
    return outcome.value("train", rank)


def test_calls_are_made_and_workers_leave_at_the_end(tmp_path):
    with pool_of(tmp_path, 2) as (pool, processes), ThreadPoolExecutor(4) as threads:
        assert list(threads.map(lambda number: made(pool, pow, number, 2), range(50))) == [n * n for n in range(50)]
    assert [process.returncode for process in processes] == [0, 0]


def test_a_process_that_dies_takes_one_call_with_it(tmp_path):
    with pool_of(tmp_path, 1) as (pool, _):
        with pytest.raises(JobFailedError, match=r"on rank 0 has died: signal 9 \(SIGKILL\)"):
            made(pool, lambda: os.kill(os.getpid(), signal.SIGKILL))
        with pytest.raises(JobFailedError, match="on rank 0 has died: exit code 7"):
            made(pool, os._exit, 7)
        assert made(pool, abs, -1) == 1


def test_a_worker_that_is_started_anew_makes_its_call_again(tmp_path):
    def once():
        if not (tmp_path / "begun").exists():
            (tmp_path / "begun").touch()
            signal.pause()
        return "again"

    with pool_of(tmp_path, 1) as (pool, processes), ThreadPoolExecutor(1) as threads:
        call = threads.submit(made, pool, once)
        while not (tmp_path / "begun").exists():
            assert not call.done()
        pid = processes[0].pid
        [child] = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        processes[0].kill()
        os.kill(int(child), signal.SIGKILL)
        processes.append(start(tmp_path, 0))
        assert call.result(60) == "again"


def test_what_ends_is_said_to_who_waits(tmp_path):
    pool = Pool(tmp_path)
    with ThreadPoolExecutor(1) as threads:
        call = threads.submit(made, pool, abs, -1)
        pool.end("cancelled")
        with pytest.raises(BrokenExecutor, match="train: cancelled"):
            call.result(60)
    pool.end("and again")


def test_a_worker_that_comes_too_late_leaves(tmp_path):
    Pool(tmp_path).end("it was shut down")
    process = start(tmp_path, 0)
    assert process.communicate(timeout=60)[1].startswith("no more calls come: ")
    assert process.returncode == 0


def test_who_says_no_rank_is_not_listened_to(tmp_path):
    with pool_of(tmp_path, 0) as (pool, processes):
        with worker.connect_to_caller(tmp_path) as stranger:
            stranger.sendall((5).to_bytes(8, "big") + b"hello")
            assert stranger.recv(1) == b""
        assert pool.ranks == 0
        processes.append(start(tmp_path, 0))
        assert made(pool, abs, -1) == 1


def test_the_name_of_the_directory_may_be_long(tmp_path):
    directory = tmp_path / ("x" * 200)
    directory.mkdir()
    with pool_of(directory, 1) as (pool, _):
        assert made(pool, abs, -1) == 1


def test_a_message_that_breaks_off_is_told():
    ours, theirs = socket.socketpair()
    with ours, ours.makefile("rwb") as stream:
        with theirs:
            theirs.sendall((5).to_bytes(8, "big") + b"he")
        with pytest.raises(EOFError):
            worker.receive(stream)


@pytest.mark.parametrize("deaf", [False, True])
def test_a_worker_whose_program_has_gone_leaves_its_call(tmp_path, deaf):
    def long():
        if deaf:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        (tmp_path / "begun").touch()
        while True:
            signal.pause()

    with pool_of(tmp_path, 1, impatient=deaf) as (pool, [process]), ThreadPoolExecutor(1) as threads:
        call = threads.submit(made, pool, long)
        while not (tmp_path / "begun").exists():
            assert not call.done()
        for lifeline in pool._lifelines:  # as when the kernel closes what the program had open
            lifeline.close()
        assert process.wait(timeout=60) == 0
        pool.end("the program ends")
        with pytest.raises(JobFailedError, match="has died: the program ends"):
            call.result(60)
