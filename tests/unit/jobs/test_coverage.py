"""That what is known of a Job's behaviour is tested, by `cases/coverage.yaml`: every place that it names is there."""

from functools import cache
from pathlib import Path

import pytest
import yaml

CASES = Path(__file__).parent / "cases"
TESTS = Path(__file__).parents[2]
COVERAGE = yaml.load((CASES / "coverage.yaml").read_text(), yaml.CSafeLoader)
SITUATIONS = [(what, places) for section in COVERAGE.values() for what, places in section.items()]


@cache
def text(file: str) -> str:
    """Of a test file, or the names of the cases in a data file."""
    if file.endswith(".py"):
        return (TESTS / file).read_text()
    return "".join(f"{case['name']}\n" for case in yaml.load((CASES / f"{file}.yaml").read_text(), yaml.CSafeLoader))


@pytest.mark.parametrize(("what", "places"), SITUATIONS, ids=[str(what) for what, _ in SITUATIONS])
def test_covered(what: str | int, places: str | list[str]) -> None:
    for place in [places] if isinstance(places, str) else places:
        if place.startswith("no test: "):
            continue
        file, _, name = place.partition("::")
        found = text(file)
        if name:
            assert name in found, place
        elif not file.endswith(".py"):
            assert str(what) in found.replace(",", " ").split(), f"no case of {file} is named {what}"


def test_nothing_is_left_out() -> None:
    assert list(COVERAGE["elastic"]) == [f"E{number}" for number in range(1, 55)]
    assert list(COVERAGE["pitfalls"]) == list(range(1, 23))
    assert (len(COVERAGE["golden"]), len(COVERAGE["sync"])) == (4, 60)
