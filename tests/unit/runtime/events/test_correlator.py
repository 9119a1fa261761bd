"""What becomes of events that repeat, resemble each other, or come in floods."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.core import EventSource, ObjectReference
from muster.runtime.events import correlator as correlator_module
from muster.runtime.events.correlator import BURST, COMBINED, Correlator, Occurrence, Sighting

START = datetime(2026, 1, 1, tzinfo=UTC)
POD = ObjectReference(api_version="v1", kind="Pod", namespace="ns", name="p", uid="u")
EVENT = Occurrence(EventSource(component="test"), POD, "Warning", "Failed", "it failed")


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def seen(correlator: Correlator, event: Occurrence, seconds: float = 0) -> Sighting:
    sighting = correlator.correlate(event, after(seconds))
    assert sighting is not None
    return sighting


def test_same_event_raises_the_count() -> None:
    correlator = Correlator()
    first = seen(correlator, EVENT)
    again = seen(correlator, EVENT, 5)
    assert again is first
    assert (again.count, again.first, again.last, again.message) == (2, after(0), after(5), "it failed")


@pytest.mark.parametrize(
    "other",
    [
        EVENT._replace(source=EventSource(component="other")),
        EVENT._replace(source=EventSource(component="test", host="n1")),
        EVENT._replace(type="Normal"),
        EVENT._replace(reason="Succeeded"),
        EVENT._replace(message="it failed again"),
        EVENT._replace(regarding=msgspec.structs.replace(POD, uid="v")),
        EVENT._replace(regarding=msgspec.structs.replace(POD, field_path="spec.containers{a}")),
    ],
)
def test_different_events_are_apart(other: Occurrence) -> None:
    correlator = Correlator()
    assert seen(correlator, EVENT) is not seen(correlator, other)


def test_version_of_the_object_does_not_matter() -> None:
    correlator = Correlator()
    newer = EVENT._replace(regarding=msgspec.structs.replace(POD, resource_version="77"))
    assert seen(correlator, EVENT) is seen(correlator, newer)


def test_a_series_is_one_event_with_the_newest_message() -> None:
    correlator = Correlator()
    first = seen(correlator, EVENT._replace(series=True))
    again = seen(correlator, EVENT._replace(series=True, message="another failed"), 5)
    assert again is first
    assert (again.count, again.message, again.last) == (2, "another failed", after(5))


def test_similar_events_are_combined() -> None:
    correlator = Correlator()
    sightings = [seen(correlator, EVENT._replace(message=f"failure {n}")) for n in range(20)]
    assert [sighting.count for sighting in sightings[:9]] == [1] * 9
    combined = sightings[9]
    assert all(sighting is combined for sighting in sightings[9:])
    assert (combined.count, combined.message) == (11, f"{COMBINED}failure 19")
    assert seen(correlator, EVENT._replace(message="failure 0")).count == 2, "early ones keep their own"


def test_similarity_ends_after_ten_quiet_minutes() -> None:
    correlator = Correlator()
    for number in range(15):
        seen(correlator, EVENT._replace(message=f"failure {number}"))
    assert seen(correlator, EVENT._replace(message="late"), 600).message == f"{COMBINED}late"
    assert seen(correlator, EVENT._replace(message="later"), 1201).message == "later"


def test_flood_about_one_object_is_cut_off() -> None:
    correlator = Correlator()
    written = [correlator.correlate(EVENT, after(0)) is not None for _ in range(100)]
    assert written == [True] * BURST + [False] * (100 - BURST)
    assert seen(correlator, EVENT, 300).count == 101, "what was not written counts too"
    assert correlator.correlate(EVENT, after(300)) is None
    other = EVENT._replace(regarding=msgspec.structs.replace(POD, name="q"))
    assert seen(correlator, other, 300).count == 1


def test_clock_that_goes_back_does_no_harm() -> None:
    correlator = Correlator()
    seen(correlator, EVENT, 1000)
    seen(correlator, EVENT, 0)
    assert correlator.correlate(EVENT, after(2000)) is not None


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(correlator_module, "CACHE_SIZE", 10)
    correlator = Correlator()
    first = seen(correlator, EVENT)
    for number in range(50):
        seen(correlator, EVENT._replace(regarding=msgspec.structs.replace(POD, name=f"pod-{number}")))
    assert seen(correlator, EVENT) is not first
    for memory in (correlator._similar, correlator._sightings, correlator._buckets):
        assert len(memory._entries) == 10


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 400)), max_size=100))
def test_few_objects_and_no_flood(steps: list[tuple[int, int]]) -> None:
    """However messages and times fall: at most ten event objects in ten minutes, and writes within the bucket."""
    correlator = Correlator()
    now = 0
    written = 0
    names: dict[object, int] = {}
    for message, pause in steps:
        now += pause
        sighting = correlator.correlate(EVENT._replace(message=str(message)), after(now))
        if sighting is not None:
            written += 1
            names[sighting.key] = now
        recent = [when for when in names.values() if now - when < 600]
        assert written <= BURST + now / 300
        assert len(recent) <= BURST
    if now <= 600:
        assert len(names) <= 10
