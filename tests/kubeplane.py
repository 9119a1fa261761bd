"""A real control plane for tests: etcd, kube-apiserver and other programs of Kubernetes, on free ports of loopback.

MUSTER_KUBE_ASSETS is a folder with the programs (1.36), as `KUBEBUILDER_ASSETS` is elsewhere; what needs them is
skipped without it.
"""

import os
import secrets
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ASSETS = os.environ.get("MUSTER_KUBE_ASSETS", "")

needs_kubernetes = pytest.mark.skipif(not ASSETS, reason="MUSTER_KUBE_ASSETS does not say where Kubernetes is")


class Program:
    """A program of the plane: may be stopped at any instant, and started again as it was."""

    def __init__(self, home: Path, command: Sequence[str]) -> None:
        self._home, self._command = home, command
        self.process = self._begun(())

    def kill(self) -> None:
        """Give it no time for anything."""
        self.process.kill()
        self.process.wait()

    def start(self, *flags: str) -> None:
        """Again, where it was; flags: more of them, this time."""
        self.process = self._begun(flags)

    def _begun(self, flags: Sequence[str]) -> subprocess.Popen[bytes]:
        with (self._home / f"{self._command[0]}.log").open("a") as log:
            command = [str(Path(ASSETS) / self._command[0]), *self._command[1:], *flags]
            return subprocess.Popen(command, cwd=self._home, stdout=log, stderr=log)


@dataclass(frozen=True, slots=True)
class KubePlane:
    """One that runs; token: of a user who may do everything; etcd: the address of the store."""

    home: Path
    url: str
    token: str
    etcd: str = ""
    programs: dict[str, Program] = field(default_factory=dict)

    @property
    def kubeconfig(self) -> Path:
        """Of that user."""
        return self.home / "kubeconfig"

    def wait_until_ready(self) -> None:
        """Until the server answers."""
        context = ssl.create_default_context(cafile=str(self.home / "tls.crt"))
        asked = urllib.request.Request(f"{self.url}/readyz", headers={"Authorization": f"Bearer {self.token}"})
        for _ in range(240):
            try:
                with urllib.request.urlopen(asked, context=context):
                    return
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.5)
        raise AssertionError(f"kube-apiserver is not ready:\n{(self.home / 'kube-apiserver.log').read_text()[-2000:]}")


@contextmanager
def kube_plane(
    home: Path, *programs: str, authorization: str = "RBAC", flags: Sequence[str] = ()
) -> Iterator[KubePlane]:
    """A server that answers, and further programs, all of them killed at the end.

    programs: `kube-controller-manager`, `kube-scheduler`. flags: further ones of kube-apiserver.
    """
    port, store, peer = (free_port() for _ in range(3))
    etcd = f"http://127.0.0.1:{store}"
    plane = KubePlane(home, f"https://127.0.0.1:{port}", secrets.token_hex(16), etcd)
    _write_files(plane)
    commands = [
        ["etcd", "--data-dir=etcd", f"--listen-client-urls={etcd}", f"--advertise-client-urls={etcd}",
         f"--listen-peer-urls=http://127.0.0.1:{peer}", "--unsafe-no-fsync"],
        ["kube-apiserver", f"--etcd-servers={etcd}", "--bind-address=127.0.0.1", f"--secure-port={port}",
         "--tls-cert-file=tls.crt", "--tls-private-key-file=tls.key", "--service-account-key-file=sa.pub",
         "--service-account-signing-key-file=sa.key", "--service-account-issuer=https://kubernetes.default.svc",
         "--token-auth-file=tokens.csv", f"--authorization-mode={authorization}",
         "--service-cluster-ip-range=10.0.0.0/24", "--requestheader-client-ca-file=proxy-ca.crt",
         "--requestheader-allowed-names=front-proxy", "--requestheader-username-headers=X-Remote-User",
         "--requestheader-group-headers=X-Remote-Group", "--requestheader-extra-headers-prefix=X-Remote-Extra-",
         "--proxy-client-cert-file=proxy.crt", "--proxy-client-key-file=proxy.key", *flags],
    ]  # fmt: skip
    own = {
        "kube-controller-manager": ["--service-account-private-key-file=sa.key", "--root-ca-file=tls.crt"],
        "kube-scheduler": [],
    }
    pace = ["--kube-api-qps=5000", "--kube-api-burst=5000"]
    try:
        for command in commands:
            plane.programs[command[0]] = Program(home, command)
        plane.wait_until_ready()
        for program in programs:
            where = [f"--secure-port={free_port()}", "--bind-address=127.0.0.1", "--kubeconfig=kubeconfig"]
            plane.programs[program] = Program(home, [program, *where, "--leader-elect=false", *pace, *own[program]])
        yield plane
    finally:
        for started in reversed(plane.programs.values()):
            started.kill()


def free_port() -> int:
    """One of loopback that nobody has now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def _write_files(plane: KubePlane) -> None:
    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=plane.home, check=True, capture_output=True)

    openssl("genrsa", "-out", "sa.key", "2048")
    openssl("rsa", "-in", "sa.key", "-pubout", "-out", "sa.pub")
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", "tls.key", "-out", "tls.crt",
            "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1")  # fmt: skip
    # As it shows itself to those whom it passes requests on to.
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", "proxy-ca.key",
            "-out", "proxy-ca.crt", "-subj", "/CN=front-proxy-ca")  # fmt: skip
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", "proxy.key", "-out", "proxy.crt",
            "-subj", "/CN=front-proxy", "-CA", "proxy-ca.crt", "-CAkey", "proxy-ca.key",
            "-addext", "extendedKeyUsage=clientAuth")  # fmt: skip
    (plane.home / "tokens.csv").write_text(f"{plane.token},admin,admin,system:masters\n")
    plane.kubeconfig.write_text(
        f"""apiVersion: v1
kind: Config
clusters: [{{name: real, cluster: {{server: "{plane.url}", certificate-authority: tls.crt}}}}]
users: [{{name: admin, user: {{token: {plane.token}}}}}]
contexts: [{{name: real, context: {{cluster: real, user: admin}}}}]
current-context: real
"""
    )
