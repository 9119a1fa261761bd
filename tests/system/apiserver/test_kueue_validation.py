"""The rules of the Kueue kinds through requests: 422 with every broken rule as a cause, or what a webhook would say."""

import pytest
from tests.system.apiserver.harness import api

NEW, OLD = "/apis/kueue.x-k8s.io/v1beta2", "/apis/kueue.x-k8s.io/v1beta1"
WORKLOADS = f"{NEW}/namespaces/default/workloads"
RESERVED = {
    "type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}  # fmt: skip


def thing(kind, spec, version="v1beta2", **metadata):
    head = {"apiVersion": f"kueue.x-k8s.io/{version}", "kind": kind, "metadata": {"name": "x", **metadata}}
    return head | {"spec": spec}


def groups(**quota):
    flavor = {"name": "f", "resources": [{"name": "cpu", "nominalQuota": 5, **quota}]}
    return [{"coveredResources": ["cpu"], "flavors": [flavor]}]


def workload(count=3, **metadata):
    template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
    return thing("Workload", {"podSets": [{"template": template, "count": count}]}, **metadata)


def admission(count=3, flavor="f"):
    got = {"name": "main", "count": count, "flavors": {"cpu": flavor}, "resourceUsage": {"cpu": count}}
    return {"conditions": [RESERVED], "admission": {"clusterQueue": "q", "podSetAssignments": [got]}}


BORROWING = ["spec", 'Invalid value: "object": borrowingLimit must be nil when cohort is empty']
LENDING = "spec.resourceGroups[0].flavors[0].resources[0].lendingLimit"
NEW_OBJECTS = [
    ("clusterqueues", thing("ClusterQueue", {"resourceGroups": groups(borrowingLimit=1)}), [BORROWING]),
    ("clusterqueues", thing("ClusterQueue", {"resourceGroups": groups(borrowingLimit=1)}, "v1beta1"), [BORROWING]),
    ("resourceflavors", thing("ResourceFlavor", {"topologyName": "t"}),
     [["spec", 'Invalid value: "object": at least one nodeLabel is required when topology is set']]),
    ("topologies", thing("Topology", {"levels": [{"nodeLabel": "a"}, {"nodeLabel": "a"}]}),
     [["spec.levels", 'Invalid value: "array": must be unique']]),
    ("multikueueclusters", thing("MultiKueueCluster", {"clusterSource": {}}),
     [["spec.clusterSource",
       'Invalid value: "object": exactly one of the fields in [kubeConfig clusterProfileRef] must be set']]),
]  # fmt: skip


def causes(answer):
    return [[cause["field"], cause["message"]] for cause in answer.json["details"]["causes"]]


@pytest.mark.parametrize(("path", "body", "expected"), NEW_OBJECTS)
@api
async def test_a_new_object_is_refused(api, path, body, expected):
    where = f"/apis/{body['apiVersion']}/{path}"
    answer = await api.post(where, body)
    assert (answer.status, answer.json["reason"], causes(answer)) == (422, "Invalid", expected)
    assert answer.message.startswith(f'{body["kind"]}.kueue.x-k8s.io "x" is invalid: ')
    assert all(f"{field}: {sentence}" in answer.message for field, sentence in expected)
    assert (await api.get(f"{where}/x")).status == 404


OF_WEBHOOKS = [
    ("clusterqueues", thing("ClusterQueue", {"resourceGroups": groups(lendingLimit=9)}),
     [[LENDING, 'Invalid value: "9": must be nil when cohort is empty'],
      [LENDING, 'Invalid value: "9": must be less than or equal to the nominalQuota']]),
    ("cohorts", thing("Cohort", {"fairSharing": {"weight": -1}}),
     [["spec.fairSharing", 'Invalid value: "-1": must be greater than or equal to 0']]),
    ("resourceflavors", thing("ResourceFlavor", {}, annotations={"muster.dev/wait-for-pods-ready": "timeout=1"}),
     [["metadata.annotations[muster.dev/wait-for-pods-ready]",
       'Invalid value: "timeout=1": timeout: time: missing unit in duration "1"']]),
    ("namespaces/default/workloads", workload(annotations={"kueue.x-k8s.io/admission-gated-by": "a"}),
     [["metadata.annotations[kueue.x-k8s.io/admission-gated-by]",
       'Invalid value: "a": must be a domain-prefixed path (such as "acme.io/foo")']]),
]  # fmt: skip


@pytest.mark.parametrize(("path", "body", "expected"), OF_WEBHOOKS)
@api
async def test_a_new_object_is_refused_as_a_webhook_of_kueues_refuses_it(api, path, body, expected):
    where = f"/apis/{body['apiVersion']}/{path}"
    answer = await api.post(where, body)
    sentences = [f"{field}: {sentence}" for field, sentence in expected]
    text = sentences[0] if len(sentences) == 1 else f"[{', '.join(sentences)}]"
    assert (answer.status, answer.json["reason"]) == (403, "Forbidden")
    assert answer.message == f'admission webhook "v{body["kind"].lower()}.kb.io" denied the request: {text}'
    assert (await api.get(f"{where}/x")).status == 404


CHANGES = [
    ("namespaces/default/localqueues", thing("LocalQueue", {"clusterQueue": "q"}), {"clusterQueue": "other"},
     ["spec.clusterQueue", 'Invalid value: "other": field is immutable']),
    ("admissionchecks", thing("AdmissionCheck", {"controllerName": "c"}), {"controllerName": "d"},
     ["spec.controllerName", 'Invalid value: "d": field is immutable']),
    ("clusterqueues", thing("ClusterQueue", {"cohortName": "c", "resourceGroups": groups(borrowingLimit=1)}),
     {"cohortName": None}, BORROWING),
]  # fmt: skip


@pytest.mark.parametrize(("path", "body", "spec", "expected"), CHANGES)
@api
async def test_a_change_is_refused(api, path, body, spec, expected):
    made = await api.made(f"{NEW}/{path}", body)
    answer = await api.merge(f"{NEW}/{path}/x", {"spec": spec})
    assert (answer.status, causes(answer)) == (422, [expected])
    assert (await api.get(f"{NEW}/{path}/x")).json == made


@api
async def test_what_holds_quota_keeps_what_it_got(api):
    await api.made(WORKLOADS, workload())
    refused = await api.merge(f"{WORKLOADS}/x/status", {"status": {"conditions": [RESERVED]}})
    sentence = "Required value: must be set while the QuotaReserved condition is true"
    denied = 'admission webhook "vworkload.kb.io" denied the request: status.admission: '
    assert (refused.status, refused.message) == (403, denied + sentence)
    assert (await api.merge(f"{WORKLOADS}/x/status", {"status": admission()})).status == 200
    for path, status, patch, said in (
        ("x", 422, {"spec": {"queueName": "other"}}, "queueName is immutable while workload quota reserved"),
        ("x/status", 403, {"status": admission(flavor="g")}, "status.admission: "),
        (
            "x/status",
            403,
            {"status": {"reclaimablePods": [{"name": "main", "count": 4}]}},
            "status.reclaimablePods[main].count: ",
        ),
    ):
        refused = await api.merge(f"{WORKLOADS}/{path}", patch)
        assert (refused.status, said in refused.message) == (status, True), refused.body
    given_back = {"status": {"conditions": [RESERVED | {"status": "False"}], "admission": None}}
    assert (await api.merge(f"{WORKLOADS}/x/status", given_back)).status == 200
    assert (await api.merge(f"{WORKLOADS}/x", {"spec": {"queueName": "other"}})).status == 200


@pytest.mark.parametrize("annotation", [{"kueue.x-k8s.io/elastic-job": "true"}, {"muster.dev/elastic": "1:9"}, {}])
@api
async def test_only_what_is_elastic_grows_with_its_quota(api, annotation):
    made = await api.made(WORKLOADS, workload(annotations=annotation))
    await api.merge(f"{WORKLOADS}/x/status", {"status": admission()})
    podsets = [made["spec"]["podSets"][0] | {"count": 5}]
    status = 200 if annotation else 403
    assert (await api.merge(f"{WORKLOADS}/x", {"spec": {"podSets": podsets}})).status == status
    assert (await api.merge(f"{WORKLOADS}/x/status", {"status": admission(5)})).status == status
    podsets = [podsets[0] | {"count": 2}]
    assert (await api.merge(f"{WORKLOADS}/x", {"spec": {"podSets": podsets}})).status == 200


@api
async def test_the_old_version_keeps_the_rules_of_what_is_stored(api):
    old = f"{OLD}/namespaces/default/workloads/x"
    await api.made(WORKLOADS, workload())
    ranked = {"priorityClassSource": "scheduling.k8s.io/priorityclass", "priorityClassName": "high", "priority": 1}
    assert (await api.merge(old, {"spec": ranked})).status == 200
    assert (await api.merge(f"{old}/status", {"status": admission()})).status == 200
    refused = await api.merge(old, {"spec": {"priorityClassName": "low"}})
    sentence = "priorityClassRef.name is immutable for scheduling.k8s.io/priorityclass while workload quota reserved"
    assert (refused.status, causes(refused)) == (422, [["<nil>", f'Invalid value: "object": {sentence}']])
    assert (await api.merge(old, {"spec": {"active": False}})).status == 200
    time = {"accumulatedPastExexcutionTimeSeconds": 7}  # as it is spelled there
    assert (await api.merge(f"{old}/status", {"status": time})).json["status"] == admission() | time
