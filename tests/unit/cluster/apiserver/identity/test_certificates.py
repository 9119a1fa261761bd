"""The authority, what it signs, when it signs anew, and the files that it keeps."""

import stat
from datetime import UTC, datetime, timedelta

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from muster.cluster.apiserver.identity.certificates import Authority, CredentialError, load_certificate, user_of
from muster.cluster.apiserver.identity.credentials import Credentials
from muster.cluster.apiserver.identity.users import ADMIN, AUTHENTICATED, User
from muster.runtime.ids import Ids

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BOB = User("bob", frozenset({"a", "b", AUTHENTICATED}))


def test_what_is_signed(tmp_path):
    authority = Authority(tmp_path, NOW)
    ca = authority.pair.certificate
    assert isinstance(ca.public_key(), ec.EllipticCurvePublicKey)
    assert ca.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert timedelta(days=3649) < ca.not_valid_after_utc - NOW < timedelta(days=3651)
    server = authority.server().certificate
    server.verify_directly_issued_by(ca)
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {"localhost", "kubernetes.default"} <= set(names.get_values_for_type(x509.DNSName))
    assert {str(ip) for ip in names.get_values_for_type(x509.IPAddress)} == {"127.0.0.1", "::1"}
    assert timedelta(days=364) < server.not_valid_after_utc - NOW < timedelta(days=366)
    client = authority.client("bob", BOB)
    assert user_of(client.certificate) == BOB
    assert "unencrypted" not in repr(client)


def test_everything_is_kept_until_two_thirds_of_its_life(tmp_path):
    def load(days):
        authority = Authority(tmp_path, NOW + timedelta(days=days))
        return authority.pair.certificate, authority.server().certificate, authority.client("bob", BOB).certificate

    first, second, third = load(0), load(200), load(250)
    assert first == second
    assert third[0] == first[0]
    assert third[1] != first[1]
    assert third[2] != first[2]


def test_another_name_or_user_is_signed_anew(tmp_path):
    authority = Authority(tmp_path, NOW)
    first, server = authority.client("x", BOB), authority.server()
    assert authority.client("x", User("eve")).certificate != first.certificate
    assert authority.server(("localhost", "10.0.0.1")).certificate != server.certificate


def test_a_new_authority_signs_everything_anew(tmp_path):
    old = Authority(tmp_path, NOW).server()
    (tmp_path / "ca.pem").unlink()
    new = Authority(tmp_path, NOW)
    new.server().certificate.verify_directly_issued_by(new.pair.certificate)
    assert new.server().certificate != old.certificate


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: b"", "is damaged"),
        (lambda text: text[:200], "is damaged"),
        (lambda text: text.split(b"-----BEGIN PRIVATE")[0], "is damaged"),
    ],
)
def test_damaged_files_are_named(tmp_path, damage, message):
    Authority(tmp_path, NOW)
    file = tmp_path / "ca.pem"
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(CredentialError, match=rf"ca\.pem {message}.*remove it"):
        Authority(tmp_path, NOW)


def test_a_key_of_something_else_is_named(tmp_path):
    authority = Authority(tmp_path, NOW)
    other = authority.server()
    (tmp_path / "ca.pem").write_bytes(authority.pair.certificate_pem + other.key_pem)
    with pytest.raises(CredentialError, match="the key is not the certificate's"):
        Authority(tmp_path, NOW)


def test_an_authority_that_is_too_old(tmp_path):
    Authority(tmp_path, NOW)
    with pytest.raises(CredentialError, match="has expired"):
        Authority(tmp_path, NOW + timedelta(days=3651))


def test_users_of_certificates(tmp_path):
    assert load_certificate(b"nonsense") is None
    assert user_of(Authority(tmp_path, NOW).pair.certificate) is not None


def test_credentials_are_for_their_owner_alone(tmp_path):
    first = Credentials.load(tmp_path / "pki", NOW, Ids())
    again = Credentials.load(tmp_path / "pki", NOW, Ids())
    assert first.token == again.token
    assert len(first.token) == 64
    kubeconfig = tmp_path / "kubeconfig"
    first.write_kubeconfig(kubeconfig, "https://127.0.0.1:1")
    for file in [kubeconfig, *(tmp_path / "pki").iterdir()]:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "pki").stat().st_mode) == 0o700
    document = yaml.safe_load(kubeconfig.read_text())
    assert list(document) == ["apiVersion", "kind", "clusters", "users", "contexts", "current-context"]
    assert document["contexts"] == [
        {"name": "muster", "context": {"cluster": "muster", "user": "muster-admin", "namespace": "default"}}
    ]
    assert document["current-context"] == document["contexts"][0]["name"]
    [cluster], [user] = document["clusters"], document["users"]
    assert cluster["cluster"].pop("certificate-authority-data")
    assert cluster == {"name": "muster", "cluster": {"server": "https://127.0.0.1:1", "disable-compression": True}}
    assert user["user"]["token"] == first.token
    assert user_of(first.admin.certificate) == ADMIN
    assert first.authenticator().user(None, f"Bearer {first.token}") == ADMIN


def test_what_a_cluster_publishes_names_no_user(tmp_path):
    document = yaml.safe_load(Credentials.load(tmp_path, NOW, Ids()).cluster_info("https://[::1]:1"))
    [cluster] = document["clusters"]
    assert cluster["cluster"].pop("certificate-authority-data")
    assert cluster == {"name": "", "cluster": {"server": "https://[::1]:1"}}
    assert (document["users"], document["contexts"], document["current-context"]) == ([], [], "")


def test_files_are_replaced_whole(tmp_path):
    credentials = Credentials.load(tmp_path, NOW, Ids())
    file = tmp_path / "kubeconfig"
    file.write_text("mine")
    file.chmod(0o644)
    (tmp_path / "kubeconfig.new").write_text("left behind by a kill")
    credentials.write_kubeconfig(file, "https://127.0.0.1:1")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not (tmp_path / "kubeconfig.new").exists()


def test_a_damaged_token_is_made_anew(tmp_path):
    token = Credentials.load(tmp_path, NOW, Ids()).token
    (tmp_path / "admin.token").write_text("short")
    assert Credentials.load(tmp_path, NOW, Ids()).token not in (token, "short")
