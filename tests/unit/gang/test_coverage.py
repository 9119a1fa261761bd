"""That what gang schedulers have to do is tested, by `cases/coverage.yaml`: every place that it names is there."""

from functools import cache
from pathlib import Path

import pytest
import yaml

TESTS = Path(__file__).parents[2]
COVERAGE = yaml.load((Path(__file__).parent / "cases" / "coverage.yaml").read_text(), yaml.BaseLoader)
ROWS = [(what, places) for section in COVERAGE.values() for what, places in section.items()]


@cache
def text(file: str) -> str:
    return (TESTS / file).read_text()


@pytest.mark.parametrize(("what", "places"), ROWS, ids=[what for what, _ in ROWS])
def test_covered(what: str, places: str | list[str]) -> None:
    for place in [places] if isinstance(places, str) else places:
        if not place.startswith("no test: "):
            file, _, name = place.partition("::")
            assert name in text(file), f"{what}: {place}"


def test_nothing_is_left_out() -> None:
    assert list(COVERAGE["kep"]) == [f"3.{row}" for row in range(1, 33)]
    assert list(COVERAGE["pitfalls"]) == [str(number) for number in range(1, 36)]
