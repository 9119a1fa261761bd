from tests.unit.jobs.world import START

from muster.api.batch import Job
from muster.api.core import Pod
from muster.api.meta import ObjectMeta
from muster.controllers.job.observed import OwnWrites


def job(version: str) -> Job:
    return Job(metadata=ObjectMeta(resource_version=version))


def pod(version: str, uid: str = "u", *, deleting: bool = False) -> Pod:
    meta = ObjectMeta(uid=uid, resource_version=version, deletion_timestamp=START if deleting else None)
    return Pod(metadata=meta)


def test_nothing_written_is_seen_at_once() -> None:
    assert OwnWrites().are_seen(job("7"), "")


def test_a_status_is_seen_with_its_version_or_a_later_one() -> None:
    written = OwnWrites()
    written.job_written(job("10"))
    assert [written.are_seen(job(version), "") for version in ("9", "10", "11")] == [False, True, True]


def test_pods_are_seen_once_the_cache_is_past_them() -> None:
    written = OwnWrites()
    written.pod_written(pod("12"))
    written.pod_written(pod("10"))
    assert [written.are_seen(job("1"), version) for version in ("", "11", "12", "100")] == [False, False, True, True]


def test_a_deletion_is_seen_when_the_pod_is_going_or_gone() -> None:
    written = OwnWrites()
    written.going.update(("a", "b"))
    written.pod_seen("a", pod("3", "a"))
    assert not written.are_seen(job("1"), "9")
    written.pod_seen("a", pod("4", "a", deleting=True))
    written.pod_seen("b", None)
    assert written.are_seen(job("1"), "9")


def test_a_pod_that_the_server_lacks_must_leave_the_cache() -> None:
    written = OwnWrites()
    written.gone.add("a")
    written.pod_seen("a", pod("4", "a", deleting=True))
    assert not written.are_seen(job("1"), "9")
    written.pod_seen("a", None)
    assert written.are_seen(job("1"), "9")


def test_a_look_at_the_cache_makes_up_for_missed_events() -> None:
    written = OwnWrites()
    written.going.update(("a", "b", "c"))
    written.gone.add("d")
    written.look([pod("1", "a"), pod("2", "b", deleting=True)])
    assert (written.going, written.gone) == ({"a"}, set())


def test_versions_that_are_no_numbers_are_not_waited_for() -> None:
    written = OwnWrites()
    written.job_written(job("abc"))
    assert written.are_seen(job("xyz"), "")
