"""Where the kubeconfig is looked for, and what the environment adds."""

from pathlib import Path

import pytest

from muster.runtime.kube.kubeconfig import ClusterConfig, ConnectionConfig, KubeconfigError, UserConfig
from muster.runtime.kube.kubeconfig_files import in_cluster, load, proxy_from_environment


def write(path: Path, server: str = "https://h", context: str = "dev") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f"current-context: {context}\n"
        f"contexts: [{{name: {context}, context: {{cluster: {context}, user: u}}}}]\n"
        f"clusters: [{{name: {context}, cluster: {{server: '{server}', certificate-authority: ca}}}}]\n"
        "users: [{name: u, user: {token: t}}]\n"
    )
    return path


def service_account(directory: Path) -> Path:
    directory.mkdir()
    (directory / "token").write_text("t")
    (directory / "ca.crt").write_text("c")
    (directory / "namespace").write_text("team\n")
    return directory


def test_a_named_file_comes_first(tmp_path: Path) -> None:
    named, listed = write(tmp_path / "named", "https://named"), write(tmp_path / "listed", "https://listed")
    config = load({"KUBECONFIG": str(listed)}, path=named)
    assert config.cluster.server == "https://named"
    assert config.cluster.certificate_authority_file == tmp_path / "ca"


def test_a_relative_file_has_absolute_neighbours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "config")
    monkeypatch.chdir(tmp_path)
    assert load({}, path="config").cluster.certificate_authority_file == tmp_path / "ca"


def test_the_list_in_kubeconfig_is_merged_and_what_is_missing_is_skipped(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a/1", "https://1", "one"), write(tmp_path / "b/2", "https://2", "two")
    environ = {"KUBECONFIG": f"{tmp_path / 'missing'}:{first}::{second}:{first}", "HOME": "/nowhere"}
    assert load(environ).cluster == ClusterConfig("https://1", certificate_authority_file=tmp_path / "a/ca")
    assert load(environ, context="two").cluster.certificate_authority_file == tmp_path / "b/ca"


def test_the_default_is_in_the_home_directory(tmp_path: Path) -> None:
    write(tmp_path / ".kube/config", "https://home")
    assert load({"HOME": str(tmp_path)}).cluster.server == "https://home"


def test_a_pod_uses_its_service_account(tmp_path: Path) -> None:
    directory = service_account(tmp_path / "sa")
    environ = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    assert in_cluster(environ, directory) == ConnectionConfig(
        ClusterConfig("https://10.96.0.1:443", certificate_authority_file=directory / "ca.crt"),
        UserConfig(token_file=directory / "token"),
        namespace="team",
        source=str(directory),
    )


def test_a_pod_may_have_an_address_of_version_6(tmp_path: Path) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    assert in_cluster(environ, service_account(tmp_path / "sa")).cluster.server == "https://[fd00::1]:443"


def test_nothing_found_says_where_it_was_looked_for() -> None:
    with pytest.raises(KubeconfigError, match=r"~/\.kube/config does not exist; name one with --kubeconfig"):
        load({"HOME": "/nowhere"})
    with pytest.raises(KubeconfigError, match="no kubeconfig: /nowhere/x does not exist"):
        load({"KUBECONFIG": "/nowhere/x"})
    with pytest.raises(KubeconfigError, match="/nowhere/x: cannot be read: No such file or directory"):
        load({}, path="/nowhere/x")
    with pytest.raises(KubeconfigError, match="KUBERNETES_SERVICE_HOST"):
        in_cluster({})
    with pytest.raises(KubeconfigError, match="token: does not exist; the pod needs automount"):
        in_cluster({"KUBERNETES_SERVICE_HOST": "h", "KUBERNETES_SERVICE_PORT": "1"}, Path("/nowhere"))


def test_a_directory_is_no_kubeconfig(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="cannot be read: Is a directory"):
        load({"KUBECONFIG": str(tmp_path)})


def test_a_proxy_of_the_environment_is_used_unless_the_file_names_one(tmp_path: Path) -> None:
    path = write(tmp_path / "config", "https://example.com")
    assert load({"HTTPS_PROXY": "http://proxy:1"}, path=path).cluster.proxy_url == "http://proxy:1"
    path.write_text(path.read_text().replace("certificate-authority: ca", "proxy-url: 'http://other:2'"))
    assert load({"HTTPS_PROXY": "http://proxy:1"}, path=path).cluster.proxy_url == "http://other:2"


@pytest.mark.parametrize(
    ("server", "exceptions", "direct"),
    [
        ("https://example.com", "", False),
        ("https://example.com", "*", True),
        ("https://example.com", "other.com, example.com", True),
        ("https://api.example.com", "example.com", True),
        ("https://api.example.com", ".example.com", True),
        ("https://api.example.com", "*.example.com", True),
        ("https://example.com", ".example.com", False),
        ("https://badexample.com", "example.com", False),
        ("https://example.com:6443", "example.com:6443", True),
        ("https://example.com:6443", "example.com:443", False),
        ("https://10.1.2.3:6443", "10.0.0.0/8", True),
        ("https://10.1.2.3:6443", "10.1.2.3", True),
        ("https://10.1.2.3:6443", "10.1.2.3:6443", True),
        ("https://11.1.2.3:6443", "10.0.0.0/8", False),
        ("https://[fd00::1]:6443", "fd00::/16", True),
        ("https://localhost:6443", "", True),
        ("https://127.1.2.3:6443", "", True),
        ("https://[::1]:6443", "", True),
        ("http://example.com", "", True),  # HTTPS_PROXY is for https
    ],
)
def test_no_proxy_is_read_as_go_reads_it(server: str, exceptions: str, direct: bool) -> None:
    environ = {"HTTPS_PROXY": "proxy:3128", "NO_PROXY": exceptions}
    assert proxy_from_environment(server, environ) == ("" if direct else "http://proxy:3128")


def test_a_proxy_that_is_not_http_is_refused() -> None:
    with pytest.raises(KubeconfigError, match="HTTPS_PROXY: is not an http:// or https:// proxy"):
        proxy_from_environment("https://h", {"https_proxy": "socks5://u:secret@h"})
