"""Which workers are the same cluster, as far as is known."""

import asyncio
from typing import Any

import pytest
from tests.unit.multicluster.scripts import answer, asked, refusal

from muster.api.status import ApiError
from muster.multicluster.links.identity import Identity, Register, endpoint_of, identity_in, uid_of
from muster.runtime.client import Client
from muster.runtime.kube.kubeconfig import ClusterConfig
from muster.runtime.transport import Response

SERVER = ClusterConfig(server="https://w:6443", certificate_authority=b"CA")


@pytest.mark.parametrize(
    ("before", "found", "same"),
    [
        (Identity("a", "1"), Identity("a", "1"), True),
        (Identity("a", "1"), Identity("a", "2"), True),
        (Identity("a", "1"), Identity("b", "1"), False),
        (Identity("a", "1"), Identity("b", "2"), False),
        (Identity("", "1"), Identity("", "1"), True),
        (Identity("", "1"), Identity("", "2"), None),
        (Identity("a", "1"), Identity("", "1"), True),
        (Identity("a", "1"), Identity("", "2"), None),
        (Identity("", "1"), Identity("a", "1"), True),
        (Identity("", "1"), Identity("a", "2"), None),
    ],
)
def test_the_uid_decides_and_then_the_address(before: Identity, found: Identity, same: bool | None) -> None:
    assert before.is_same(found) is same


@pytest.mark.parametrize("identity", [Identity("a-b", "1"), Identity("", "1")])
def test_what_is_stored_is_read_again(identity: Identity) -> None:
    assert identity_in(identity.text) == identity


@pytest.mark.parametrize("text", ["", "@", "a@"])
def test_what_says_nothing_is_none(text: str) -> None:
    assert identity_in(text) is None


@pytest.mark.parametrize(
    ("changed", "same"),
    [
        ({}, True),
        ({"proxy_url": "https://p", "disable_compression": True}, True),
        ({"server": "https://w:6444"}, False),
        ({"certificate_authority": b"CB"}, False),
        ({"certificate_authority": None}, False),
        ({"tls_server_name": "v"}, False),
    ],
)
def test_an_endpoint_is_an_address_and_what_it_is_trusted_by(changed: dict[str, object], same: bool) -> None:
    fields = {name: getattr(SERVER, name) for name in ("server", "certificate_authority", "tls_server_name")}
    other = ClusterConfig(**(fields | changed))
    assert (endpoint_of(other) == endpoint_of(SERVER)) is same


@pytest.mark.parametrize(
    ("said", "uid"),
    [
        pytest.param(answer({"metadata": {"uid": "1a-2B"}}), "1a-2B", id="its uid"),
        pytest.param(answer({"metadata": {"uid": "a@b c\u00e9\n"}}), "abc", id="what no uid has is left out"),
        pytest.param(answer({"metadata": {"uid": "a" * 99}}), "a" * 64, id="what is too long for a uid is cut"),
        pytest.param(refusal(403, "Forbidden"), "", id="it does not show it"),
        pytest.param(refusal(404, "NotFound"), "", id="it has none"),
    ],
)
def test_a_worker_is_known_by_the_uid_that_it_shows(said: Response, uid: str) -> None:
    assert asyncio.run(asked(uid_of, said)) == (uid, ["GET kube-system"], [])


@pytest.mark.parametrize("code", [401, 409, 500])
def test_a_worker_that_fails_is_not_one_without_a_uid(code: int) -> None:
    with pytest.raises(ApiError):
        asyncio.run(asked(uid_of, refusal(code, "Failed")))


def cluster(identity: str | None) -> Response:
    annotations = {} if identity is None else {"muster.dev/multikueue-identity": identity}
    return answer({"metadata": {"name": "w", "annotations": annotations}})


def workloads(*homes: str) -> Response:
    items = [
        {"metadata": {"name": f"w{number}", "namespace": "ns", "annotations": {"muster.dev/multikueue-home": home}}}
        for number, home in enumerate(homes)
    ]
    return answer({"metadata": {}, "items": items})


@pytest.mark.parametrize(
    ("stored", "homes", "has_jobs", "why", "written"),
    [
        pytest.param(None, (), False, "", "a@1", id="it is new"),
        pytest.param("a@1", None, False, "", None, id="it is the same"),
        pytest.param("a@2", None, False, "", "a@1", id="it has moved"),
        pytest.param("@1", None, False, "", "a@1", id="it shows its uid by now"),
        pytest.param("b@1", (), False, "", "a@1", id="another, to which nothing was sent"),
        pytest.param("b@1", ("v",), False, "", "a@1", id="another, to which others were sent"),
        pytest.param("b@1", ("w",), True, "another cluster answers, or its store was wiped (kube-system is a,"
                     " and was b): 1 workload sent", None, id="another, whatever jobs it has"),
        pytest.param("@2", ("w", "w"), False, "perhaps another cluster answers (nothing is known by its namespace"
                     " kube-system): 2 workloads sent", None, id="perhaps another"),
        pytest.param("@2", ("w",), True, "", "a@1", id="perhaps another, and it has the jobs"),
        pytest.param(None, ("w",), False, "perhaps another cluster had this name before: 1 workload sent", None,
                     id="perhaps another before it"),
        pytest.param(None, ("w",), True, "", "a@1", id="it is new, and has the jobs of a manager that lost its store"),
    ],
)  # fmt: skip
def test_who_is_let_in(
    stored: str | None, homes: tuple[str, ...] | None, has_jobs: bool, why: str, written: str | None
) -> None:
    script = [cluster(stored)]
    if homes is not None:
        script.append(workloads(*homes))
    if written is not None:
        script.append(cluster(written))

    async def admit(client: Client) -> str:
        return await Register(client).admit("w", Identity("a", "1"), lambda _: has_jobs)

    outcome, _, bodies = asyncio.run(asked(admit, *script))
    assert outcome.startswith(why) if why else outcome == ""
    patches: list[Any] = [] if written is None else [{"muster.dev/multikueue-identity": written}]
    assert [body["metadata"]["annotations"] for body in bodies] == patches


def test_a_worker_that_shows_its_uid_no_more_keeps_the_one_that_is_known() -> None:
    async def admit(client: Client) -> str:
        return await Register(client).admit("w", Identity("", "1"), lambda _: False)

    assert asyncio.run(asked(admit, cluster("a@1"))) == ("", ["GET w"], [])
