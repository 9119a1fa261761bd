import json

import pytest

from muster.api.batch import JOB
from muster.api.core import NODE, POD
from muster.api.kinds import Kind
from muster.api.meta import Object, ObjectMeta, OwnerReference, Struct
from muster.api.status import ApiError


class Unreadable(Struct):
    """Objects for which no decoder can be made."""

    spec: "Missing"  # type: ignore[name-defined]  # noqa: F821


DEVICE: Kind[dict[str, object]] = Kind("a.b", "v1alpha1", "Device", "devices", dict)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (POD.path(), "/api/v1/pods"),
        (POD.path("default"), "/api/v1/namespaces/default/pods"),
        (POD.path("default", "a", "log"), "/api/v1/namespaces/default/pods/a/log"),
        (JOB.path("default", "a"), "/apis/batch/v1/namespaces/default/jobs/a"),
        (NODE.path("default", "a"), "/api/v1/nodes/a"),
    ],
)
def test_path(path: str, expected: str) -> None:
    assert path == expected


@pytest.mark.parametrize(
    ("namespace", "name", "wrong"),
    [
        ("default", "a/status", "invalid resource name 'a/status': may not contain '/'"),
        ("default", "a%2fstatus", "invalid resource name 'a%2fstatus': may not contain '%'"),
        ("default", "..", "invalid resource name '..': may not be '..'"),
        ("default/pods/a", "log", "invalid namespace 'default/pods/a': may not contain '/'"),
        (".", "a", "invalid namespace '.': may not be '.'"),
    ],
)
def test_no_name_leads_to_another_path(namespace: str, name: str, wrong: str) -> None:
    with pytest.raises(ApiError) as raised:
        JOB.path(namespace, name)
    assert (raised.value.code, str(raised.value)) == (400, wrong)


def test_names() -> None:
    assert (JOB.api_version, JOB.resource) == ("batch/v1", "jobs.batch")
    assert (POD.api_version, POD.resource) == ("v1", "pods")


def test_an_owner_is_of_a_kind_by_its_group_too() -> None:
    owners = [OwnerReference(api_version=version, kind="Job") for version in ("batch/v1", "batch.volcano.sh/v1alpha1")]
    assert [JOB.is_of(owner) for owner in owners] == [True, False]
    assert not POD.is_of(owners[0])


def test_the_same_kind_through_another_type() -> None:
    plain = NODE.seen_as(dict)
    assert plain == Kind("", "v1", "Node", "nodes", dict, namespaced=False)
    assert plain.decode(b'{"unheard":1}') == {"unheard": 1}
    assert JOB.seen_as(Object).decode(b'{"metadata":{"name":"a"}}') == Object(metadata=ObjectMeta(name="a"))


def test_kinds_without_a_view() -> None:
    body = DEVICE.encode({"metadata": {"name": "a"}})
    assert json.loads(body) == {"apiVersion": "a.b/v1alpha1", "kind": "Device", "metadata": {"name": "a"}}
    assert DEVICE.decode(body)["kind"] == "Device"


def test_empty_objects_and_pages() -> None:
    assert json.loads(POD.encode(POD.type())) == {"apiVersion": "v1", "kind": "Pod"}
    page = POD.decode_page(b'{"metadata":{"resourceVersion":"5"},"items":[{"metadata":{"name":"a"}}]}')
    assert page.metadata.resource_version == "5"
    assert [pod.metadata.name for pod in page.items] == ["a"]
    assert POD.decode_page(b'{"metadata":{},"items":null}').items == []
    page = POD.decode_page(b'{"metadata":{"continue":null},"items":[{"metadata":{"name":"a","namespace":null}}]}')
    assert [pod.metadata.name for pod in page.items] == ["a"]


def test_an_empty_page_is_read_without_the_type_of_its_objects() -> None:
    kind: Kind[Unreadable] = Kind("", "v1", "Unreadable", "unreadable", Unreadable)
    assert kind.decode_page(b'{"metadata":{"resourceVersion":"5"},"items":[]}').metadata.resource_version == "5"
    with pytest.raises(NameError):
        kind.decode_page(b'{"items":[{}]}')
