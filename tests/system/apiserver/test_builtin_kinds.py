"""Kinds that are only stored, and devices: all are created, read, changed, applied and deleted as upstream has them."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from tests.system.apiserver.harness import TABLE, Api, api, api_under

from muster.api.config import EMBEDDED, Muster
from muster.cluster.apiserver.identity.users import ADMIN
from muster.cluster.apiserver.registry.builtin import BUILTIN
from muster.cluster.apiserver.registry.devices import DEVICES
from muster.cluster.apiserver.registry.storedkinds import ALPHA, STORED_KINDS

MANIFESTS: list[dict[str, Any]] = list(
    yaml.load_all((Path(__file__).parent / "storedkinds.yaml").read_text(), yaml.CSafeLoader)
)
BY_KIND = {(manifest["apiVersion"], manifest["kind"]): manifest for manifest in MANIFESTS}
RESOURCES = {(resource.kind.api_version, resource.kind.kind): resource for resource in BUILTIN}
APPLY = "application/apply-patch+yaml"

# Kinds of which the manifests have no example: they have no rules but those of metadata.
BARE = {"ControllerRevision", "CSIStorageCapacity", "IPAddress", "VolumeAttachment"}


all_served = api_under(msgspec.structs.replace(EMBEDDED, muster=Muster(apis=("scheduling.k8s.io/v1alpha2",))))


def collection(manifest: dict[str, Any]) -> str:
    return RESOURCES[manifest["apiVersion"], manifest["kind"]].kind.path("default")


def test_every_kind_has_an_example() -> None:
    stored = {
        (resource.kind.api_version, resource.kind.kind)
        for resource in (*STORED_KINDS, *DEVICES, *ALPHA)
        if resource.kind.kind not in BARE
    }
    assert stored == BY_KIND.keys()


def ids(manifest: dict[str, Any]) -> str:
    return f"{manifest['apiVersion']} {manifest['kind']}"


@pytest.mark.parametrize("manifest", MANIFESTS, ids=ids)
@all_served
async def test_a_life(api: Api, manifest: dict[str, Any]) -> None:
    resource = RESOURCES[manifest["apiVersion"], manifest["kind"]]
    path, name = collection(manifest), manifest["metadata"]["name"]
    created = await api.post(path, manifest, fieldManager="test", fieldValidation="Strict")
    assert created.status == 201, created.body
    warning = resource.rules.warning
    assert (warning in created.headers.get("warning", "")) if warning else "warning" not in created.headers
    assert (await api.post(path, manifest)).status == 409
    table = (await api.get(path, accept=TABLE)).json
    assert table["kind"] == "Table"
    assert len(table["rows"][0]["cells"]) == len(table["columnDefinitions"])

    again = await api.call("PATCH", f"{path}/{name}", manifest, type=APPLY, fieldManager="other", force="true")
    assert again.status == 200, again.body
    assert {key: value for key, value in again.json.items() if key != "metadata"} == {
        key: value for key, value in created.json.items() if key != "metadata"
    }
    third = await api.call("PATCH", f"{path}/{name}", manifest, type=APPLY, fieldManager="other", force="true")
    assert third.json == again.json  # it changes nothing, not even the version

    labelled = await api.merge(f"{path}/{name}", {"metadata": {"labels": {"a": "b"}}})
    assert labelled.meta["labels"]["a"] == "b"
    assert labelled.meta.get("generation") == created.meta.get("generation")
    if resource.subresource("status") is not None:
        status = await api.get(f"{path}/{name}/status")
        assert status.json["status"] == created.json["status"]
    assert (await api.delete(f"{path}/{name}", propagationPolicy="Background")).status == 200
    assert (await api.get(f"{path}/{name}")).status == 404


@api
async def test_selectors_of_devices_are_sound_expressions(api: Api) -> None:
    manifest = next(manifest for manifest in MANIFESTS if manifest["kind"] == "DeviceClass")
    unsound = manifest | {"spec": {"selectors": [{"cel": {"expression": "device.driver =="}}]}}
    refused = await api.post(collection(manifest), unsound)
    assert refused.status == 422
    assert "spec.selectors[0].cel.expression: Invalid value" in refused.json["message"]
    assert "Syntax error" in refused.json["message"]


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "ReplicaSet", "ReplicationController"])
@api
async def test_scale(api: Api, kind: str) -> None:
    manifest = next(manifest for manifest in MANIFESTS if manifest["kind"] == kind)
    path = f"{collection(manifest)}/{manifest['metadata']['name']}"
    await api.made(collection(manifest), manifest)
    scale = (await api.get(f"{path}/scale")).json
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["status"] == {"replicas": 0, "selector": f"app={manifest['metadata']['name']}"}
    changed = await api.merge(f"{path}/scale", {"spec": {"replicas": 7}})
    assert changed.json["spec"] == {"replicas": 7}
    stored = (await api.get(path)).json
    assert (stored["spec"]["replicas"], stored["metadata"]["generation"]) == (7, 2)
    scale["spec"]["replicas"] = 9
    assert (await api.put(f"{path}/scale", scale)).status == 409
    assert (await api.merge(f"{path}/scale", {"spec": {"replicas": -1}})).status == 422


@api
async def test_a_status_is_written_by_itself(api: Api) -> None:
    manifest = BY_KIND["apps/v1", "Deployment"]
    path = f"{collection(manifest)}/web"
    await api.made(collection(manifest), manifest | {"status": {"replicas": 5}})
    assert (await api.get(path)).json["status"] == {}
    status = {"observedGeneration": 1, "replicas": 3, "conditions": [{"type": "Available", "status": "True"}]}
    written = await api.merge(f"{path}/status", {"status": status, "spec": {"replicas": 1}})
    assert written.json["status"] == status
    assert written.json["spec"]["replicas"] == 3
    assert written.meta["generation"] == 1


@api
async def test_an_autoscaler_is_one_object_in_both_versions(api: Api) -> None:
    v1, v2 = (f"/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers" for version in ("v1", "v2"))
    await api.made(v2, BY_KIND["autoscaling/v2", "HorizontalPodAutoscaler"])
    shown = (await api.get(f"{v1}/hpa")).json
    assert shown["spec"]["targetCPUUtilizationPercentage"] == 60
    assert "metrics" not in shown["spec"]
    changed = await api.merge(f"{v1}/hpa", {"spec": {"targetCPUUtilizationPercentage": 70}})
    assert changed.status == 200, changed.body
    cpu, memory = (await api.get(f"{v2}/hpa")).json["spec"]["metrics"]
    assert cpu["resource"]["target"]["averageUtilization"] == 70
    assert memory["resource"]["name"] == "memory"
    assert [row["cells"][2] for row in (await api.get(v1, accept=TABLE)).json["rows"]] == ["cpu: <unknown>/70%"]


@pytest.mark.parametrize(
    ("kind", "patch", "status", "word"),
    [
        ("Deployment", {"spec": {"selector": {"matchLabels": {"x": "y"}}}}, 422, "field is immutable"),
        ("StatefulSet", {"spec": {"serviceName": "other"}}, 422, "updates to statefulset spec for fields other than"),
        ("PersistentVolumeClaim", {"spec": {"accessModes": ["ReadOnlyMany"]}}, 422, "spec is immutable after creation"),
        ("PersistentVolumeClaim", {"spec": {"volumeName": "v"}}, 200, ""),
        ("StorageClass", {"provisioner": "other"}, 422, "updates to provisioner are forbidden."),
        ("Ingress", {"spec": {"rules": None, "defaultBackend": None}}, 422, "must be specified"),
        ("NetworkPolicy", {"spec": {"podSelector": None}}, 200, ""),
        ("EndpointSlice", {"addressType": "IPv6"}, 422, "field is immutable"),
    ],
)
@api
async def test_what_may_change(api: Api, kind: str, patch: dict[str, Any], status: int, word: str) -> None:
    manifest = next(manifest for manifest in MANIFESTS if manifest["kind"] == kind)
    await api.made(collection(manifest), manifest)
    answer = await api.merge(f"{collection(manifest)}/{manifest['metadata']['name']}", patch)
    assert answer.status == status, answer.body
    assert word in answer.body.decode()


@api
async def test_who_asks_for_a_certificate_is_said_by_the_server(api: Api) -> None:
    manifest = BY_KIND["certificates.k8s.io/v1", "CertificateSigningRequest"]
    path = collection(manifest)
    made = await api.made(path, manifest | {"spec": manifest["spec"] | {"username": "somebody else", "uid": "x"}})
    assert made["spec"]["username"] == ADMIN.name
    assert made["spec"]["groups"] == sorted(ADMIN.groups)
    assert "uid" not in made["spec"]
    changed = await api.merge(
        f"{path}/csr", {"spec": {"username": "somebody else"}, "metadata": {"labels": {"a": "b"}}}
    )
    assert changed.json["spec"] == made["spec"]
    approval = {"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "r", "message": "m"}]}}
    assert (await api.merge(f"{path}/csr/approval", approval)).json["status"] == approval["status"]


async def groups(api: Api) -> list[str]:
    return [group["name"] for group in (await api.get("/apis")).json["groups"]]


@api
async def test_alpha_versions_are_served_on_request_only(api: Api) -> None:
    assert (await api.get("/apis/scheduling.k8s.io/v1alpha2")).status == 404
    assert (await api.get("/apis/scheduling.k8s.io/v1alpha2/workloads")).status == 404
    (versions,) = (await api.get("/apis/scheduling.k8s.io")).json["versions"]
    assert versions["version"] == "v1"


@all_served
async def test_kueues_workloads_come_before_those_of_kubernetes(api: Api) -> None:
    assert (await api.get("/apis/scheduling.k8s.io/v1alpha2/workloads")).status == 200
    found = await groups(api)
    assert found.index("kueue.x-k8s.io") < found.index("scheduling.k8s.io")
