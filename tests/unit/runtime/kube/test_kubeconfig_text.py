"""A kubeconfig written anew says what it said, and nothing else."""

from base64 import b64encode
from pathlib import Path

import pytest
import yaml
from msgspec.structs import replace

from muster.runtime.kube.kubeconfig import (
    ClusterConfig,
    ConnectionConfig,
    ExecConfig,
    Impersonation,
    InsecureKubeconfigError,
    UserConfig,
)
from muster.runtime.kube.kubeconfig_parse import parse
from muster.runtime.kube.kubeconfig_text import write_kubeconfig

CA = b"-----BEGIN CERTIFICATE-----\n"
KEY = b"-----BEGIN PRIVATE KEY-----\n"
PLAIN = ConnectionConfig(ClusterConfig("https://box:6443", CA), UserConfig(token="t"))


@pytest.mark.parametrize(
    "config",
    [
        PLAIN,
        replace(PLAIN, namespace="lab"),
        replace(PLAIN, user=UserConfig(client_certificate=CA, client_key=KEY)),
        replace(PLAIN, cluster=ClusterConfig("https://[fd00::1]:6443/prefix", None, tls_server_name="box")),
        replace(PLAIN, cluster=replace(PLAIN.cluster, disable_compression=True)),
        replace(PLAIN, user=replace(PLAIN.user, impersonation=Impersonation("ada", "7", ("g",), (("k", ("v", "w")),)))),
    ],
)
def test_it_is_read_as_it_was_written(config):
    found = parse(write_kubeconfig(config, "box").encode(), "").connection()
    assert found == replace(config, context="box")


def test_other_contexts_and_their_secrets_stay_behind():
    authority = b64encode(CA).decode()
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": name,
                "cluster": {"server": f"https://{name}", "certificate-authority-data": authority},
            }
            for name in ("box", "other")
        ],
        "users": [{"name": name, "user": {"token": f"secret-of-{name}"}} for name in ("box", "other")],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}} for name in ("box", "other")],
        "current-context": "box",
    }
    written = write_kubeconfig(parse(yaml.safe_dump(document).encode(), "").connection(), "w")
    assert "secret-of-box" in written
    assert "other" not in written


@pytest.mark.parametrize(
    "config",
    [
        replace(PLAIN, cluster=replace(PLAIN.cluster, insecure_skip_tls_verify=True)),
        replace(PLAIN, cluster=ClusterConfig("http://box")),
        replace(PLAIN, cluster=ClusterConfig("https://box", certificate_authority_file=Path("/ca"))),
        replace(PLAIN, user=UserConfig(token_file=Path("/token"))),
        replace(PLAIN, user=UserConfig(exec=ExecConfig("client.authentication.k8s.io/v1", "steal"))),
        replace(PLAIN, user=UserConfig(username="u", password="p")),
    ],
)
def test_what_another_user_must_not_be_given_is_refused(config):
    with pytest.raises(InsecureKubeconfigError):
        write_kubeconfig(config, "box")
