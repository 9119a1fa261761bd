"""How TLS is spoken: what is loaded for it."""

import os
import ssl
from datetime import UTC, datetime

import pytest
import trustme

from muster.runtime.kube.tls import explain, no_bundle

VARIABLE = ssl.get_default_verify_paths().openssl_cafile_env


@pytest.mark.parametrize("before", [None, "/somewhere/else.pem"])
def test_the_bundle_of_the_system_is_hidden_for_a_while(before: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if before is None:
        monkeypatch.delenv(VARIABLE, raising=False)
    else:
        monkeypatch.setenv(VARIABLE, before)

    with no_bundle():
        found = ssl.create_default_context().get_ca_certs()

    assert found == []
    assert os.environ.get(VARIABLE) == before


@pytest.mark.parametrize(
    ("not_before", "not_after", "reason"),
    [
        (2000, 2001, "certificate has expired; compare this machine's clock with the server's (date); if both"),
        (9000, 9001, "certificate is not yet valid; compare this machine's clock with the server's (date)"),
    ],
)
def test_a_certificate_of_another_time_points_to_the_clock(not_before: int, not_after: int, reason: str) -> None:
    first, last = (datetime(year, 1, 1, tzinfo=UTC) for year in (not_before, not_after))
    assert reason in explain(refuse_server(first, last))


def refuse_server(not_before: datetime, not_after: datetime) -> ssl.SSLCertVerificationError:
    """Return how a client refuses a server whose certificate is valid between these times."""
    authority = trustme.CA()
    serving, trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.issue_cert("box", not_before=not_before, not_after=not_after).configure_cert(serving)
    authority.configure_trust(trusting)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(to_client, to_server, server_hostname="box")
    server = serving.wrap_bio(to_server, to_client, server_side=True)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    with pytest.raises(ssl.SSLWantReadError):
        server.do_handshake()
    with pytest.raises(ssl.SSLCertVerificationError) as refused:
        client.do_handshake()
    return refused.value
