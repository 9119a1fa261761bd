"""What the writer of an elastic job is told about its sizes."""

from typing import Any

import pytest
from tests.system.apiserver.harness import JOBS, Api, api

from muster.actions.warnings import parse_warnings

ANNOTATION = "metadata.annotations[muster.dev/elastic]"


def job(bounds: str) -> dict[str, Any]:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "annotations": {"muster.dev/elastic": bounds}},
        "spec": {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "template": {"spec": pod}},
    }


@pytest.mark.parametrize(
    ("bounds", "warning"),
    [
        ("2:8", ""),
        ("8:2", f"{ANNOTATION}: '8:2': MIN must be at least 1 and at most MAX; until then the job keeps its size"),
        ("many", f"{ANNOTATION}: 'many' is not MIN:MAX, such as 2:8; until then the job keeps its size"),
    ],
)
@api
async def test_bounds_that_mean_nothing_are_warned_of_once(api: Api, bounds: str, warning: str) -> None:
    answer = await api.post(JOBS, job(bounds))
    assert answer.status == 201
    assert list(parse_warnings(answer.headers.get("warning", ""))) == ([warning] if warning else [])
    later = await api.merge(f"{JOBS}/j", {"metadata": {"labels": {"a": "b"}}})
    assert "warning" not in later.headers
