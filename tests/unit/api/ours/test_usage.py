import pytest

from muster.api.ours.usage import Usage, usage_of


def test_an_annotation_says_what_was_used() -> None:
    used = Usage(1.25, 10 << 20)
    assert usage_of(str(used)) == used
    assert str(used) == "cpu=1.250,memory=10485760"


def test_it_says_what_was_used_of_gpus_if_anything_was() -> None:
    used = Usage(1.25, 5, 2.5, 1 << 30)
    assert usage_of(str(used)) == used
    assert used + Usage(0.0, 0, 1.0, 5) == Usage(1.25, 5, 3.5, 1 << 30)


@pytest.mark.parametrize(
    "text", ["", "cpu=1", "memory=3,cpu=1", "cpu=-1,memory=3", "cpu=1e9,memory=3", "cpu=nan,memory=0", "cpu=٣,memory=3"]
)
def test_what_says_nothing_of_the_kind_is_nothing(text: str) -> None:
    assert usage_of(text) is None


def test_times_add_up_and_the_greater_memory_stays() -> None:
    assert Usage(1.0, 5) + Usage(2.5, 3) == Usage(3.5, 5)
