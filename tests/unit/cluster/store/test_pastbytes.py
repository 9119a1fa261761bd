"""The count of what only the history keeps, against a plain sum over all changes."""

import hypothesis.strategies as st
import pytest
from hypothesis import given
from tests.unit.cluster.store.kit import key

from muster.cluster.store import Change, Entry, Header
from muster.cluster.store.pastbytes import STEP_BYTES, PastBytes, count_past_bytes
from muster.cluster.store.values import ChangeType

BIG = STEP_BYTES // 2


def entry(revision: int, size: int) -> Entry:
    return Entry(key("a"), revision, bytes(size), Header())


def change(revision: int, replaced: int) -> Change:
    return Change("MODIFIED", entry(revision, 1), entry(revision - 1, replaced))


@pytest.mark.parametrize(
    ("type_", "size", "replaced", "past"),
    [("ADDED", 7, None, 0), ("MODIFIED", 7, 5, 5), ("DELETED", 7, 5, 12), ("ADDED", 0, None, 0)],
)
def test_only_bodies_that_no_object_has_any_more_count(
    type_: ChangeType, size: int, replaced: int | None, past: int
) -> None:
    previous = None if replaced is None else entry(1, replaced)
    assert count_past_bytes(Change(type_, entry(2, size), previous)) == past


@given(
    sizes=st.lists(st.integers(0, 3 * BIG), max_size=20),
    limit=st.integers(0, 10 * BIG),
    forgotten=st.integers(0, 20),
)
def test_what_is_left_after_a_revision_is_within_the_limit_and_no_step_less(
    sizes: list[int], limit: int, forgotten: int
) -> None:
    past, changes = PastBytes(10 * BIG), [change(revision, size) for revision, size in enumerate(sizes, 1)]
    for each in changes:
        past.add(each)
    past.forget(forgotten)
    kept = sum(sizes[forgotten:])
    assert kept <= past.kept_bytes < kept + STEP_BYTES + 3 * BIG
    revision = past.find_revision(limit)
    assert sum(sizes[max(revision, forgotten) :]) <= limit + STEP_BYTES
    if revision > forgotten:  # the change at the revision had to go, or the ones before it in its step
        assert past.kept_bytes > limit
    past.forget(revision)
    assert past.kept_bytes <= limit + STEP_BYTES


def test_too_many_are_told_until_enough_are_forgotten() -> None:
    past = PastBytes(2 * STEP_BYTES)
    for revision in range(1, 3):
        past.add(change(revision, STEP_BYTES))
    assert not past.exceeded.is_set()
    past.add(change(3, STEP_BYTES))
    assert past.exceeded.is_set()
    past.forget(0)
    assert past.exceeded.is_set()
    past.forget(1)
    assert not past.exceeded.is_set()
