"""What a command is refused is told in words of users; what is not served is told apart from what is not allowed."""

import asyncio
from typing import Any, cast

import msgspec
import pytest
from tests.unit.runtime.conftest import ScriptedTransport

from muster.actions.refusals import PlainRefusals
from muster.api.jobset import JOB_SET
from muster.api.status import ApiError, forbidden, internal_error, not_found, path_not_found, unauthorized
from muster.insight.jobs.refusal import UNKNOWN_CREDENTIAL
from muster.runtime.client import Client
from muster.runtime.transport import Request, Response

GROUP = "/apis/jobset.x-k8s.io/v1alpha2"
MAY_NOT = forbidden(
    'jobsets.jobset.x-k8s.io is forbidden: User "bob" cannot list resource "jobsets" in API group "jobset.x-k8s.io" '
    'in the namespace "team"'
)
RIGHT = (
    "you (bob) may not list jobsets.jobset.x-k8s.io in namespace team; "
    "ask the administrator of the namespace for that right"
)
NOT_INSTALLED = (
    "this cluster has no jobsets of jobset.x-k8s.io/v1alpha2: JobSet is not installed there, or in another version; "
    "ask the administrator of the cluster"
)
REVOKED = unauthorized()
EXPIRED = ApiError(msgspec.structs.replace(REVOKED.status, message="token expired"))
QUOTA = forbidden('jobsets.jobset.x-k8s.io "j" is forbidden: exceeded quota: q')
AWAY = 'failed calling webhook "w.kb.io": failed to call webhook: Post "https://s.ns.svc:443/mutate": EOF'
NO_ANSWER = (
    "nothing was stored: Service s of namespace ns, which the server asks first (webhook w.kb.io), does not answer: "
    "EOF; look for its pods with kubectl get pods -n ns, or ask the administrator of the cluster"
)
OH = str(internal_error("oh"))
SERVED = Response(200, b'{"resources": [{"name": "jobsets"}, {"name": "jobsets/status"}]}')
NOT_SERVED = Response(404, b"404 page not found")


def refused(error: ApiError) -> Response:
    return Response(error.code, msgspec.json.encode(error.status))


def ask(*script: Response) -> tuple[ApiError, list[str]]:
    transport = ScriptedTransport(*script)
    with pytest.raises(ApiError) as caught:
        asyncio.run(Client(PlainRefusals(cast("Any", transport))).list(JOB_SET, "team"))
    return caught.value, [request.path for request in transport.requests[1:]]


@pytest.mark.parametrize(
    ("script", "reason", "message", "asked"),
    [
        pytest.param((refused(REVOKED),), "Unauthorized", UNKNOWN_CREDENTIAL, [], id="a withdrawn token"),
        pytest.param(
            (refused(EXPIRED),), "Unauthorized", f"{UNKNOWN_CREDENTIAL} (the server says: token expired)", [],
            id="an expired token",
        ),
        pytest.param((refused(MAY_NOT), SERVED), "Forbidden", RIGHT, [GROUP], id="no right"),
        pytest.param((refused(MAY_NOT), NOT_SERVED), "NotFound", NOT_INSTALLED, [GROUP], id="no right, no kind"),
        pytest.param((NOT_SERVED, NOT_SERVED), "NotFound", NOT_INSTALLED, [GROUP], id="no kind, on a real server"),
        pytest.param((refused(path_not_found()), NOT_SERVED), "NotFound", NOT_INSTALLED, [GROUP], id="no kind"),
        pytest.param(
            (refused(MAY_NOT), Response(200, b'{"resources": [{"name": "others"}]}')),
            "NotFound", NOT_INSTALLED, [GROUP], id="another version of the group",
        ),
        pytest.param((refused(MAY_NOT), Response(200, b"<html>")), "Forbidden", RIGHT, [GROUP], id="a proxy"),
        pytest.param((refused(MAY_NOT), Response(403, b"no")), "Forbidden", RIGHT, [GROUP], id="no discovery"),
        pytest.param(
            (refused(not_found("jobsets.jobset.x-k8s.io", "j")),),
            "NotFound", 'jobsets.jobset.x-k8s.io "j" not found', [], id="no such object",
        ),
        pytest.param((refused(QUOTA), SERVED), "Forbidden", str(QUOTA), [GROUP], id="a quota"),
        pytest.param((refused(internal_error(AWAY)),), "InternalError", NO_ANSWER, [], id="a webhook that is away"),
        pytest.param((refused(internal_error("oh")),), "InternalError", OH, [], id="another error of the server"),
    ],
)  # fmt: skip
def test_refusals(script: tuple[Response, ...], reason: str, message: str, asked: list[str]) -> None:
    error, then = ask(*script)
    assert (error.reason, str(error), then) == (reason, message, asked)


def test_the_server_is_asked_once_what_it_serves() -> None:
    async def main() -> list[str]:
        transport = ScriptedTransport(refused(MAY_NOT), SERVED, refused(MAY_NOT))
        plain = PlainRefusals(cast("Any", transport))
        for _ in range(2):
            assert (await plain.request(Request("GET", f"{GROUP}/namespaces/team/jobsets"))).status == 403
        return [request.path for request in transport.requests]

    assert asyncio.run(main()).count(GROUP) == 1


def test_a_stream_is_refused_in_the_same_words() -> None:
    class Refusing(ScriptedTransport):
        def stream(self, request: Request) -> Any:
            raise MAY_NOT

    async def main() -> None:
        plain = PlainRefusals(cast("Any", Refusing(SERVED)))
        async with plain.stream(Request("GET", f"{GROUP}/namespaces/team/jobsets", {"watch": "1"})):
            pass

    with pytest.raises(ApiError, match="ask the administrator of the namespace"):
        asyncio.run(main())


def test_an_answer_that_is_no_refusal_of_a_webhook_stays_as_it_is() -> None:
    """Of a server that is not ready, it is the list of what it waits for."""
    unready = Response(500, b"[+]ping ok\n[-]etcd failed: reason withheld\nreadyz check failed\n")
    transport = ScriptedTransport(unready)
    asked = PlainRefusals(cast("Any", transport)).request(Request("GET", "/readyz?verbose"))
    assert asyncio.run(asked) == unready
