"""What is asked of a worker so that nothing of a workload is left there."""

import asyncio
from typing import Any

import msgspec
import pytest
from tests.unit.multicluster.scripts import answer, asked, refusal

from muster.api.batch import JOB, Job
from muster.api.core import POD, Pod
from muster.api.kueue import Workload
from muster.multicluster.removal import remove
from muster.runtime.transport import Response

GOING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
GONE, OTHER = refusal(404, "NotFound", name="j"), refusal(409, "Conflict", name="j")
HELD = {"finalizers": ["kueue.x-k8s.io/resource-in-use"]}


def job(**meta: Any) -> Job:
    document = {"metadata": {"name": "j", "namespace": "ns", "uid": "1"} | meta, "spec": {"template": {}}}
    return msgspec.convert(document, Job)


def pod(phase: str, **meta: Any) -> Pod:
    document = {"metadata": {"name": "p", "namespace": "ns", "uid": "2"} | meta, "status": {"phase": phase}}
    return msgspec.convert(document, Pod)


def clone(**meta: Any) -> Workload:
    return msgspec.convert({"metadata": {"name": "w", "namespace": "ns", "resourceVersion": "1"} | meta}, Workload)


FREED = answer({"metadata": {"name": "w", "namespace": "ns", "resourceVersion": "2"}})


@pytest.mark.parametrize(
    ("jobs", "left", "script", "requests", "is_last"),
    [
        pytest.param([], None, [], [], True, id="nothing is left"),
        pytest.param([(JOB, job())], clone(), [answer()], ["DELETE j"], False, id="its job goes before its clone"),
        pytest.param([(JOB, job())], clone(), [GONE], ["DELETE j"], False, id="its job has gone meanwhile"),
        pytest.param([(JOB, job())], clone(), [OTHER], ["DELETE j"], False, id="another job has its name by now"),
        pytest.param([(JOB, job(**GOING))], clone(), [], [], False, id="its job is going"),
        pytest.param([], clone(), [answer()], ["DELETE w"], True, id="its clone alone"),
        pytest.param([], clone(), [GONE], ["DELETE w"], True, id="its clone has gone meanwhile"),
        pytest.param([], clone(**HELD), [FREED, answer()], ["PATCH w", "DELETE w"], True, id="its clone is held"),
        pytest.param(
            [(POD, pod("Failed", **GOING))],
            clone(),
            [answer()],
            ["DELETE w"],
            True,
            id="a pod that its group remembers",
        ),
        pytest.param([(POD, pod("Running"))], clone(), [answer()], ["DELETE p"], False, id="a pod that runs"),
    ],
)
def test_what_is_removed(
    jobs: list[Any], left: Workload | None, script: list[Response], requests: list[str], is_last: bool
) -> None:
    outcome, lines, bodies = asyncio.run(asked(lambda client: remove(client, jobs, left), *script))
    assert (outcome, lines) == (is_last, requests)
    for line, body in zip(lines, bodies, strict=True):
        if line in ("DELETE j", "DELETE p"):  # that very one, and its pods before it
            assert (body["preconditions"]["uid"], body["propagationPolicy"]) == (jobs[0][1].metadata.uid, "Foreground")
        elif line == "PATCH w":
            assert body["metadata"]["finalizers"] is None
