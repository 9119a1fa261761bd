"""Pods that are gone: which are kept, and for how long."""

import pytest

from muster.cluster.nodes.disk import past
from muster.cluster.nodes.disk.past import MOST_OF_A_RANK, Past, PastPod, find_surplus
from muster.cluster.nodes.disk.storage import PodRecord, Storage


def gone(number, job="j", rank="0", size=1):
    return PastPod(
        PodRecord("ns", "p", f"{job}-{rank}-{number}", job=job, rank=rank, gone=f"2026-01-{number:02}"), size
    )


@pytest.mark.parametrize(
    ("pods", "goes"),
    [
        ([gone(number) for number in range(1, MOST_OF_A_RANK + 1)], []),
        ([gone(number) for number in range(1, MOST_OF_A_RANK + 3)], ["j-0-2", "j-0-1"]),
        ([gone(number, rank=str(number)) for number in range(1, 20)], []),
        ([gone(number, job=str(number)) for number in range(1, 20)], []),
        ([gone(1, "a", size=60), gone(2, "b", size=30), gone(3, "c", size=50)], ["a-0-1"]),
        ([gone(1, "a", size=10), gone(2, "b", size=200)], ["b-0-2"]),
    ],
)
def test_the_oldest_go_first(pods, goes, monkeypatch):
    monkeypatch.setattr(past, "MOST_BYTES", 100)
    assert [pod.record.uid for pod in find_surplus(pods)] == goes


@pytest.fixture
def storage(tmp_path):
    return Storage(tmp_path / "node", tmp_path)


def ended(storage, uid, job="j"):
    """A pod that has ended, with a log and a volume."""
    place = storage.of(uid)
    record = PodRecord("ns", f"p-{uid}", uid, job=job, rank="0", created="2026-01-01")
    place.write(record)
    (place.begin("main", 1) / "log.0.0").write_bytes(b"x" * 100)
    (place.volume("v")).mkdir()
    return record


def test_its_logs_stay_until_its_job_goes(storage):
    pods = Past(storage)
    [volumes] = pods.keep(ended(storage, "a"), "2026-01-02")
    assert "volumes" in volumes.name
    assert not pods.keep(ended(storage, "b", job="other"), "2026-01-03")[1:]
    [kept] = pods.of("j")
    assert (kept.name, kept.uid, kept.rank, kept.created, kept.containers) == (
        "p-a",
        "a",
        "0",
        "2026-01-01",
        {"main": (1,)},
    )
    # A server that comes after this one knows them by their records.
    later = Past(storage)
    for record in storage.pods():
        later.restore(record)
    assert later.of("j") == [kept]
    assert later.forget("j")
    assert [record.uid for record in storage.pods()] == ["b"]
    assert (later.of("j"), len(later.of("other"))) == ([], 1)
