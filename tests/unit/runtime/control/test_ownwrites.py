"""Own writes: what is waited for until it is seen, and what counts until then."""

import pytest
from tests.unit.jobs.world import START

from muster.api.batch import Job
from muster.api.core import Pod
from muster.api.meta import ObjectMeta
from muster.runtime.control.ownwrites import Expectations, MutationCache


def job(version: str) -> Job:
    return Job(metadata=ObjectMeta(name="u", resource_version=version))


def pod(version: str, uid: str = "u", *, deleting: bool = False) -> Pod:
    meta = ObjectMeta(uid=uid, resource_version=version, deletion_timestamp=START if deleting else None)
    return Pod(metadata=meta)


def test_where_nothing_was_written_nothing_is_waited_for() -> None:
    assert Expectations().are_met(job("7"), "")


def test_a_status_is_seen_with_its_version_or_a_later_one() -> None:
    expected = Expectations()
    expected.wrote_owner(job("10"))
    assert [expected.are_met(job(version), "") for version in ("9", "10", "11")] == [False, True, True]


def test_pods_are_seen_once_the_cache_is_past_them() -> None:
    expected = Expectations()
    expected.wrote(pod("12"))
    expected.wrote(pod("10"))
    assert [expected.are_met(job("1"), version) for version in ("", "11", "12", "100")] == [False, False, True, True]


def test_a_deletion_is_seen_when_the_pod_is_going_or_gone() -> None:
    expected = Expectations()
    expected.going.update(("a", "b"))
    expected.saw("a", pod("3", "a"))
    assert not expected.are_met(job("1"), "9")
    expected.saw("a", pod("4", "a", deleting=True))
    expected.saw("b", None)
    assert expected.are_met(job("1"), "9")


def test_a_pod_that_the_server_lacks_must_leave_the_cache() -> None:
    expected = Expectations()
    expected.gone.add("a")
    expected.saw("a", pod("4", "a", deleting=True))
    assert not expected.are_met(job("1"), "9")
    expected.saw("a", None)
    assert expected.are_met(job("1"), "9")


def test_a_look_at_the_cache_makes_up_for_missed_events() -> None:
    expected = Expectations()
    expected.going.update(("a", "b", "c"))
    expected.gone.add("d")
    expected.check_cache([pod("1", "a"), pod("2", "b", deleting=True)])
    assert (expected.going, expected.gone) == ({"a"}, set())


def test_versions_that_are_no_numbers_are_not_waited_for() -> None:
    expected = Expectations()
    expected.wrote_owner(job("abc"))
    assert expected.are_met(job("xyz"), "")


@pytest.mark.parametrize(
    ("wrote", "then_sees", "has", "is_news"),
    [
        (None, "5", "5", True),
        ("7", "5", "7", False),  # older than our write
        ("7", "7", "7", False),  # our write
        ("7", "10", "10", True),
        ("7", None, None, True),
    ],
)
def test_our_write_counts_until_it_is_seen(
    wrote: str | None, then_sees: str | None, has: str | None, is_news: bool
) -> None:
    seen = {"u": job("4")}
    cache = MutationCache[Job](seen.get)
    if wrote is not None:
        cache.wrote(job(wrote))
    if then_sees is None:
        del seen["u"]
    else:
        seen["u"] = job(then_sees)
    assert cache.is_news("u", seen.get("u")) == is_news
    found = cache.get("u")
    assert (found.metadata.resource_version if found is not None else None) == has


def test_a_write_that_was_seen_is_forgotten_and_one_about_what_is_gone_does_not_count() -> None:
    seen = {"u": job("4")}
    cache = MutationCache[Job](seen.get)
    cache.wrote(job("7"))
    assert not cache.is_news("u", job("7"))
    assert cache.get("u") is seen["u"]
    del seen["u"]
    cache.wrote(job("9"))
    seen["u"] = job("8")  # another of the name
    assert cache.is_news("u", seen["u"])
    assert cache.get("u") is seen["u"]
