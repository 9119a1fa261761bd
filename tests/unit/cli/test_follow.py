"""Where a log was left off."""

from hypothesis import given
from hypothesis import strategies as st

from muster.cli.follow import _Place

STAMPS = st.lists(st.sampled_from([b"1", b"2", b"3"]), max_size=12).map(sorted)


@given(STAMPS, st.lists(st.integers(0, 12), max_size=4))
def test_every_line_is_shown_once_however_often_the_stream_breaks(stamps, breaks):
    """The log is read from its beginning each time, up to a break, and once to its end."""
    place, shown = _Place(), []
    for end in [*breaks, len(stamps)]:
        place = place.again()
        shown += [number for number, stamp in enumerate(stamps[:end]) if place.is_new(stamp)]
    assert shown == list(range(len(stamps)))
