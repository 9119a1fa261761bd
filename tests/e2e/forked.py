"""Runs `muster` in processes that are forked from one that has loaded its modules.

Most of the CPU of a short command loads modules. A forked process has an environment, a working directory and standard
streams of its own, as a started one has, and begins at the same entry point. What it leaves out is the start of Python.
"""

import multiprocessing
import os
import subprocess
import sys
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

from muster.cli.entry import main

_FORKING = multiprocessing.get_context("forkserver")


def name_process(home: Path) -> str:
    """Return the name of the processes of a home: /proc tells the environment of the process that they come from."""
    return f"muster-{zlib.crc32(bytes(home)):08x}"


def run(
    home: Path, command: Sequence[str], environment: Mapping[str, str], directory: Path, text: str, timeout: float
) -> "subprocess.CompletedProcess[str]":
    """Run a command as `subprocess.run` does that captures the output. The first word is the path of `muster`."""
    _FORKING.set_forkserver_preload(["__main__", "tests.e2e.preloaded"])
    (stdin, feed), (output, stdout), (remarks, stderr) = (_FORKING.Pipe(duplex=False) for _ in range(3))
    streams = (stdin, stdout, stderr)
    process = _FORKING.Process(target=_become, args=(home, command, dict(environment), directory, streams))
    process.start()
    for end in streams:
        end.close()
    with ThreadPoolExecutor(3) as threads, output, remarks:
        reading = [threads.submit(_read, end) for end in (output, remarks)]
        threads.submit(_write, feed, text)
        process.join(timeout)
        code = process.exitcode
        if code is None:
            process.kill()
            raise subprocess.TimeoutExpired(list(command), timeout)
        process.close()
        return subprocess.CompletedProcess(list(command), code, *(one.result() for one in reading))


def _read(end: Connection) -> str:
    with open(end.fileno(), closefd=False) as stream:
        return stream.read()


def _write(end: Connection, text: str) -> None:
    with end, suppress(BrokenPipeError), open(end.fileno(), "w", closefd=False) as stream:
        stream.write(text)


def _become(
    home: Path, command: Sequence[str], environment: Mapping[str, str], directory: Path, streams: Sequence[Connection]
) -> None:
    """Turn this new process into one that runs the command."""
    Path("/proc/self/comm").write_text(name_process(home))
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    for descriptor, stream in enumerate(streams):
        os.dup2(stream.fileno(), descriptor)
        stream.close()
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # nothing that the command starts inherits what is multiprocessing's
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - multiprocessing has put another there
    sys.argv[:] = command
    main()
