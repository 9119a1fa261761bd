"""The store on disks that fill up and disks that fail: real ones, of a few megabytes."""

import asyncio
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.system.store import store_filler
from tests.system.store.store_writer import header_of

from muster.cluster.store import DataDirectoryError, Store
from muster.cluster.store.sqlite import SqliteJournal

ROOT = Path(__file__).parents[3]


def small_disk(directory: Path, then: str, size: str = "4m") -> subprocess.CompletedProcess[str]:
    """Run a shell command with a disk of 4 MB in `directory`, seen by no other process."""
    mount = f"mount -t tmpfs -o size={size} tmpfs '{directory}' && {then}"
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    if shutil.which("unshare") is None or small_disk(tmp_path, "true").returncode:
        pytest.skip("this machine lets nobody mount a small disk")
    return tmp_path


async def count(directory: Path) -> int:
    async with Store(SqliteJournal(directory), header_of) as store:
        return len(store.list("pods").entries)


def counter(directory: Path) -> str:
    """A command that prints how many objects a data directory holds."""
    script = f'import asyncio, pathlib, {__name__} as t; print(asyncio.run(t.count(pathlib.Path("{directory}"))))'
    return f"{sys.executable} -c '{script}'"


def filler(*arguments: str) -> list[str]:
    return [sys.executable, "-m", store_filler.__name__, *arguments]


def report(result: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert result.returncode == 0, result.stderr
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


def test_a_full_disk_refuses_writes_serves_reads_and_recovers(disk: Path) -> None:
    data, ballast = disk / "data", disk / "ballast"
    fill = " ".join(filler(str(data), "full", str(ballast)))
    seen = report(small_disk(disk, f"head -c 1000000 /dev/zero > {ballast} && {fill}"))
    written = seen["written"]
    assert written > 50
    code, reason, message = seen["refusal"]
    assert (code, reason) == (507, "InsufficientStorage")
    assert message.startswith(f"no space left for {data}/store.db: the write was not made; free some disk space")
    assert seen["again"] == [507, "InsufficientStorage"]
    assert (seen["read"], seen["watched"]) == (written, [written, True])
    assert seen["after"] is True
    assert seen["failures"] == []


def test_what_was_acknowledged_before_the_disk_was_full_is_there_after_a_restart(disk: Path) -> None:
    """The restart is on the still full disk."""
    data, ballast = disk / "data", disk / "ballast"
    fill = " ".join(filler(str(data), "full", str(ballast)))
    fill_up = f"(cat /dev/zero > {disk}/rest 2>/dev/null || true)"
    result = small_disk(disk, f"head -c 1000000 /dev/zero > {ballast} && {fill} && {fill_up} && {counter(data)}")
    assert result.returncode == 0, result.stderr
    first, second = result.stdout.splitlines()
    assert int(second) == json.loads(first)["written"] + 1


def test_what_others_fill_the_disk_with_leaves_the_store_the_room_that_it_has(disk: Path) -> None:
    """Then jobs can be cancelled, which may make room."""
    data = disk / "data"
    again = counter(data)
    result = small_disk(
        disk, f"{' '.join(filler(str(data), 'taken', str(disk / 'rest')))} && {again} && {again}", "80m"
    )
    assert result.returncode == 0, result.stderr
    first, *counts = result.stdout.splitlines()
    assert json.loads(first) == {"rounds": 16, "full": True, "new": 507}
    assert counts == ["100", "100"]


def test_no_room_for_a_data_directory_is_one_clear_line(disk: Path) -> None:
    fill_up = f"(cat /dev/zero > {disk}/rest 2>/dev/null || true)"
    result = small_disk(disk, f"{fill_up}; {counter(disk / 'data')}")
    assert result.returncode == 1
    assert DataDirectoryError.__name__ in result.stderr.splitlines()[-1]
    assert "full" in result.stderr.splitlines()[-1] or "space" in result.stderr.splitlines()[-1]


def test_a_disk_that_fails_stops_writes_and_loses_nothing(tmp_path: Path) -> None:
    command = filler(str(tmp_path / "data"), "broken")
    seen = report(subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False))
    code, reason, message = seen["refusal"]
    assert (code, reason) == (503, "ServiceUnavailable")
    assert message.startswith(f"cannot write to {tmp_path}/data/store.db: disk I/O error; ")
    assert seen["again"] == [503, "ServiceUnavailable"]
    assert (seen["read"], seen["watched"]) == (seen["written"], [seen["written"], True])
    assert seen["failures"] == [message], "the process is told once, to stop"
    assert asyncio.run(count(tmp_path / "data")) == seen["written"]
