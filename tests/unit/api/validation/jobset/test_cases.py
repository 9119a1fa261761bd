"""Every rule of JobSets, as cases: a JobSet or a change of one, and all that is said about it.

A case edits the base (`with`); `old` and `new` are a change, the second on top of the first. A sentence that ends with
`*` may go on. The situations are those of upstream's tests of its webhook, and ours; numbers are those of pitfalls and
of the checklist of KEP-498.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.api.jobset import JOB_SET
from muster.api.validation.jobset import validate_create, validate_update
from muster.cluster.apiserver.schema import compile_structural

# As JSON and back: what cases share with each other, and replicated jobs among themselves, is several things then.
TABLE = json.loads(json.dumps(yaml.load(Path(__file__).with_name("jobset.yaml").read_text(), yaml.CSafeLoader)))

SCHEMA = compile_structural(JOB_SET)

CASES = [pytest.param(case, id=case["name"]) for case in TABLE["cases"]]


def documents(case: Any, edit: Any) -> list[Any]:
    """The JobSet of a case, or the old one and the new one."""
    found = [edit(TABLE["base"], case.get("with", case.get("old")))]
    if "new" in case:
        found.append(edit(found[0], case["new"]))
    return found


@pytest.mark.parametrize("case", CASES)
def test_what_is_said(case: Any, edit: Any, defaulted: Any, sentences: Any) -> None:
    found = [defaulted(JOB_SET, document) for document in documents(case, edit)]
    said = sentences(validate_create(found[0]) if len(found) == 1 else validate_update(found[1], found[0]))
    if len(said) == len(case["errors"]):  # where less is expected (`...*`), no more is looked at
        said = [s[: len(e) - 1] + "*" if e.endswith("*") else s for s, e in zip(said, case["errors"], strict=True)]
    assert said == case["errors"]


@pytest.mark.parametrize("case", CASES)
def test_the_schema_has_no_say_in_it(case: Any, edit: Any) -> None:
    """What the schema refuses would never get to the rules."""
    for document in documents(case, edit):
        found = SCHEMA(document)
        assert (found.errors, found.unknown) == ((), ())


def test_names_are_unique() -> None:
    names = [case["name"] for case in TABLE["cases"]]
    assert len(names) == len(set(names))
