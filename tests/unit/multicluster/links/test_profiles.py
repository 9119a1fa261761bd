"""Which connection a ClusterProfile stands for."""

from typing import Any

import msgspec
import pytest
from tests.unit.multicluster.links.test_kubeconfigs import EXEC, PEM

from muster.api.config.types import AccessProvider, ExecCredentials, ExecVariable
from muster.api.groups.clusterinventory import ClusterProfile
from muster.multicluster.links.kubeconfigs import UntrustedKubeconfigError
from muster.multicluster.links.profiles import ProfileError, find_connection

PLUGIN = ExecCredentials(
    command="/bin/credentials",
    args=("--of", "x"),
    env=(ExecVariable(name="A", value="b"),),
    api_version="client.authentication.k8s.io/v1",
    provide_cluster_info=True,
    interactive_mode="Always",
)
PROVIDERS = (AccessProvider(name="first", exec_config=PLUGIN), AccessProvider(name="second", exec_config=PLUGIN))
CLUSTER = {"server": "https://worker.example:6443", "certificate-authority-data": PEM}


def profile(access: dict[str, Any], credentials: dict[str, Any] | None = None) -> ClusterProfile:
    status = {
        "accessProviders": [{"name": name, "cluster": cluster} for name, cluster in access.items()],
        "credentialProviders": [{"name": name, "cluster": cluster} for name, cluster in (credentials or {}).items()],
    }
    return msgspec.convert({"metadata": {"name": "p"}, "status": status}, ClusterProfile)


def test_the_profile_says_where_and_the_configuration_by_which_program() -> None:
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"cluster": "p"}}
    config = find_connection(profile({"first": CLUSTER | {"extensions": [extension]}}), PROVIDERS)
    assert (config.cluster.server, config.cluster.exec_extension) == (CLUSTER["server"], {"cluster": "p"})
    plugin = config.user.exec
    assert plugin is not None
    assert (plugin.command, plugin.args, plugin.env) == ("/bin/credentials", ("--of", "x"), (("A", "b"),))
    assert (plugin.interactive_mode, plugin.provide_cluster_info) == ("Never", True)


@pytest.mark.parametrize(
    ("access", "credentials", "server"),
    [
        (("second",), (), "access-second"),
        (("second", "first"), (), "access-first"),  # the Configuration's order
        ((), ("first",), "credentials-first"),
        (("first",), ("first",), "access-first"),  # the other is the old name
        (("other", "second"), ("other",), "access-second"),
    ],
)
def test_the_first_provider_that_both_have_is_taken(
    access: tuple[str, ...], credentials: tuple[str, ...], server: str
) -> None:
    def offered(kind: str, names: tuple[str, ...]) -> dict[str, Any]:
        return {name: CLUSTER | {"server": f"https://{kind}-{name}"} for name in names}

    found = find_connection(profile(offered("access", access), offered("credentials", credentials)), PROVIDERS)
    assert found.cluster.server == f"https://{server}"


@pytest.mark.parametrize(
    ("access", "problem"),
    [
        ({}, 'no matching cluster accessor found for cluster profile "p"'),
        ({"other": CLUSTER}, 'no matching cluster accessor found for cluster profile "p"'),
        ({"first": {}}, "server: is missing"),
        ({"first": {"server": 7}}, "server"),
        ({"first": CLUSTER | {"certificate-authority-data": "!"}}, "is not base64"),
    ],
)
def test_a_profile_without_a_way_to_its_cluster_is_said_to_be(access: dict[str, Any], problem: str) -> None:
    with pytest.raises(ProfileError, match=problem):
        find_connection(profile(access), PROVIDERS)


@pytest.mark.parametrize(
    ("cluster", "problem"),
    [
        ({"server": "http://worker"}, "https"),
        ({"server": "https://wor_ker"}, "untrusted server endpoint"),
        ({"insecure-skip-tls-verify": True, "certificate-authority-data": ""}, "insecure-skip-tls-verify"),
        ({"certificate-authority": "/etc/ca", "certificate-authority-data": ""}, "certificate-authority-data"),
        ({"proxy-url": "http://10.0.0.1:80"}, "proxy-url is not allowed"),
    ],
)
def test_a_profile_asks_for_no_more_than_a_kubeconfig_may(cluster: dict[str, Any], problem: str) -> None:
    with pytest.raises(UntrustedKubeconfigError, match=problem):
        find_connection(profile({"first": CLUSTER | cluster}), PROVIDERS)


def test_a_profile_names_no_programs() -> None:
    config = find_connection(profile({"first": CLUSTER | {"user": {"exec": EXEC}, "exec": EXEC}}), PROVIDERS)
    assert config.user.exec is not None
    assert config.user.exec.command == PLUGIN.command
