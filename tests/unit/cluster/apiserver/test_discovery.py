"""Discovery documents of the built-in resources, in every form that clients ask for."""

from typing import Any

import msgspec
import pytest

from muster.api.status import ApiError
from muster.cluster.apiserver.discovery import Discovery
from muster.cluster.apiserver.registry.builtin import BUILTIN

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"
V2, V2BETA1 = AGGREGATED.format("v2"), AGGREGATED.format("v2beta1")

discovery = Discovery(BUILTIN)


def document(path: str, accept: str = "application/json") -> Any:
    answer = discovery.find(path, accept)
    assert answer is not None
    return msgspec.json.decode(answer.body)


def test_versions_of_the_core_group() -> None:
    assert document("/api")["versions"] == ["v1"]
    assert document("/api")["kind"] == "APIVersions"


def test_groups() -> None:
    groups = document("/apis")
    assert (groups["kind"], groups["apiVersion"]) == ("APIGroupList", "v1")
    names = [group["name"] for group in groups["groups"]]
    # As a kube-apiserver orders them: its own groups, and then what definitions add, by name. Kueue's is one of ours.
    assert names[:4] == ["apiregistration.k8s.io", "apps", "events.k8s.io", "authentication.k8s.io"]
    assert names[names.index("flowcontrol.apiserver.k8s.io") + 1 :] == [
        "incubator.scheduling.k8s.io", "scheduling.x-k8s.io", "scheduling.volcano.sh", "scheduling.sigs.dev",
        "scheduling.incubator.k8s.io", "metrics.k8s.io", "visibility.kueue.x-k8s.io",
    ]  # fmt: skip
    assert names.index("kueue.x-k8s.io") < names.index("scheduling.k8s.io")
    batch = {"groupVersion": "batch/v1", "version": "v1"}
    assert {"name": "batch", "versions": [batch], "preferredVersion": batch} in groups["groups"]
    assert document("/apis/batch") == {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": "batch",
        "versions": [batch],
        "preferredVersion": batch,
    }


def test_resources_of_a_group_version() -> None:
    resources = document("/apis/batch/v1")
    assert (resources["kind"], resources["groupVersion"]) == ("APIResourceList", "batch/v1")
    assert [entry for entry in resources["resources"] if entry["name"].startswith("jobs")] == [
        {
            "name": "jobs",
            "singularName": "job",
            "namespaced": True,
            "kind": "Job",
            "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
            "categories": ["all"],
        },
        # Ours: the logs of pods that are gone.
        {"name": "jobs/log", "singularName": "", "namespaced": True, "kind": "Job", "verbs": ["get"]},
        {
            "name": "jobs/scale",
            "singularName": "",
            "namespaced": True,
            "group": "autoscaling",
            "version": "v1",
            "kind": "Scale",
            "verbs": ["get", "patch", "update"],
        },
        {
            "name": "jobs/status",
            "singularName": "",
            "namespaced": True,
            "kind": "Job",
            "verbs": ["get", "patch", "update"],
        },
    ]
    core = {resource["name"]: resource for resource in document("/api/v1")["resources"]}
    assert core["pods"]["shortNames"] == ["po"]
    assert core["nodes"]["namespaced"] is False
    assert core["pods/log"]["verbs"] == ["get"]
    assert core["pods/eviction"]["group"] == "policy"


@pytest.mark.parametrize("version", ["v2", "v2beta1"])
def test_aggregated(version: str) -> None:
    accept = AGGREGATED.format(version)
    answer = discovery.find("/apis", accept)
    assert answer is not None
    assert answer.content_type == accept
    found = msgspec.json.decode(answer.body)
    assert (found["kind"], found["apiVersion"]) == ("APIGroupDiscoveryList", f"apidiscovery.k8s.io/{version}")
    [batch] = [group for group in found["items"] if group["metadata"]["name"] == "batch"]
    kind = {"group": "batch", "version": "v1", "kind": "Job"}
    scale = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    verbs = ["get", "patch", "update"]
    [version_1] = batch["versions"]
    version_1["resources"] = [entry for entry in version_1["resources"] if entry["resource"] == "jobs"]
    assert batch["versions"] == [
        {
            "version": "v1",
            "freshness": "Current",
            "resources": [
                {
                    "resource": "jobs",
                    "responseKind": kind,
                    "scope": "Namespaced",
                    "singularResource": "job",
                    "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
                    "categories": ["all"],
                    "subresources": [
                        {"subresource": "log", "responseKind": kind, "verbs": ["get"]},
                        {"subresource": "scale", "responseKind": scale, "verbs": verbs},
                        {"subresource": "status", "responseKind": kind, "verbs": verbs},
                    ],
                }
            ],
        }
    ]
    [core] = document("/api", accept)["items"]
    assert core["metadata"] == {}
    scopes = {resource["resource"]: resource["scope"] for resource in core["versions"][0]["resources"]}
    assert scopes["namespaces"] == "Cluster"
    assert scopes["pods"] == "Namespaced"


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("", "APIGroupList"),
        ("*/*", "APIGroupList"),
        ("application/json", "APIGroupList"),
        (f"{V2},{V2BETA1},application/json", "APIGroupDiscoveryList"),
        (f"{V2BETA1},application/json", "APIGroupDiscoveryList"),
        (f"application/json, {V2}", "APIGroupList"),
        (f"application/json;q=0.5, {V2};q=0.9", "APIGroupDiscoveryList"),
        (f"{V2};profile=nopeer,{V2},application/json", "APIGroupDiscoveryList"),
        (f"{AGGREGATED.format('v3')},application/json", "APIGroupList"),
        ("application/vnd.kubernetes.protobuf,application/json", "APIGroupList"),
        ("application/json;q=nonsense", "APIGroupList"),
    ],
)
def test_the_form_that_is_asked_for(accept: str, kind: str) -> None:
    assert document("/apis", accept)["kind"] == kind
    assert document("/apis/", accept)["kind"] == kind


def test_forms_that_there_are_not() -> None:
    for accept in ("application/vnd.kubernetes.protobuf", AGGREGATED.format("v3")):
        with pytest.raises(ApiError) as error:
            discovery.find("/apis", accept)
        assert error.value.code == 406


def test_paths_that_there_are_not() -> None:
    for path in ("/apis/batch/v2", "/apis/nonsense", "/api/v2", "/version", ""):
        assert discovery.find(path, V2) is None


def test_answers_are_made_once_and_told_apart_by_their_content() -> None:
    plain, again = discovery.find("/apis"), discovery.find("/apis")
    assert plain is again
    other = Discovery(reversed(list(BUILTIN))).find("/apis")
    assert plain is not None
    assert other is not None
    assert plain.hash == other.hash
    assert plain.headers["etag"] == f'"{plain.hash}"'
    few = Discovery(list(BUILTIN)[:3]).find("/apis")
    assert few is not None
    assert few.hash != plain.hash
