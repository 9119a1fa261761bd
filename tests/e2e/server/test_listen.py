"""`muster up --listen`: a server that other machines reach. Another address of loopback stands for such a machine's."""

import json
import socket
import ssl
from base64 import b64decode

import pytest
import yaml

OUTSIDE = "127.77.0.1"


def cluster_of(kubeconfig):
    [one] = yaml.safe_load(kubeconfig)["clusters"]
    return one["cluster"]


def ask(muster, host, path, token="", name=""):
    """Status and body, of a server that is trusted as the admin's kubeconfig says, under a name."""
    cluster = cluster_of((muster.home / "kubeconfig").read_text())
    port = int(cluster["server"].rpartition(":")[2])
    context = ssl.create_default_context(cadata=b64decode(cluster["certificate-authority-data"]).decode())
    with (
        socket.create_connection((host, port), 5) as plain,
        context.wrap_socket(plain, server_hostname=name or host) as secure,
    ):
        secured = f"Authorization: Bearer {token}\r\n" if token else ""
        secure.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{secured}\r\n".encode())
        with secure.makefile("rb") as answer:
            head, _, body = answer.read().partition(b"\r\n\r\n")
    return int(head.split()[1]), body


def token_of(muster):
    return yaml.safe_load((muster.home / "kubeconfig").read_text())["users"][0]["user"]["token"]


def cluster_info(muster):
    path = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
    status, body = ask(muster, "127.0.0.1", path, token_of(muster))
    assert status == 200
    return json.loads(body)["data"]["kubeconfig"]


@pytest.fixture
def listening(muster):
    return muster, muster("up", "--detach", "--port", "0", "--listen", OUTSIDE, "--name", "box1").stdout


def test_it_serves_under_the_names_given_and_not_without_a_credential(listening):
    muster, said = listening
    inside, limits, outside, warning, export = said.splitlines()
    admin = cluster_of((muster.home / "kubeconfig").read_text())
    host, _, port = admin["server"].rpartition(":")
    assert host == "https://127.0.0.1", "the admin's own kubeconfig stays on loopback"
    assert inside.startswith(f"ready: {admin['server']}, process ")
    assert limits.startswith("limits: memory ")
    assert outside == (
        f"other machines reach it at https://box1:{port}, with a credential of this cluster and not without one."
    )
    assert warning.startswith("A user who may create jobs or pods here runs programs on this machine as ")
    assert export.startswith("export KUBECONFIG=")

    info = cluster_info(muster)
    assert admin.pop("disable-compression") is True, "which is for this machine alone"
    assert cluster_of(info) == admin | {"server": f"https://box1:{port}"}
    assert yaml.safe_load(info)["users"] == []

    for path in ("/version", "/api", "/livez", "/api/v1/namespaces/kube-public/configmaps/cluster-info"):
        assert ask(muster, OUTSIDE, path)[0] == 401, path
    for name in (OUTSIDE, "box1"):
        assert ask(muster, OUTSIDE, "/version", token_of(muster), name)[0] == 200
    with pytest.raises(ssl.SSLCertVerificationError):
        ask(muster, OUTSIDE, "/version", token_of(muster), "127.77.0.2")


def test_a_restart_without_it_serves_this_machine_alone(listening):
    muster, _ = listening
    muster("down")
    said = muster("up", "--detach", "--port", "0", "--forget").stdout.splitlines()
    assert [line.partition(" ")[0] for line in said] == ["ready:", "limits:", "export"]
    inside = cluster_of((muster.home / "kubeconfig").read_text())
    assert cluster_of(cluster_info(muster))["server"] == inside["server"]
    with pytest.raises(ConnectionRefusedError):
        ask(muster, OUTSIDE, "/version")


@pytest.mark.parametrize(
    ("options", "code", "problem"),
    [
        (["--listen", "localhost"], 1, "localhost is 127.0.0.1 on this machine, which other machines cannot reach"),
        (["--listen", "192.0.2.77"], 1, "cannot listen on 192.0.2.77: Cannot assign requested address"),
        (["--listen", "0.0.0.0"], 2, "add --name"),
        (["--name", "box1"], 2, "needs --listen"),
    ],
)
def test_where_it_cannot_listen_it_says_so_in_a_line(muster, options, code, problem):
    done = muster("up", "--detach", "--port", "0", *options, check=False)
    assert done.returncode == code
    assert problem in done.stderr
    assert "Traceback" not in done.stderr
