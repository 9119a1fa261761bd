import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from muster.actions.server.home import Home
from muster.cluster.store import DataDirectoryError
from muster.cluster.store.directory import DataDirectory


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_it_is_private_to_its_user(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        directory = DataDirectory(tmp_path / "new" / "data")
        created = directory.create("file")
    finally:
        os.umask(old)
    assert (mode(directory.path), mode(created), mode(directory.path / "lock")) == (0o700, 0o600, 0o600)
    directory.release()


def test_a_second_server_is_told_who_has_it(tmp_path: Path) -> None:
    first = DataDirectory(tmp_path)
    with pytest.raises(DataDirectoryError) as refused:
        DataDirectory(tmp_path)
    assert str(refused.value) == f"data directory {tmp_path} is in use by process {os.getpid()}"
    first.release()
    DataDirectory(tmp_path).release()


def test_the_lock_goes_with_the_process(tmp_path: Path) -> None:
    script = (
        "import sys, pathlib, muster.cluster.store.directory as d\n"
        "taken = d.DataDirectory(pathlib.Path(sys.argv[1]))\n"
        "print('taken', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"taken\n"
        with pytest.raises(DataDirectoryError, match=f"in use by process {holder.pid}$"):
            DataDirectory(tmp_path)
        holder.kill()
    DataDirectory(tmp_path).release()


def test_whoever_looks_is_in_nobodys_way(tmp_path: Path) -> None:
    DataDirectory(tmp_path).release()
    home, done = Home(tmp_path), threading.Event()
    seen: set[int | None] = set()

    def look() -> None:
        while not done.is_set():
            seen.add(home.server_pid())

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        for _ in range(1000):
            DataDirectory(tmp_path).release()
    finally:
        done.set()
        watcher.join()
    assert seen <= {None, os.getpid()}


def test_who_has_it_is_seen(tmp_path: Path) -> None:
    assert Home(tmp_path).server_pid() is None
    directory = DataDirectory(tmp_path)
    assert Home(tmp_path).server_pid() == os.getpid()
    directory.release()
    assert Home(tmp_path).server_pid() is None


def test_what_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataDirectoryError, match=r"cannot use data directory .*/file/data: Not a directory"):
        DataDirectory(tmp_path / "file" / "data")
    directory = DataDirectory(tmp_path)
    (tmp_path / "taken").mkdir()
    with pytest.raises(DataDirectoryError, match=r"cannot open .*/taken: Is a directory"):
        directory.create("taken")
    directory.release()
