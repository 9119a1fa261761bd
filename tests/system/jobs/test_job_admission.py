"""What the API server says to Jobs and to changes of them: `tests/unit/jobs/cases/admission.yaml`, whole messages."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.system.apiserver.harness import JOBS, Api, api, job
from tests.system.jobs.job_cluster import NAMESPACE_NAME, JobCluster

from muster.api.batch import JOB
from muster.api.status import ApiError
from muster.runtime.clock import run_virtual

FILE = Path(__file__).parents[2] / "unit" / "jobs" / "cases" / "admission.yaml"
CASES = yaml.load(FILE.read_text(), yaml.CSafeLoader)
THREE: dict[str, Any] = {"completionMode": "Indexed", "completions": 3, "parallelism": 3}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
@api
async def test_changes_of_elastic_indexed_jobs(api: Api, case: dict[str, Any]) -> None:
    name = case.get("job", "j")
    await api.made(JOBS, job(name, **THREE | case.get("spec", {})))
    if "status" in case:
        answer = await api.merge(f"{JOBS}/{name}/status", {"status": case["status"]})
        assert answer.status == 200, answer.message
    before = (await api.get(f"{JOBS}/{name}")).json
    answer = await api.merge(f"{JOBS}/{name}", {"spec": case["change"]})
    after = (await api.get(f"{JOBS}/{name}")).json
    refused = case.get("refused", [])
    if not refused:
        assert answer.status == 200, answer.message
        wanted = {key: value for key, value in (before["spec"] | case["change"]).items() if value is not None}
        assert after["spec"] == wanted
        assert after["metadata"]["generation"] == 1 + (wanted != before["spec"])
        assert after["status"] == before["status"]
        return
    shown = refused[0] if len(refused) == 1 else f"[{', '.join(refused)}]"
    assert answer.message == f'Job.batch "{name}" is invalid: {shown}'
    assert (answer.status, answer.json["reason"]) == (422, "Invalid")
    details = answer.json["details"]
    assert (details["name"], details["group"], details["kind"]) == (name, "batch", "Job")
    assert [f"{cause['field']}: {cause['message']}" for cause in details["causes"]] == refused
    assert after == before


@api
async def test_e15_a_stale_change_changes_nothing(api: Api) -> None:
    """A PUT that names the version it was made from; one that names none, and a patch, are unconditional."""
    first = await api.made(JOBS, job(**THREE))
    second = (await api.merge(f"{JOBS}/j", {"spec": {"completions": 4, "parallelism": 4}})).json
    first["spec"] |= {"completions": 9, "parallelism": 9}
    stale = await api.put(f"{JOBS}/j", first)
    assert (stale.status, stale.json["reason"]) == (409, "Conflict")
    version = {"metadata": {"resourceVersion": first["metadata"]["resourceVersion"]}}
    stale = await api.merge(f"{JOBS}/j", version | {"spec": {"completions": 9, "parallelism": 9}})
    assert (stale.status, stale.json["reason"]) == (409, "Conflict")
    assert (await api.get(f"{JOBS}/j")).json == second
    del first["metadata"]["resourceVersion"]
    answer = await api.put(f"{JOBS}/j", first)
    assert (answer.status, answer.json["spec"]["completions"]) == (200, 9)


@api
async def test_e15_of_changes_made_from_the_same_version_one_wins(api: Api) -> None:
    made = await api.made(JOBS, job(**THREE))
    bodies = [made | {"spec": made["spec"] | {"completions": size, "parallelism": size}} for size in range(4, 14)]
    answers = await asyncio.gather(*(api.put(f"{JOBS}/j", body) for body in bodies))
    assert sorted(answer.status for answer in answers) == [200] + [409] * 9
    [won] = [answer.json["spec"] for answer in answers if answer.status == 200]
    assert (await api.get(f"{JOBS}/j")).json["spec"] == won


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"parallelism": 3}, {"parallelism": 3, "completions": None}),
        ({"parallelism": 0}, {"parallelism": 0, "completions": None}),
        ({}, {"parallelism": 1, "completions": 1}),
        ({"completions": 0, "parallelism": 0, "backoffLimit": 0, "ttlSecondsAfterFinished": 0},
         {"completions": 0, "parallelism": 0, "backoffLimit": 0, "ttlSecondsAfterFinished": 0}),
        ({"completions": 5, "backoffLimit": None}, {"completions": 5, "parallelism": 1, "backoffLimit": 6}),
    ],
)  # fmt: skip
@api
async def test_pitfalls_2_and_3_nothing_is_not_zero(api: Api, given: dict[str, Any], expected: dict[str, Any]) -> None:
    """A work queue has no completions, and no default makes some; a 0 that was given stays one."""
    made = await api.made(JOBS, job(**given))
    assert {name: made["spec"].get(name) for name in expected} == expected


NODE_AFFINITY = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [
    {"key": "zone", "operator": "Exists"}]}]}}  # fmt: skip
POD_AFFINITY = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}
IMMUTABLE = "spec.template: Invalid value"


@pytest.mark.parametrize(
    ("status", "change", "refused"),
    [
        ({"active": 0}, {"nodeSelector": {"a": "b"}}, ""),
        ({"active": 1}, {"nodeSelector": {"a": "b"}}, IMMUTABLE),
        ({"active": 0, "conditions": []}, {"nodeSelector": {"a": "b"}}, IMMUTABLE),
        ({"active": 0}, {"affinity": {"nodeAffinity": NODE_AFFINITY}}, ""),
        ({"active": 0}, {"affinity": {"nodeAffinity": NODE_AFFINITY, "podAffinity": POD_AFFINITY}}, IMMUTABLE),
    ],
    ids=["no pods", "pods", "nothing said of its pods", "affinity to nodes", "affinity to pods"],
)
@api
async def test_pitfalls_4_and_5_what_may_change_while_a_job_is_suspended(
    api: Api, status: dict[str, Any], change: dict[str, Any], refused: str
) -> None:
    """After it ran, in the request that resumes it: that the old one was suspended counts, and has no pods left."""
    await api.made(JOBS, job(suspend=True))
    suspended = {"type": "Suspended", "status": "True"}
    status = {"startTime": "2026-01-01T00:00:00Z", "conditions": [suspended]} | status
    assert (await api.merge(f"{JOBS}/j/status", {"status": status})).status == 200
    answer = await api.merge(f"{JOBS}/j", {"spec": {"suspend": False, "template": {"spec": change}}})
    if refused:
        assert (answer.status, refused in answer.message) == (422, True), answer.message
        return
    assert answer.status == 200, answer.message
    assert (await api.merge(f"{JOBS}/j", {"spec": {"template": {"spec": {"nodeSelector": {"c": "d"}}}}})).status == 422


@api
async def test_pitfall_9_a_success_policy_without_completions(api: Api) -> None:
    policy = {"rules": [{"succeededCount": 1}]}
    answer = await api.post(JOBS, job(completionMode="Indexed", parallelism=2, successPolicy=policy))
    expected = "spec.completions: Required value: when completion mode is Indexed"
    assert (answer.status, answer.message) == (422, f'Job.batch "j" is invalid: {expected}')


@pytest.mark.parametrize(("propagation", "left"), [(None, 3), ("Orphan", 3), ("Background", 0), ("Foreground", 0)])
def test_pitfall_8_a_job_that_is_deleted_without_a_word_leaves_its_pods(propagation: Any, left: int) -> None:
    async def scenario() -> None:
        async with JobCluster(collector=True) as cluster:
            await cluster.create(THREE)
            await cluster.bind_all()
            await cluster.client.delete(JOB, "job", NAMESPACE_NAME, propagation=propagation)
            for _ in range(3):
                await cluster.rest()
                await cluster.end_deleted()
            with pytest.raises(ApiError, match="not found"):
                await cluster.job()
            pods = await cluster.pods()
            assert [(pod.metadata.owner_references, pod.metadata.finalizers) for pod in pods] == [((), ())] * left

    run_virtual(scenario())
