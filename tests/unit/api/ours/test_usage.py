import pytest

from muster.api.ours.usage import Usage, usage_of


def test_an_annotation_says_what_was_used() -> None:
    used = Usage(1.25, 10 << 20)
    assert usage_of(str(used)) == used


@pytest.mark.parametrize(
    "text", ["", "cpu=1", "memory=3,cpu=1", "cpu=-1,memory=3", "cpu=1e9,memory=3", "cpu=nan,memory=0", "cpu=٣,memory=3"]
)
def test_what_says_nothing_of_the_kind_is_nothing(text: str) -> None:
    assert usage_of(text) is None


def test_times_add_up_and_the_greater_memory_stays() -> None:
    assert Usage(1.0, 5) + Usage(2.5, 3) == Usage(3.5, 5)
