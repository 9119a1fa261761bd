"""How TLS is spoken: what is loaded for it."""

import os
import ssl

import pytest

from muster.runtime.kube.tls import no_bundle

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
