"""Logs that several readings share."""

from pathlib import Path

import pytest

from muster.simulation.scenario.logs.jobs import HELD_JOBS, OrderedJobs
from muster.simulation.scenario.logs.shelf import LogShelf
from muster.simulation.scenario.model import Trace


class Shelf(LogShelf):
    """A shelf that notes which logs it reads."""

    def __init__(self) -> None:
        super().__init__(lambda file, jobs: self.looks.append((file.name, jobs)))
        self.looks: list[tuple[str, int]] = []


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write_log(tmp_path / "log.swf", 12_000)


def write_log(file: Path, jobs: int) -> Path:
    lines = (f"{number} {number} 0 60 1 -1 -1 1 60 -1 1 1 1 1 1 1 -1 -1\n" for number in range(1, jobs + 1))
    file.write_text("".join(lines))
    return file


def test_a_log_is_read_once_whatever_its_limits_and_queues_mean(log: Path) -> None:
    shelf = Shelf()
    traces = [Trace("log.swf"), Trace("log.swf", limits="exact"), Trace("log.swf", queues={"1": "batch"})]
    first, *others = [shelf.read(log, trace) for trace in traces]
    assert all(one is first for one in others)
    assert shelf.looks == [("log.swf", 0), ("log.swf", 5_000), ("log.swf", 10_000)]


def test_a_log_that_starts_later_is_another(log: Path) -> None:
    shelf = Shelf()
    origins = [shelf.read(log, Trace("log.swf", start=start)).origin for start in (None, 40, None)]
    assert origins == [1, 40, 1]
    assert [jobs for _, jobs in shelf.looks].count(0) == 2


def test_short_logs_all_stay_in_memory(tmp_path: Path) -> None:
    shelf = Shelf()
    logs = [write_log(tmp_path / f"{number}.swf", 1) for number in range(9)]
    for log in (*logs, *logs):
        shelf.read(log, Trace(log.name))
    assert len(shelf.looks) == 9
    shelf.clear()
    shelf.read(logs[0], Trace("0.swf"))
    assert len(shelf.looks) == 10


def test_only_the_logs_read_last_stay_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OrderedJobs, "held", HELD_JOBS)  # that many jobs take seconds to write
    shelf = Shelf()
    logs = [write_log(tmp_path / f"{number}.swf", 1) for number in range(5)]
    for log in (*logs[:4], logs[0], logs[4], logs[0], logs[1]):
        shelf.read(log, Trace(log.name))
    assert [name for name, _ in shelf.looks] == ["0.swf", "1.swf", "2.swf", "3.swf", "4.swf", "1.swf"]


def test_an_interrupt_ends_the_reading(log: Path) -> None:
    def interrupt(_file: Path, jobs: int) -> None:
        if jobs:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        LogShelf(interrupt).read(log, Trace("log.swf"))
