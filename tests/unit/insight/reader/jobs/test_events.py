"""What Events say about a job."""

import msgspec

from muster.api.core import Event
from muster.insight.reader.jobs.events import select_newest


def event(reason, **about):
    base = {"metadata": {"name": reason}, "reason": reason, "involvedObject": {"kind": "Job", "name": "j"}}
    return msgspec.convert(base | about, Event)


def at(second):
    return f"2026-01-01T00:00:{second:02}Z"


def test_the_newest_come_first_whichever_field_has_the_time():
    events = [
        event("First", firstTimestamp=at(1)),
        event("Series", eventTime=at(2), series={"count": 7, "lastObservedTime": at(9)}),
        event("Last", firstTimestamp=at(0), lastTimestamp=at(5), count=3, type="Warning"),
        event("Never"),
    ]
    told = select_newest(events)
    assert [one.reason for one in told] == ["Series", "Last", "First", "Never"]
    assert [one.count for one in told] == [7, 3, 1, 1]
    assert [one.is_warning for one in told] == [False, True, False, False]


def test_of_very_many_the_newest_are_returned():
    told = select_newest([event(f"e{second}", lastTimestamp=at(second % 60)) for second in range(300)])
    assert len(told) == 50
    assert told[0].about == "Job j"
