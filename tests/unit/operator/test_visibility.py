"""The visibility API as kube-apiserver's front proxy and kubectl ask for it: each request is allowed, then answered."""

import asyncio
from typing import Any

import msgspec
import pytest

from muster.api.kueue.visibility import PendingWorkload, PendingWorkloadsSummary
from muster.api.meta import ObjectMeta
from muster.api.server.authorization import SubjectAccessReview, SubjectAccessReviewStatus
from muster.api.status import ApiError
from muster.cluster.apiserver.identity.users import Access, User
from muster.operator.visibility import VisibilityServer, make_authorizer
from muster.runtime.client import Client
from muster.runtime.transport import Request, Response

GROUP = "/apis/visibility.kueue.x-k8s.io"
ADA = User("ada", frozenset({"lab"}), "u1", {"scopes": ("a",)})


class Line:
    """Three wait in `cq`, and in `lq` of `ns`."""

    def in_cluster_queue(self, name: str, offset: int, limit: int) -> PendingWorkloadsSummary | None:
        return self._part(offset, limit) if name == "cq" else None

    def in_local_queue(self, namespace: str, name: str, offset: int, limit: int) -> PendingWorkloadsSummary | None:
        return self._part(offset, limit) if (namespace, name) == ("ns", "lq") else None

    def _part(self, offset: int, limit: int) -> PendingWorkloadsSummary:
        items = [PendingWorkload(metadata=ObjectMeta(name=name)) for name in "abc"]
        return PendingWorkloadsSummary(items=tuple(items[offset : offset + limit]))


async def everybody(access: Access, version: str) -> None:
    """May do everything."""


def get(path: str, method: str = "GET", **query: str) -> tuple[int, Any]:
    server = VisibilityServer(Line(), everybody)
    try:
        answer = asyncio.run(server.answer(Request(method, path, query), ADA))
    except ApiError as error:
        return error.code, error.reason
    return answer.status, msgspec.json.decode(answer.body)


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
@pytest.mark.parametrize("queue", ["clusterqueues/cq", "namespaces/ns/localqueues/lq"])
@pytest.mark.parametrize(("query", "names"), [({}, "abc"), ({"limit": "1", "offset": "1"}, "b"), ({"offset": "9"}, "")])
def test_a_line_and_its_parts(version: str, queue: str, query: dict[str, str], names: str) -> None:
    status, found = get(f"{GROUP}/{version}/{queue}/pendingworkloads", **query)
    assert (status, found["kind"]) == (200, "PendingWorkloadsSummary")
    assert found["apiVersion"] == f"visibility.kueue.x-k8s.io/{version}"
    assert "".join(item["metadata"]["name"] for item in found["items"]) == names


@pytest.mark.parametrize(
    ("method", "path", "refusal"),
    [
        ("GET", f"{GROUP}/v1beta2/clusterqueues/none/pendingworkloads", (404, "NotFound")),
        ("GET", f"{GROUP}/v1beta2/namespaces/other/localqueues/lq/pendingworkloads", (404, "NotFound")),
        ("GET", f"{GROUP}/v1beta2/localqueues/lq/pendingworkloads", (404, "NotFound")),
        ("GET", f"{GROUP}/v1beta2/clusterqueues/cq/other", (404, "NotFound")),
        ("GET", f"{GROUP}/v1/clusterqueues/cq/pendingworkloads", (404, "NotFound")),
        ("GET", "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/cq", (404, "NotFound")),
        ("GET", f"{GROUP}/v1beta2/clusterqueues", (405, "MethodNotAllowed")),
        ("GET", f"{GROUP}/v1beta2/clusterqueues/cq", (405, "MethodNotAllowed")),
        ("DELETE", f"{GROUP}/v1beta2/clusterqueues/cq/pendingworkloads", (405, "MethodNotAllowed")),
        ("POST", GROUP, (405, "MethodNotAllowed")),
        ("GET", "/nothing", (404, "NotFound")),
    ],
)
def test_what_is_not_there(method: str, path: str, refusal: tuple[int, str]) -> None:
    assert get(path, method) == refusal


def test_a_part_that_is_no_number_is_refused() -> None:
    assert get(f"{GROUP}/v1beta2/clusterqueues/cq/pendingworkloads", limit="many") == (400, "BadRequest")


def test_discovery_has_the_one_group() -> None:
    assert [group["name"] for group in get("/apis")[1]["groups"]] == ["visibility.kueue.x-k8s.io"]
    assert get(GROUP)[1]["preferredVersion"]["version"] == "v1beta2"
    names = {each["name"] for each in get(f"{GROUP}/v1beta1")[1]["resources"]}
    assert {"clusterqueues/pendingworkloads", "localqueues/pendingworkloads"} <= names
    assert list(get("/openapi/v3")[1]["paths"]) == [
        *(f"{GROUP.lstrip('/')}/{version}" for version in ("v1beta1", "v1beta2"))
    ]


class Server:
    """Says yes or no to each review, and keeps them."""

    def __init__(self, *, allowed: bool) -> None:
        self.allowed, self.asked = allowed, list[Any]()

    async def request(self, request: Request) -> Response:
        self.asked.append(msgspec.json.decode(request.body)["spec"])
        answer = SubjectAccessReview(status=SubjectAccessReviewStatus(allowed=self.allowed, reason="no rule"))
        return Response(201, msgspec.json.encode(answer))


def ask(server: Server, path: str) -> Response:
    visible = VisibilityServer(Line(), make_authorizer(Client(server)))  # type: ignore[arg-type]  # it is asked for no stream
    return asyncio.run(visible.answer(Request("GET", path), ADA))


def test_the_server_is_asked_what_the_user_may_in_the_words_of_roles() -> None:
    server = Server(allowed=True)
    ask(server, f"{GROUP}/v1beta2/namespaces/ns/localqueues/lq/pendingworkloads")
    ask(server, GROUP)
    on_resource, on_path = server.asked
    assert (on_resource["user"], on_resource["groups"], on_resource["uid"]) == ("ada", ["lab"], "u1")
    assert on_resource["extra"] == {"scopes": ["a"]}
    assert on_resource["resourceAttributes"] == {
        "namespace": "ns",
        "verb": "get",
        "group": "visibility.kueue.x-k8s.io",
        "version": "v1beta2",
        "resource": "localqueues",
        "subresource": "pendingworkloads",
        "name": "lq",
    }
    assert on_path["nonResourceAttributes"] == {"path": GROUP, "verb": "get"}


@pytest.mark.parametrize(
    "path", [GROUP, f"{GROUP}/v1beta2/clusterqueues/cq/pendingworkloads", "/metrics", f"{GROUP}/none"]
)
def test_who_may_not_is_told_nothing_but_that(path: str) -> None:
    with pytest.raises(ApiError) as raised:
        ask(Server(allowed=False), path)
    assert raised.value.code == 403
    assert 'User "ada" cannot get' in str(raised.value)
