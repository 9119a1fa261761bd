"""Which workers are the same cluster, as far as is known."""

import pytest

from muster.multicluster.identity import Identity, endpoint_of, identity_in
from muster.runtime.kube.kubeconfig import ClusterConfig

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
