"""What the API server accepts can be done: the Jobs of a JobSet that keeps the rules keep those of Jobs."""

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.documents import documents

from muster.api.batch import JOB, Job
from muster.api.defaults import DEFAULTS, default_job, generate_selector
from muster.api.jobset import JOB_SET
from muster.api.kinds import without_nulls
from muster.api.validation.jobs import job as rules
from muster.api.validation.jobset import validate_create
from muster.cluster.apiserver.schema import compile_structural
from muster.jobs.jobset.children import Children

CASES = Path(__file__).with_name("jobset.yaml")
# As JSON and back: what cases share with each other is several things then.
TABLE = json.loads(json.dumps(yaml.load(CASES.read_text(), yaml.CSafeLoader)))
ACCEPTED = [(case["name"], case["with"]) for case in TABLE["cases"] if "with" in case and not case["errors"]]
SAMPLES = [(name, document) for name, document in documents("manifests/*/*.yaml") if document.get("kind") == "JobSet"]
GOOD = [document for _, document in SAMPLES] or [TABLE["base"]]
CHECK = compile_structural(JOB_SET)
FEW = 3  # of the Jobs of each role, the first ones


def as_created(job: Job) -> Job:
    """The Job as the API server would store it."""
    document = msgspec.json.decode(JOB.encode(job))
    document["metadata"]["uid"] = "u"
    default_job(document)
    generate_selector(document, "u")
    return JOB.typed(document)


def refusals(document: dict[str, Any], *, must_be: bool = True) -> list[str]:
    """What is wrong with the Jobs of a JobSet that is accepted, as it must be."""
    metadata = document["metadata"]
    metadata |= {"uid": "0" * 36, "name": metadata.get("name", metadata.get("generateName", "") + "abcde")}
    metadata.setdefault("namespace", "default")
    DEFAULTS[JOB_SET.resource](document)
    job_set = JOB_SET.typed(document)
    refused = validate_create(job_set)
    if refused and not must_be:
        return []
    assert refused == []
    children = Children(job_set)
    made = [
        children.job(role, index)
        for role in job_set.spec.replicated_jobs
        for index in {*range(min(FEW, role.replicas)), *range(max(0, role.replicas - 1), role.replicas)}
    ]
    return [str(error) for job in made for error in rules.validate_create(as_created(job))]


@pytest.mark.parametrize(("name", "edits"), ACCEPTED, ids=[name for name, _ in ACCEPTED])
def test_cases(name: str, edits: Any, edit: Any) -> None:
    assert refusals(edit(TABLE["base"], edits)) == []


@pytest.mark.parametrize(("name", "document"), SAMPLES, ids=[name for name, _ in SAMPLES])
def test_samples(name: str, document: Any) -> None:
    assert refusals(document) == []


ODD: list[Any] = [0, 1, -1, 2**31 - 1, "", "a", "A_b", "x" * 70, "1Gi", True, {}, [], ["a", "a"], {"a": "b"}]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all that is in a document."""
    if path:
        yield path
    if isinstance(value, dict | list):
        for key, member in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(member, (*path, key))


@given(st.data())
def test_whatever_is_made_of_a_good_one(data: st.DataObject) -> None:
    document = deepcopy(data.draw(st.sampled_from([{"metadata": {"name": "js"}, "spec": one["spec"]} for one in GOOD])))
    *path, last = data.draw(st.sampled_from(list(places(document["spec"]))))
    parent = document["spec"]
    for key in path:
        parent = parent[key]
    if data.draw(st.booleans()):
        parent[last] = data.draw(st.sampled_from(ODD))
    else:
        del parent[last]
    found = CHECK(document)
    if not found.errors:
        assert refusals(without_nulls(found.value), must_be=False) == []
