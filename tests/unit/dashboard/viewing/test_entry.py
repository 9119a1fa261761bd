"""How viewers come in by the settings, and which files must prove a proxy before anybody is served."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from muster.api.config.types import Dashboard, IdentityHeaders
from muster.dashboard.viewing.entry import ProxyFilesError, plan_entry
from muster.dashboard.viewing.fronts import IdentityFront, TokenFront
from muster.dashboard.viewing.impersonation import ImpersonatingHost
from muster.dashboard.viewing.tokens import TokenHost
from muster.runtime.certificates import issue_certificate, make_authority, subject_of
from muster.runtime.clock import RealClock
from muster.runtime.kube.kubeconfig import ClusterConfig, ConnectionConfig, Impersonation, UserConfig

CONFIG = ConnectionConfig(ClusterConfig("https://127.0.0.1:1"), source="prod.yaml")
NOW = datetime.now(UTC)
SECRET = {"secret": "0123456789abcdef\n"}
BY_SECRET = IdentityHeaders(user_header="X-User", secret_header="X-Secret")
BY_NAME = IdentityHeaders(user_header="X-User", allowed_names=("front",))


def certificates() -> dict[str, str]:
    authority = make_authority("ca", NOW, timedelta(days=1))
    name = subject_of("dashboard")
    pair = issue_certificate(authority, name, ExtendedKeyUsageOID.SERVER_AUTH, NOW, timedelta(days=1), ["localhost"])
    return {
        "ca.crt": authority.certificate_pem.decode(),
        "tls.crt": pair.certificate_pem.decode(),
        "tls.key": pair.key_pem.decode(),
    }


PAIR = certificates()


def plan(folder: Path, identity: IdentityHeaders | None, files: dict[str, str], config: ConnectionConfig = CONFIG):
    for name, text in files.items():
        (folder / name).write_text(text)
    return plan_entry(config, RealClock(), Dashboard(identity_headers=identity, sign_out_path="/out"), folder)


def test_viewers_have_tokens_without_a_proxy_that_names_them(tmp_path: Path) -> None:
    entry = plan(tmp_path, None, {})
    assert isinstance(entry.host, TokenHost)
    assert (entry.front, entry.context) == (None, None)
    handed = plan_entry(CONFIG, RealClock(), Dashboard(token_header="X-Token"), tmp_path)
    assert isinstance(handed.front, TokenFront)


def test_a_proxy_with_a_secret_may_come_without_tls(tmp_path: Path) -> None:
    entry = plan(tmp_path, BY_SECRET, SECRET)
    assert isinstance(entry.host, ImpersonatingHost)
    assert isinstance(entry.front, IdentityFront)
    assert (entry.context, entry.sign_out_path) == (None, "/out")


@pytest.mark.parametrize(
    ("identity", "mode"), [(BY_NAME, ssl.CERT_REQUIRED), (BY_SECRET, ssl.CERT_NONE)], ids=["name", "secret"]
)
def test_a_certificate_makes_it_serve_with_tls(tmp_path: Path, identity: IdentityHeaders, mode: int) -> None:
    context = plan(tmp_path, identity, SECRET | PAIR).context
    assert context is not None
    assert context.verify_mode == mode


@pytest.mark.parametrize(
    ("identity", "files", "said"),
    [
        (BY_SECRET, {}, "secret holds no secret of the proxy"),
        (BY_SECRET, {"secret": "short\n"}, "a line of 16 characters or more"),
        (BY_NAME, SECRET, "tls.crt: No such file"),
        (BY_NAME, {"tls.crt": PAIR["tls.crt"]}, "tls.key: No such file"),
        (BY_NAME, PAIR | {"tls.key": certificates()["tls.key"]}, "are no pair in PEM"),
        (BY_NAME, PAIR | {"ca.crt": ""}, "ca.crt holds no authority in PEM"),
        (BY_NAME, PAIR | {"ca.crt": "nonsense"}, "ca.crt holds no authority in PEM"),
        (BY_NAME, {name: PAIR[name] for name in ("tls.crt", "tls.key")}, "ca.crt: No such file"),
    ],
)
def test_nobody_is_served_without_what_proves_the_proxy(
    tmp_path: Path, identity: IdentityHeaders, files: dict[str, str], said: str
) -> None:
    with pytest.raises(ProxyFilesError, match=said):
        plan(tmp_path, identity, files)


def test_whoever_acts_as_somebody_cannot_act_as_each_viewer(tmp_path: Path) -> None:
    config = ConnectionConfig(CONFIG.cluster, UserConfig(impersonation=Impersonation("bob")), source="prod.yaml")
    with pytest.raises(ProxyFilesError, match=r"prod\.yaml acts as somebody else already"):
        plan(tmp_path, BY_SECRET, SECRET, config)
