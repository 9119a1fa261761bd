"""Every rule of the Kueue kinds, as cases: an object or a change of one, and all that is said about it.

A case edits the base of its group (`with`); `old` and `new` are a change, the second on top of the first, and
`status: true` one of the status. A sentence that ends with `*` may go on. The situations are those of upstream's
tests of its webhooks and CRDs, and ours.
"""

import copy
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.api.kinds import Kind
from muster.api.kueue import KUEUE_KINDS
from muster.api.validation.kueue import VALIDATIONS
from muster.cluster.apiserver.schema import compile_structural

schema = cache(compile_structural)

KINDS = {kind.plural: kind for kind in KUEUE_KINDS}


def cases() -> Iterator[Any]:
    for path in sorted(Path(__file__).parent.glob("*.yaml")):
        for group in yaml.load(path.read_text(), yaml.CSafeLoader)["groups"]:
            for case in group["cases"]:
                kind = KINDS[group["kind"]]
                yield pytest.param(kind, group["base"], case, id=f"{kind.kind}: {case['name']}")


CASES = list(cases())


def shortened(said: list[str], expected: list[str]) -> list[str]:
    """What is said; where less is expected (`...*`), no more of it."""
    if len(said) != len(expected):
        return said
    return [s[: len(e) - 1] + "*" if e.endswith("*") else s for s, e in zip(said, expected, strict=True)]


@pytest.fixture
def documents(edit: Any) -> Any:
    """The object of a case, or the old one and the new one."""

    def read(base: Any, case: Any) -> list[Any]:
        case = copy.deepcopy(case)  # cases share parts of each other
        if "with" in case:
            return [edit(base, case["with"])]
        old = edit(base, case["old"])
        return [old, edit(old, case["new"])]

    return read


@pytest.mark.parametrize(("kind", "base", "case"), CASES)
def test_what_is_said(kind: Kind[Any], base: Any, case: Any, documents: Any, defaulted: Any, sentences: Any) -> None:
    found = [defaulted(kind, document) for document in documents(base, case)]
    rules = VALIDATIONS[kind.resource]
    if len(found) == 1:
        errors = rules.create(found[0])
    else:
        old, new = found
        errors = (rules.status if case.get("status") else rules.update)(new, old)
    assert shortened(sentences(errors), case["errors"]) == case["errors"]


@pytest.mark.parametrize(("kind", "base", "case"), CASES)
def test_the_schema_has_no_say_in_it(kind: Kind[Any], base: Any, case: Any, documents: Any) -> None:
    """What the schema refuses would never get to the rules."""
    for document in documents(base, case):
        found = schema(kind, status=bool(case.get("status")))(document)
        assert (found.errors, found.unknown) == ((), ())
