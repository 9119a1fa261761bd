"""The Kueue kinds through requests: two versions of one object, the status by itself, finalizers, columns, warnings."""

import pytest
from tests.system.apiserver.harness import TABLE, api

NEW, OLD = "/apis/kueue.x-k8s.io/v1beta2", "/apis/kueue.x-k8s.io/v1beta1"
QUEUES, FLAVORS = f"{NEW}/clusterqueues", f"{NEW}/resourceflavors"
WORKLOADS = f"{NEW}/namespaces/default/workloads"
OLD_WORKLOADS = f"{OLD}/namespaces/default/workloads"
IN_USE = "kueue.x-k8s.io/resource-in-use"
WARNING = '299 - "This version is deprecated. Use v1beta2 instead."'
CONDITION = {
    "type": "Active", "status": "True", "reason": "Ready", "message": "Can admit new workloads",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}  # fmt: skip
DOMAINS = [{"values": ["h1"], "count": 1}, {"values": ["h2"], "count": 2}]
SLICE = {
    "domainCount": 2,
    "valuesPerLevel": [{"individual": {"prefix": "h", "roots": ["1", "2"]}}],
    "podCounts": {"individual": [1, 2]},
}


def thing(kind, spec=None, name="x", version="v1beta2", **more):
    head = {"apiVersion": f"kueue.x-k8s.io/{version}", "kind": kind, "metadata": {"name": name}}
    return head | ({} if spec is None else {"spec": spec}) | more


def queue(name="x", **spec):
    resources = [{"name": "cpu", "nominalQuota": 9}]
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": resources}]}
    return thing("ClusterQueue", {"resourceGroups": [group], **spec}, name)


def workload(name="x", version="v1beta2", **spec):
    template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
    return thing("Workload", {"podSets": [{"template": template, "count": 3}], **spec}, name, version)


def assigned(cluster_queue="q", **assignment):
    return {"admission": {"clusterQueue": cluster_queue, "podSetAssignments": [{"name": "main", **assignment}]}}


@api
async def test_a_new_object(api):
    made = await api.made(QUEUES, queue(cohortName="c") | {"status": {"pendingWorkloads": 5}})
    assert made["apiVersion"] == "kueue.x-k8s.io/v1beta2"
    assert "status" not in made
    assert made["spec"]["flavorFungibility"] == {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"}
    assert (made["spec"]["queueingStrategy"], made["metadata"]["generation"]) == ("BestEffortFIFO", 1)
    assert made["metadata"]["finalizers"] == [IN_USE]
    assert (await api.get(f"{QUEUES}/x")).json == made


@api
async def test_every_kind_can_be_made_in_both_versions(api):
    bodies = [
        ("clusterqueues", thing("ClusterQueue", {})),
        ("resourceflavors", thing("ResourceFlavor", {"nodeLabels": {"a": "b"}})),
        ("cohorts", thing("Cohort", {"parentName": "p"})),
        ("admissionchecks", thing("AdmissionCheck", {"controllerName": "c"})),
        ("workloadpriorityclasses", thing("WorkloadPriorityClass", value=1)),
        ("topologies", thing("Topology", {"levels": [{"nodeLabel": "a/b"}]})),
        ("multikueueconfigs", thing("MultiKueueConfig", {"clusters": ["a"]})),
        ("provisioningrequestconfigs", thing("ProvisioningRequestConfig", {"provisioningClassName": "c"})),
        ("namespaces/default/localqueues", thing("LocalQueue", {"clusterQueue": "x"})),
        ("namespaces/default/workloads", workload()),
    ]
    for path, body in bodies:
        await api.made(f"{NEW}/{path}", body)
        old = body | {"apiVersion": "kueue.x-k8s.io/v1beta1", "metadata": {"name": "old"}}
        made = await api.made(f"{OLD}/{path}", old)
        assert made["apiVersion"] == "kueue.x-k8s.io/v1beta1"
        for root in (NEW, OLD):
            listed = (await api.get(f"{root}/{path}")).json
            assert [item["apiVersion"] for item in listed["items"]] == [listed["apiVersion"]] * 2
    source = {"kubeConfig": {"location": "secret"}}
    await api.made(f"{NEW}/multikueueclusters", thing("MultiKueueCluster", {"clusterSource": source}))
    shown = (await api.get(f"{OLD}/multikueueclusters/x")).json
    assert shown["spec"] == {"kubeConfig": {"location": "secret", "locationType": "Secret"}}


@api
async def test_both_versions_are_one_object(api):
    spec = {"cohort": "c", "admissionChecks": ["a"], "flavorFungibility": {"whenCanBorrow": "Borrow"}}
    answer = await api.post(f"{OLD}/clusterqueues", thing("ClusterQueue", spec, version="v1beta1"))
    assert (answer.status, answer.headers["warning"]) == (201, WARNING)
    assert (answer.json["spec"]["cohort"], answer.meta["finalizers"]) == ("c", [IN_USE])
    stored = await api.get(f"{QUEUES}/x")
    assert "warning" not in stored.headers
    assert stored.json["spec"]["cohortName"] == "c"
    assert stored.json["spec"]["admissionChecksStrategy"] == {"admissionChecks": [{"name": "a"}]}
    assert stored.json["spec"]["flavorFungibility"]["whenCanBorrow"] == "MayStopSearch"
    patched = await api.merge(f"{OLD}/clusterqueues/x", {"spec": {"cohort": "d"}})
    assert (patched.json["spec"]["cohort"], patched.meta["generation"]) == ("d", 2)
    assert (await api.get(f"{QUEUES}/x")).json["spec"]["cohortName"] == "d"
    assert (await api.get(f"{OLD}/clusterqueues")).headers["warning"] == WARNING
    # Written as it was read, nothing changes.
    again = await api.put(f"{OLD}/clusterqueues/x", patched.json)
    assert again.json == patched.json


@api
async def test_a_watch_shows_its_own_version(api):
    async with api.watch(f"{OLD}/clusterqueues") as events:
        await api.made(QUEUES, queue(cohortName="c"))
        type_, shown = await events.next()
        assert (type_, shown["apiVersion"], shown["spec"]["cohort"]) == ("ADDED", "kueue.x-k8s.io/v1beta1", "c")


@api
async def test_the_status_is_written_by_itself(api):
    await api.made(QUEUES, queue())
    status = {"conditions": [CONDITION], "pendingWorkloads": 0}
    answer = await api.merge(f"{QUEUES}/x/status", {"status": status, "spec": {"cohortName": "c"}})
    assert (answer.status, answer.json["status"]) == (200, status)
    assert ("cohortName" in answer.json["spec"], answer.meta["generation"]) == (False, 1)
    kept = await api.merge(f"{QUEUES}/x", {"status": None, "spec": {"stopPolicy": "Hold"}})
    assert (kept.json["status"], kept.meta["generation"]) == (status, 2)
    assert (await api.get(f"{FLAVORS}/x/status")).status == 404


@api
async def test_the_status_in_the_old_version(api):
    await api.made(WORKLOADS, workload())
    by_domain = assigned(topologyAssignment={"levels": ["host"], "domains": DOMAINS})
    time = {"accumulatedPastExexcutionTimeSeconds": 7}
    answer = await api.merge(f"{OLD_WORKLOADS}/x/status", {"status": by_domain | time})
    assert (answer.status, answer.json["status"]) == (200, by_domain | time)
    stored = (await api.get(f"{WORKLOADS}/x")).json
    by_slice = assigned(topologyAssignment={"levels": ["host"], "slices": [SLICE]})
    assert stored["status"] == by_slice | {"accumulatedPastExecutionTimeSeconds": 7}


@api
async def test_held_objects_go_when_they_are_let_go(api):
    await api.made(FLAVORS, thing("ResourceFlavor"))
    answer = await api.delete(f"{FLAVORS}/x")
    assert (answer.status, answer.json["metadata"]["finalizers"]) == (200, [IN_USE])
    assert (await api.merge(f"{FLAVORS}/x", {"metadata": {"finalizers": None}})).status == 200
    assert (await api.get(f"{FLAVORS}/x")).status == 404
    await api.made(f"{NEW}/cohorts", thing("Cohort"))
    assert (await api.delete(f"{NEW}/cohorts/x")).json["status"] == "Success"


@api
async def test_workloads_by_cluster_queue(api):
    for name in ("a", "b", "c"):
        await api.made(WORKLOADS, workload(name))
    await api.merge(f"{WORKLOADS}/a/status", {"status": assigned("one")})
    await api.merge(f"{WORKLOADS}/b/status", {"status": assigned("two")})
    field = "status.admission.clusterQueue"
    assert (await api.get(WORKLOADS, fieldSelector=f"{field}=one")).names == ["a"]
    assert (await api.get(WORKLOADS, fieldSelector=f"{field}!=one")).names == ["b", "c"]
    assert (await api.get(WORKLOADS, fieldSelector=f"{field}=")).names == ["c"]
    refused = await api.get(OLD_WORKLOADS, fieldSelector=f"{field}=one")
    assert (refused.status, refused.message) == (400, f"field label not supported: {field}")


REFUSED = [
    ("Workload", WORKLOADS, {"podSets": []}, ["spec.podSets: Invalid value: 0", "should have at least 1 items"]),
    ("Workload", WORKLOADS, {"podSets": [{"count": -1}]}, ["spec.podSets[0].template: Required value", "count"]),
    ("ClusterQueue", QUEUES, {"stopPolicy": "Never"}, ['supported values: "None", "Hold", "HoldAndDrain"']),
    ("ClusterQueue", QUEUES, {"queueingStrategy": 5}, ['must be of type string: "integer"']),
    ("ClusterQueue", f"{OLD}/clusterqueues", {"stopPolicy": "Never"}, ["spec.stopPolicy: Unsupported value"]),
    ("Topology", f"{NEW}/topologies", {}, ["spec.levels: Required value"]),
    ("MultiKueueConfig", f"{NEW}/multikueueconfigs", {"clusters": [str(n) for n in range(21)]},
     ["spec.clusters: Too many: 21: must have at most 20 items"]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "path", "spec", "messages"), REFUSED)
@api
async def test_the_schema_refuses(api, kind, path, spec, messages):
    version = "v1beta1" if path.startswith(OLD) else "v1beta2"
    answer = await api.post(path, thing(kind, spec, version=version))
    assert (answer.status, answer.json["details"]["group"]) == (422, "kueue.x-k8s.io")
    assert all(message in answer.message for message in messages), answer.message
    assert answer.message.startswith(f'{kind}.kueue.x-k8s.io "x" is invalid: ')
    assert (await api.get(f"{path}/x")).status == 404


@api
async def test_the_schema_refuses_a_bad_patch_and_a_bad_status(api):
    made = await api.made(QUEUES, queue())
    assert (await api.merge(f"{QUEUES}/x", {"spec": {"stopPolicy": "x"}})).status == 422
    assert (await api.merge(f"{QUEUES}/x/status", {"status": {"conditions": [{"type": "A"}]}})).status == 422
    assert (await api.get(f"{QUEUES}/x")).json == made


@api
async def test_unknown_fields_and_versions(api):
    body = thing("ResourceFlavor", {"nodeLabel": {}})
    assert (await api.post(FLAVORS, body, fieldValidation="Strict")).status == 400
    answer = await api.post(FLAVORS, body, fieldValidation="Warn")
    assert (answer.status, answer.json["spec"]) == (201, {})
    assert 'unknown field \\"spec.nodeLabel\\"' in answer.headers["warning"]
    assert (await api.put(f"{FLAVORS}/x", thing("ResourceFlavor"))).status == 422  # CRDs ask for the version
    wrong = await api.post(FLAVORS, thing("ResourceFlavor", version="v1beta1"))
    assert (wrong.status, "does not match the expected API version" in wrong.message) == (400, True)


@api
async def test_names_and_labels_are_checked(api):
    assert (await api.post(FLAVORS, thing("ResourceFlavor", name="Bad_Name"))).status == 422
    made = await api.made(FLAVORS, thing("ResourceFlavor"))
    refused = await api.merge(f"{FLAVORS}/x", {"metadata": {"labels": {"a": "-"}}})
    assert refused.status == 422
    assert (await api.get(f"{FLAVORS}/x")).json == made


@api
async def test_tables(api):
    await api.made(QUEUES, queue(cohortName="c"))
    await api.merge(f"{QUEUES}/x/status", {"status": {"pendingWorkloads": 0}})
    for root in (NEW, OLD):
        table = (await api.get(f"{root}/clusterqueues", accept=TABLE)).json
        names = [column["name"] for column in table["columnDefinitions"]]
        assert names == ["Name", "Cohort", "Strategy", "Pending Workloads", "Admitted Workloads"]
        assert table["rows"][0]["cells"] == ["x", "c", "BestEffortFIFO", 0, None]


@api
async def test_discovery_and_openapi(api):
    group = (await api.get("/apis/kueue.x-k8s.io")).json
    assert [each["version"] for each in group["versions"]] == ["v1beta2", "v1beta1"]
    resources = {each["name"]: each for each in (await api.get(NEW)).json["resources"]}
    assert resources["localqueues"]["shortNames"] == ["queue", "queues", "lq"]
    assert "workloads/status" in resources
    assert "resourceflavors/status" not in resources
    for version, member in (("v1beta2", "cohortName"), ("v1beta1", "cohort")):
        document = (await api.get(f"/openapi/v3/apis/kueue.x-k8s.io/{version}")).json
        components = document["components"]["schemas"]
        spec = components[f"io.x-k8s.kueue.{version}.ClusterQueueSpec"]["properties"]
        assert spec[member]["maxLength"] == 253
        assert spec["queueingStrategy"]["default"] == "BestEffortFIFO"
        kinds = [each["x-kubernetes-group-version-kind"][0]["kind"]
                 for each in components.values() if "x-kubernetes-group-version-kind" in each]  # fmt: skip
        assert {"ClusterQueue", "Workload", "WorkloadList", "Topology"} <= set(kinds)
    v2 = (await api.get("/openapi/v2")).json["definitions"]
    assert {"io.x-k8s.kueue.v1beta1.Workload", "io.x-k8s.kueue.v1beta2.Workload"} <= set(v2)


@api
async def test_generations(api):
    path = f"{NEW}/workloadpriorityclasses"
    await api.made(path, thing("WorkloadPriorityClass", value=1))
    changes = [
        ({"metadata": {"labels": {"a": "b"}}}, 1),
        ({"value": 2}, 2),
        ({"description": "d"}, 3),
        ({"value": 2}, 3),
    ]
    for change, generation in changes:
        assert (await api.merge(f"{path}/x", change)).meta["generation"] == generation


@api
async def test_a_namespace_takes_its_workloads_with_it(api):
    await api.made("/api/v1/namespaces", {"metadata": {"name": "n"}})
    await api.made(f"{NEW}/namespaces/n/workloads", workload())
    assert (await api.delete(f"{NEW}/namespaces/n/workloads")).status == 200
    assert (await api.get(f"{NEW}/namespaces/n/workloads")).names == []
    assert (await api.post(f"{NEW}/namespaces/none/workloads", workload())).status == 404
