"""PodGroups through the API: what is said of their pods, and what may not be changed."""

from typing import Any

import pytest
from tests.documents import files
from tests.system.apiserver.harness import Api, api
from yaml import CSafeLoader, load

from muster.cluster.apiserver.admission.podgroups import ENDLESS

PODS = "/api/v1/namespaces/default/pods"
GROUPS = "/apis/incubator.scheduling.k8s.io/v1alpha1/namespaces/default/podgroups"
KEP = {"annotations": {"scheduling.k8s.io/group-name": "g"}}
CONTROLLER = {"apiVersion": "apps/v1", "name": "o", "uid": "1", "controller": True}


def pod(metadata: Any, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"} | metadata,
        "spec": {"containers": [container], **spec},
    }


@pytest.mark.parametrize(
    ("document", "warns"),
    [
        pytest.param(pod(KEP), True, id="3.26-by default"),
        pytest.param(pod(KEP, restartPolicy="Always"), True, id="3.26-always"),
        pytest.param(pod({"labels": {"scheduling.x-k8s.io/pod-group": "g"}}), True, id="3.26-by label"),
        pytest.param(pod(KEP, restartPolicy="Never"), False, id="never"),
        pytest.param(pod(KEP, restartPolicy="OnFailure"), False, id="on failure"),
        pytest.param(pod({}), False, id="of no group"),
        pytest.param(pod(KEP | {"ownerReferences": [CONTROLLER | {"kind": "ReplicaSet"}]}), False, id="of a service"),
        pytest.param(
            pod(KEP | {"ownerReferences": [CONTROLLER | {"kind": "CRDJob", "apiVersion": "e.com/v1"}]}),
            True,
            id="3.26-of a job of another kind",
        ),
    ],
)
@api
async def test_endless_batch_pods_are_warned_of(api: Api, document: Any, warns: bool) -> None:
    answer = await api.post(PODS, document)
    assert answer.status == 201
    assert (ENDLESS in answer.headers.get("warning", "")) is warns
    assert answer.json["spec"]["restartPolicy"] == document["spec"].get("restartPolicy", "Always"), "untouched"


@api
async def test_3_6_a_group_is_not_changed(api: Api) -> None:
    body = {"apiVersion": "incubator.scheduling.k8s.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": "g"}}
    await api.made(GROUPS, body | {"spec": {"minMembers": 3}})
    refused = await api.merge(f"{GROUPS}/g", {"spec": {"minMembers": 2}})
    assert refused.status == 422
    assert "spec: Forbidden: update to PodGroup is not supported" in refused.json["message"]
    labelled = await api.merge(f"{GROUPS}/g", {"metadata": {"labels": {"a": "b"}}})
    assert labelled.status == 200
    status = await api.merge(f"{GROUPS}/g/status", {"status": {"running": 2}})
    assert (status.status, status.json["status"]) == (200, {"running": 2})


@pytest.mark.parametrize("path", files("crds/podgroup/*.yaml"), ids=lambda path: path.stem)
@api
async def test_a_peers_definition_beside_the_kind_stops_nothing(api: Api, path: Any) -> None:
    definition = load(path.read_text(), CSafeLoader)
    spec = definition["spec"]
    version = spec.get("version") or spec["versions"][0]["name"]
    where = f"/apis/{spec['group']}/{version}/namespaces/default/podgroups"
    body = {"apiVersion": f"{spec['group']}/{version}", "kind": "PodGroup", "spec": {"minMember": 1}}
    await api.made(where, body | {"metadata": {"name": "before"}})
    definitions = f"/apis/{definition['apiVersion']}/customresourcedefinitions"
    await api.made(definitions, definition)
    await api.made(where, body | {"metadata": {"name": "meanwhile"}})
    assert (await api.delete(f"{definitions}/{definition['metadata']['name']}")).status == 200
    await api.made(where, body | {"metadata": {"name": "afterwards"}})
    names = [item["metadata"]["name"] for item in (await api.get(where)).json["items"]]
    assert names == ["afterwards", "before", "meanwhile"]


CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
VOLCANO = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"


@pytest.mark.parametrize(
    ("asked", "own", "metadata", "priority"),
    [
        pytest.param("high", {}, KEP, 100, id="the group's"),
        pytest.param("high", {"priorityClassName": "low"}, KEP, 10, id="its own"),
        pytest.param("", {}, KEP, 0, id="the group has none"),
        pytest.param("none", {}, KEP, 0, id="there is no such class"),
        pytest.param("high", {}, {"labels": {"scheduling.x-k8s.io/pod-group": "g"}}, 0, id="of another kind of group"),
        pytest.param("high", {}, {"annotations": {"scheduling.k8s.io/group-name": "h"}}, 0, id="of another group"),
        pytest.param("high", {}, {}, 0, id="of no group"),
    ],
)
@api
async def test_pods_have_the_priority_of_their_group(
    api: Api, asked: str, own: dict[str, str], metadata: Any, priority: int
) -> None:
    for name, value in (("high", 100), ("low", 10)):
        await api.made(CLASSES, {"metadata": {"name": name}, "value": value})
    spec = {"minMember": 1} | ({"priorityClassName": asked} if asked else {})
    await api.made(VOLCANO, {"metadata": {"name": "g"}, "spec": spec})
    made = await api.made(PODS, pod(metadata, restartPolicy="Never", **own))
    assert made["spec"]["priority"] == priority
