"""What the annotations of a pod say of its index."""

import pytest

from muster.api.batch import COMPLETION_INDEX
from muster.api.core import Pod
from muster.api.meta import ObjectMeta
from muster.jobs.job.census import NO_INDEX, completion_index


@pytest.mark.parametrize(
    ("text", "index"),
    [
        (None, NO_INDEX),
        ("", NO_INDEX),
        ("0", 0),
        ("17", 17),
        ("999999999", 999_999_999),
        ("1000000000", NO_INDEX),
        ("-1", NO_INDEX),
        ("1.5", NO_INDEX),
        (" 1", NO_INDEX),
        ("\u00b2", NO_INDEX),
        ("\u0661", NO_INDEX),
    ],
)
def test_an_index_is_a_plain_number_of_at_most_nine_digits(text: str | None, index: int) -> None:
    annotations = {} if text is None else {COMPLETION_INDEX: text}
    assert completion_index(Pod(metadata=ObjectMeta(name="p", annotations=annotations))) == index
