"""The dashboard behind a proxy that names viewers, on a real server: with the role that is installed, and no more."""

import http.client
import json
import os
import re
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from tests.cluster.conftest import Cluster, until
from tests.kubeplane import needs_kubernetes

from muster.api.config import load
from muster.install.documents import make_documents
from muster.install.options import Options, make_default_configuration

pytestmark = [needs_kubernetes, pytest.mark.kubectl, pytest.mark.timeout(600)]

SECRET = "0123456789abcdef"
SETTINGS = """
muster:
  dashboard:
    identityHeaders:
      userHeader: X-Remote-User
      groupsHeader: X-Remote-Group
      allowedGroups: [lab]
      extraHeaders: {example.com/team: X-Remote-Team}
      allowedNames: [front-proxy]
      secretHeader: X-Proxy-Secret
"""
RIGHT = {"X-Proxy-Secret": SECRET}
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  suspend: true
  template: {spec: {restartPolicy: Never, containers: [{name: c, image: none}]}}
"""


@dataclass(frozen=True)
class Pages:
    """The served pages. certificates: the folder of the plane with those of its own front proxy."""

    port: int
    certificates: Path

    def ask(
        self, path: str, headers: Mapping[str, str], form: str | None = None, certificate: str = "proxy"
    ) -> tuple[int, str]:
        """Return status and text, as a proxy with a certificate gets them."""
        context = ssl.create_default_context(cafile=str(self.certificates / "tls.crt"))
        if certificate:
            pair = (self.certificates / f"{certificate}.{end}" for end in ("crt", "key"))
            context.load_cert_chain(*map(str, pair))
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=context, timeout=60)
        kind = {"Content-Type": "application/x-www-form-urlencoded", "Origin": f"https://127.0.0.1:{self.port}"}
        with closing(connection):
            connection.request("GET" if form is None else "POST", path, form, {**kind, **headers})
            answer = connection.getresponse()
            return answer.status, answer.read().decode().replace("&#34;", '"')


@pytest.fixture(scope="module")
def pages(bare: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    folder = tmp_path_factory.mktemp("dashboard")
    text = make_default_configuration() + SETTINGS
    installed = make_documents(Options(text, load(text), dashboard=True, kinds=()))
    own = [each for each in installed if each["metadata"]["name"].startswith("muster-dashboard")]
    rights = [each for each in own if each["kind"] in ("ServiceAccount", "ClusterRole", "ClusterRoleBinding")]
    assert len(rights) == 3
    bare.kubectl("apply", "-f", "-", text="".join(f"---\n{json.dumps(each)}\n" for each in rights))
    bare.kubectl("create", "clusterrolebinding", "alice", "--clusterrole=view", "--user=alice")
    bare.kubectl("create", "rolebinding", "lab", "--clusterrole=edit", "--group=lab")
    until(lambda: bare.get("clusterrole", "edit")["rules"] and bare.get("clusterrole", "view")["rules"])
    bare.kubectl("create", "-f", "-", text=JOB)
    (folder / "config.yaml").write_text(text)
    home = bare.plane.home
    for name, source in {"ca.crt": "proxy-ca.crt", "tls.crt": "tls.crt", "tls.key": "tls.key"}.items():
        (folder / name).write_bytes((home / source).read_bytes())
    (folder / "secret").write_text(SECRET)
    (folder / "token").write_text(bare.token("muster-dashboard"))
    document = yaml.safe_load(bare.plane.kubeconfig.read_text())
    document["users"][0]["user"] = {"tokenFile": str(folder / "token")}
    document["clusters"][0]["cluster"]["certificate-authority"] = str(home / "tls.crt")
    (folder / "kubeconfig").write_text(yaml.safe_dump(document))
    command = ["-m", "muster.cli", "dashboard", "--kubeconfig", str(folder / "kubeconfig"), "--sign-in"]
    proxy = ["--config", str(folder / "config.yaml"), "--proxy-files", str(folder), "--listen", "127.0.0.1:0"]
    # Another certificate of the same authority, such as those of other components.
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", "other.key",
         "-out", "other.crt", "-subj", "/CN=other", "-CA", "proxy-ca.crt", "-CAkey", "proxy-ca.key",
         "-addext", "extendedKeyUsage=clientAuth"],
        cwd=home, check=True, capture_output=True,
    )  # fmt: skip
    process = subprocess.Popen([sys.executable, *command, *proxy], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        found = re.fullmatch(r"serving at https://127\.0\.0\.1:(\d+)/ui/\n", said)
        assert found is not None, said
        yield Pages(int(found[1]), home)
    finally:
        process.kill()
        process.communicate()


def test_each_viewer_sees_with_their_own_rights(pages: Pages) -> None:
    status, text = pages.ask("/ui/jobs", {"X-Remote-User": "alice", "X-Remote-Team": "blue", **RIGHT})
    assert status == 200
    assert ">alice<" in text
    assert "train" in text
    status, text = pages.ask("/ui/jobs/default/train", {"X-Remote-User": "eve", **RIGHT})
    assert status == 403
    assert 'User "eve" cannot' in text
    status, _ = pages.ask("/ui/jobs/default/train", {"X-Remote-User": "eve", "X-Remote-Group": "x, lab", **RIGHT})
    assert status == 200


def test_writes_are_made_as_the_viewer(pages: Pages, bare: Cluster) -> None:
    def cancel(**who: str) -> tuple[int, str]:
        headers = {"X-Remote-" + name: value for name, value in who.items()} | RIGHT
        _, page = pages.ask("/ui/jobs/default/train/cancel", headers)
        key = re.findall('name="form_key" value="([^"]+)"', page)
        return pages.ask("/ui/jobs/default/train/cancel", headers, f"form_key={key[0] if key else ''}")

    status, text = cancel(User="alice")  # who may look alone
    assert status == 403
    assert 'User "alice" cannot' in text
    assert bare.get("job", "train")
    status, text = cancel(User="eve", Group="lab")
    assert status == 303, text
    until(lambda: "train" not in bare.kubectl("get", "jobs", "-o", "name"))


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"X-Remote-User": "alice"}, 401),
        ({"X-Remote-User": "alice", "X-Proxy-Secret": "wrong"}, 401),
        ({**RIGHT}, 401),
        ({"X-Remote-User": "system:admin", **RIGHT}, 403),
        ({"X-Remote-User": "alice", "X-Remote-Group": "system:masters", **RIGHT}, 403),
    ],
)
def test_nobody_comes_past_the_proxy(pages: Pages, headers: Mapping[str, str], status: int) -> None:
    assert pages.ask("/ui/jobs", headers)[0] == status


def test_another_certificate_does_not_do(pages: Pages) -> None:
    assert pages.ask("/ui/jobs", {"X-Remote-User": "alice", **RIGHT}, certificate="other")[0] == 401
    for certificate in ("", "tls"):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            pages.ask("/ui/jobs", {"X-Remote-User": "alice", **RIGHT}, certificate=certificate)


def test_the_account_may_act_as_the_named_groups_alone(pages: Pages, bare: Cluster) -> None:
    account = "--as=system:serviceaccount:kueue-system:muster-dashboard"
    del pages

    def may(*what: str) -> bool:
        done = subprocess.run(
            ["kubectl", "auth", "can-i", *what, account],
            env=os.environ | {"KUBECONFIG": str(bare.plane.kubeconfig)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.stdout.strip() == "yes"

    assert may("impersonate", "users/anybody") or may("impersonate", "users")
    assert may("impersonate", "groups/lab")
    assert not may("impersonate", "groups/system:masters")
    assert not may("impersonate", "groups")
    assert not may("impersonate", "serviceaccounts")
    assert not may("list", "pods")
