"""What the API server accepts can be done: the Jobs of a JobSet that keeps the rules keep those of Jobs."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from tests.documents import documents

from muster.api.batch import JOB, Job
from muster.api.defaults import DEFAULTS, default_job, generate_selector
from muster.api.jobset import JOB_SET
from muster.api.validation.jobs import job as rules
from muster.api.validation.jobset import validate_create
from muster.jobs.jobset.children import Children

CASES = Path(__file__).with_name("jobset.yaml")
# As JSON and back: what cases share with each other is several things then.
TABLE = json.loads(json.dumps(yaml.load(CASES.read_text(), yaml.CSafeLoader)))
ACCEPTED = [(case["name"], case["with"]) for case in TABLE["cases"] if "with" in case and not case["errors"]]
SAMPLES = [(name, document) for name, document in documents("manifests/*/*.yaml") if document.get("kind") == "JobSet"]
FEW = 3  # of the Jobs of each role, the first ones


def as_created(job: Job) -> Job:
    """The Job as the API server would store it."""
    document = msgspec.json.decode(JOB.encode(job))
    document["metadata"]["uid"] = "u"
    default_job(document)
    generate_selector(document, "u")
    return JOB.typed(document)


def refusals(document: dict[str, Any]) -> list[str]:
    metadata = document["metadata"]
    metadata |= {"uid": "0" * 36, "name": metadata.get("name", metadata.get("generateName", "") + "abcde")}
    metadata.setdefault("namespace", "default")
    DEFAULTS[JOB_SET.resource](document)
    job_set = JOB_SET.typed(document)
    assert validate_create(job_set) == []
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
