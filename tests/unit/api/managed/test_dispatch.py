"""What is stored of a workload that runs in another cluster."""

import msgspec
import pytest
from msgspec.structs import replace

from muster.api.kueue import PodSet, Workload, WorkloadSpec
from muster.api.managed.dispatch import REFUSED_ANNOTATION, Refusal, refusal_of
from muster.api.meta import ObjectMeta


def sized(*counts: int, **annotations: str) -> Workload:
    podsets = tuple(PodSet(name=f"p{i}", count=count) for i, count in enumerate(counts))
    return Workload(metadata=ObjectMeta(name="w", annotations=annotations), spec=WorkloadSpec(pod_sets=podsets))


def refused(*counts: int) -> Workload:
    """One that was refused the size that it asks for."""
    given = sized(*counts)
    return replace(given, metadata=replace(given.metadata, annotations=Refusal.of(given, "No!").make_annotation()))


def test_a_refusal_is_that_of_the_size_that_is_asked_for() -> None:
    assert refusal_of(refused(3, 1)) == Refusal((3, 1), "No!")
    assert refusal_of(replace(refused(3, 1), spec=sized(3, 2).spec)) is None
    assert refusal_of(sized(3, 1)) is None


@pytest.mark.parametrize("text", ["", "null", "3", "{}", "[", '{"sizes": [3.5], "said": ""}', '{"sizes": [3]}', "[]"])
def test_what_another_wrote_there_is_no_refusal(text: str) -> None:
    assert refusal_of(sized(3, **{REFUSED_ANNOTATION: text})) is None


def test_it_is_written_as_json() -> None:
    (text,) = Refusal.of(sized(3), "No!").make_annotation().values()
    assert msgspec.json.decode(text) == {"sizes": [3], "said": "No!"}
