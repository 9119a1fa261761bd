"""JobSets through the API: what is filled in, who counts the changes, and upstream's definition beside the kind."""

from typing import Any

import pytest
from tests.documents import files
from tests.system.apiserver.harness import Api, api
from yaml import CSafeLoader, load

JOB_SETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"
POD = {"containers": [{"name": "c", "image": "i"}]}


def job_set(name: str = "s", **spec: Any) -> dict[str, Any]:
    workers = {"name": "workers", "template": {"spec": {"template": {"spec": POD}}}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name},
        "spec": {"replicatedJobs": [workers]} | spec,
    }


@api
async def test_what_is_filled_in(api: Api) -> None:
    rules = [{"action": "FailJobSet"}, {"name": "mine", "action": "RestartJob"}, {"action": "RestartJobSet"}]
    claims = [{"templates": []}, {"retentionPolicy": {"whenDeleted": "Retain"}}]
    made = await api.made(JOB_SETS, job_set(failurePolicy={"rules": rules}, volumeClaimPolicies=claims))
    template = {
        "spec": {"completionMode": "Indexed", "template": {"spec": POD | {"restartPolicy": "OnFailure"}}},
    }
    assert made["spec"] == {
        "replicatedJobs": [{"name": "workers", "groupName": "default", "replicas": 1, "template": template}],
        "successPolicy": {"operator": "All"},
        "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
        "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
        "failurePolicy": {
            "restartStrategy": "Recreate",
            "rules": [
                {"name": "failurePolicyRule0", "action": "FailJobSet"},
                {"name": "mine", "action": "RestartJob"},
                {"name": "failurePolicyRule2", "action": "RestartJobSet"},
            ],
        },
        "volumeClaimPolicies": [
            {"templates": [], "retentionPolicy": {"whenDeleted": "Delete"}},
            {"retentionPolicy": {"whenDeleted": "Retain"}},
        ],
    }
    assert made["status"] == {"restarts": 0}
    assert made["metadata"]["generation"] == 1


@api
async def test_what_was_said_is_kept(api: Api) -> None:
    spec: dict[str, Any] = {
        "replicatedJobs": [
            {
                "name": "a",
                "groupName": "g",
                "replicas": 0,
                "template": {
                    "spec": {
                        "completionMode": "NonIndexed",
                        "template": {"spec": POD | {"restartPolicy": "Never"}},
                    }
                },
            }
        ],
        "successPolicy": {"operator": "Any", "targetReplicatedJobs": ["a"]},
        "startupPolicy": {"startupPolicyOrder": "InOrder"},
        "network": {"enableDNSHostnames": False, "subdomain": "sub", "publishNotReadyAddresses": False},
        "failurePolicy": {"maxRestarts": 3, "restartStrategy": "BlockingRecreate"},
        "suspend": True,
        "ttlSecondsAfterFinished": 0,
        "groupSchedulingConfig": {"timeoutAfterSeconds": 300, "targetReplicatedJobs": ["a"]},
    }
    assert (await api.made(JOB_SETS, job_set(**spec)))["spec"] == spec


@api
async def test_the_generation_counts_changes_of_the_spec_alone(api: Api) -> None:
    await api.made(JOB_SETS, job_set())
    steps = (
        ("", {"metadata": {"labels": {"a": "b"}}}, 1),
        ("", {"spec": {"suspend": True}}, 2),
        ("/status", {"status": {"restarts": 3}, "spec": {"suspend": False}}, 2),
        ("", {"spec": {"ttlSecondsAfterFinished": 9}, "status": {"restarts": 0}}, 3),
    )
    for where, patch, generation in steps:
        answer = await api.merge(f"{JOB_SETS}/s{where}", patch)
        assert (answer.status, answer.json["metadata"]["generation"]) == (200, generation), patch
    stored = (await api.get(f"{JOB_SETS}/s")).json
    assert (stored["spec"]["suspend"], stored["status"]) == (True, {"restarts": 3})


@pytest.mark.parametrize("path", files("crds/jobset/*.yaml"), ids=lambda path: path.stem)
@api
async def test_upstreams_definition_beside_the_kind_stops_nothing(api: Api, path: Any) -> None:
    definition = load(path.read_text(), CSafeLoader)
    definitions = f"/apis/{definition['apiVersion']}/customresourcedefinitions"
    await api.made(JOB_SETS, job_set("before"))
    answer = await api.post(definitions, definition)
    assert answer.status == 201
    assert "serves jobsets.jobset.x-k8s.io by itself" in answer.headers["warning"]
    meanwhile = await api.made(JOB_SETS, job_set("meanwhile"))
    assert meanwhile["spec"]["network"]["enableDNSHostnames"] is True, "still ours"
    assert (await api.delete(f"{definitions}/{definition['metadata']['name']}")).status == 200
    await api.made(JOB_SETS, job_set("afterwards"))
    names = [item["metadata"]["name"] for item in (await api.get(JOB_SETS)).json["items"]]
    assert names == ["afterwards", "before", "meanwhile"]


CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
STORAGE = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def with_claim(when_deleted: str, **spec: Any) -> dict[str, Any]:
    document = job_set(
        volumeClaimPolicies=[
            {
                "templates": [{"metadata": {"name": "data"}, "spec": STORAGE | spec}],
                "retentionPolicy": {"whenDeleted": when_deleted},
            }
        ]
    )
    mounting = {"name": "c", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    template = document["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    return document | {"spec": document["spec"] | _role({"spec": template["spec"] | {"containers": [mounting]}})}


def _role(template: dict[str, Any]) -> dict[str, Any]:
    return {"replicatedJobs": [{"name": "workers", "template": {"spec": {"template": template}}}]}


@pytest.mark.parametrize(
    ("document", "refusals"),
    [
        (with_claim("Retain"), []),
        (
            with_claim("Delete"),
            ["spec.volumeClaimPolicies[0].retentionPolicy.whenDeleted: retentionPolicy must be retain when PVC exists"],
        ),
        (
            with_claim("Retain", accessModes=["ReadWriteMany"]),
            [
                (
                    "spec.volumeClaimPolicies[0].templates[0].spec: "
                    "spec does not match existing PVC data-s in namespace default"
                )
            ],
        ),
    ],
)
@api
async def test_a_claim_that_is_there(api: Api, document: Any, refusals: list[str]) -> None:
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data-s"}, "spec": STORAGE}
    await api.post(CLAIMS, claim)
    await api.merge(f"{CLAIMS}/data-s", {"spec": {"volumeName": "bound"}})
    answer = await api.post(JOB_SETS, document)
    causes = answer.json.get("details", {}).get("causes", [])
    assert [f"{cause['field']}: {cause['message'].rpartition(': ')[2]}" for cause in causes] == refusals
    assert answer.status == (422 if refusals else 201)


@api
async def test_a_rule_without_a_name_gets_one_though_the_definition_asks_for_it(api: Api) -> None:
    answer = await api.post(JOB_SETS, job_set(failurePolicy={"rules": [{"action": "FailJobSet", "name": ""}]}))
    assert answer.json["spec"]["failurePolicy"]["rules"][0]["name"] == "failurePolicyRule0"


@pytest.mark.parametrize(
    ("spec", "refusal"),
    [
        (
            {"groupSchedulingConfig": {"timeoutAfterSeconds": 0}},
            (
                "spec.groupSchedulingConfig.timeoutAfterSeconds: Invalid value: 0: spec.groupSchedulingConfig."
                "timeoutAfterSeconds in body should be greater than or equal to 1"
            ),
        ),
        (
            {"failurePolicy": {"rules": [{"action": "Give up"}]}},
            (
                'spec.failurePolicy.rules[0].action: Unsupported value: "Give up": supported values: "FailJobSet", '
                '"RestartJobSet", "RestartJobSetAndIgnoreMaxRestarts", "RestartJob", "RestartJobAndIgnoreMaxRestarts"'
            ),
        ),
        ({"successPolicy": {}}, "spec.successPolicy.operator: Required value"),
        ({"ttlSecondsAfterFinished": -1}, "spec.ttlSecondsAfterFinished: Invalid value: -1: "),
        ({"managedBy": "nobody"}, 'spec.managedBy: Invalid value: "nobody": must be a domain-prefixed path'),
    ],
)
@api
async def test_what_is_refused(api: Api, spec: Any, refusal: str) -> None:
    answer = await api.post(JOB_SETS, job_set(**spec))
    assert (answer.status, answer.json["reason"]) == (422, "Invalid")
    assert answer.json["message"].startswith(f'JobSet.jobset.x-k8s.io "s" is invalid: {refusal}')


@api
async def test_a_generated_name_is_short_enough_or_refused(api: Api) -> None:
    generated = {"generateName": "x" * 52, "name": ""}
    refused = await api.post(JOB_SETS, job_set() | {"metadata": generated})
    assert refused.status == 422
    assert "JobSet name is too long, job names generated for this JobSet will exceed 63" in refused.json["message"]
    made = await api.made(JOB_SETS, job_set() | {"metadata": {"generateName": "x" * 40}})
    assert len(made["metadata"]["name"]) == 45
