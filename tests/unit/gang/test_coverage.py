"""That what gang schedulers have to do is tested, by `cases/coverage.yaml`: every place that it names is a test.

A place is `FILE::TEXT`, and the text stands in a test of the file, in a list of its cases, or in what the file says of
all its tests; or `FILE`, all of whose tests are about it. What asserts nothing, or is always skipped, is no test.
"""

import ast
from functools import cache
from pathlib import Path

import pytest
import yaml

TESTS = Path(__file__).parents[2]
COVERAGE = yaml.load((Path(__file__).parent / "cases" / "coverage.yaml").read_text(), yaml.CBaseLoader)
ROWS = [(what, places) for section in COVERAGE.values() for what, places in section.items()]

_TEST = (ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def texts(file: str) -> tuple[str, ...]:
    """What stands in each test of a file, and in the lists of its cases."""
    source = (TESTS / file).read_text()
    module, lines = ast.parse(source), source.splitlines()
    lists = {
        target.id: ast.unparse(one.value)
        for one in module.body
        if isinstance(one, ast.Assign)
        for target in one.targets
        if isinstance(target, ast.Name)
    }
    parts = {one.name: ast.unparse(one) for one in ast.walk(module) if isinstance(one, _TEST)}
    asserting = ["assert ", "pytest.raises(", *(f"{name}(" for name, text in parts.items() if "assert " in text)]
    about, found = ast.get_docstring(module) or "", []
    for one in ast.walk(module):
        if isinstance(one, _TEST) and one.name.startswith("test_"):
            above = [ast.unparse(each) for each in one.decorator_list]
            first = min((each.lineno for each in one.decorator_list), default=one.lineno)
            text = "\n".join(lines[first - 1 : one.end_lineno])
            cases = [words for name, words in lists.items() if any(name in each for each in above)]
            if any(word in text for word in asserting) and not any(".skip(" in each for each in above):
                found.append("\n".join([about, text, *cases]))
    return tuple(found)


@pytest.mark.parametrize(("what", "places"), ROWS, ids=[what for what, _ in ROWS])
def test_covered(what: str, places: str | list[str]) -> None:
    for place in [places] if isinstance(places, str) else places:
        if not place.startswith("no test: "):
            file, _, name = place.partition("::")
            assert any(name in text for text in texts(file)), f"{what}: {place}"


def test_nothing_is_left_out() -> None:
    assert list(COVERAGE["kep"]) == [f"3.{row}" for row in range(1, 33)]
    assert list(COVERAGE["pitfalls"]) == [str(number) for number in range(1, 36)]
