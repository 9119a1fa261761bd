"""Which kubeconfigs of workers are used: a connection, and nothing else that the manager would do for it."""

import base64
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from muster.multicluster.links.kubeconfigs import (
    MAX_BYTES,
    Files,
    UnreachableKubeconfigError,
    UntrustedKubeconfigError,
    read,
    read_trusted,
)
from muster.runtime.clock import run_virtual

PEM = base64.b64encode(b"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n").decode()
KEY = base64.b64encode(b"-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n").decode()
EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "interactiveMode": "Never"}


def kubeconfig(cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None) -> bytes:
    server = {"server": "https://worker.example:6443", "certificate-authority-data": PEM}
    document = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {k: v for k, v in (server | (cluster or {})).items() if v is not None}}],
        "users": [{"name": "u", "user": {"token": "t"} if user is None else user}],
    }
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("cluster", "user"),
    [
        ({}, None),
        ({"server": "https://10.0.0.1:6443"}, None),
        ({"server": "https://[::1]:6443"}, None),
        ({"server": "https://Worker.Example"}, None),
        ({"certificate-authority-data": None}, None),  # what the system trusts
        ({"tls-server-name": "w"}, {"client-certificate-data": PEM, "client-key-data": KEY}),
        ({}, {"token": "t", "as": "other", "as-groups": ["g"]}),  # which the worker allows, or not
    ],
)
def test_a_connection_is_all_that_a_kubeconfig_may_ask_for(
    cluster: dict[str, Any], user: dict[str, Any] | None
) -> None:
    assert read_trusted(kubeconfig(cluster, user), "test").cluster.server.lower().startswith("https://")


@pytest.mark.parametrize(
    ("cluster", "user", "problem"),
    [
        ({"insecure-skip-tls-verify": True, "certificate-authority-data": None}, None, "insecure-skip-tls-verify"),
        ({"server": "http://worker:80"}, None, "https"),
        ({"proxy-url": "http://10.0.0.1:3128"}, None, "proxy-url is not allowed"),
        ({"server": "https://wor_ker:6443"}, None, "untrusted server endpoint"),
        ({"server": "https://worker%2e:6443"}, None, "untrusted server endpoint"),
        ({"server": "https://-w:6443"}, None, "untrusted server endpoint"),
        ({"certificate-authority-data": None, "certificate-authority": "/etc/ca"}, None, "certificate-authority-data"),
        ({}, {"tokenFile": "/etc/shadow"}, "tokenFile is not allowed"),
        ({}, {"token": "t", "tokenFile": "/etc/shadow"}, "tokenFile is not allowed"),
        ({}, {"username": "u", "password": "p"}, "username and password are not allowed"),
        ({}, {"exec": EXEC}, "exec plugins are not allowed"),
        ({"certificate-authority": "/etc/ca"}, None, "certificate-authority-data"),  # beside data, which would win
        ({"certificate-authority": "ca"}, None, "certificate-authority-data"),
        ({}, {"client-certificate": "/c", "client-certificate-data": PEM, "client-key-data": KEY}, "client-certifi"),
        ({}, {"client-certificate-data": PEM, "client-key": "/k", "client-key-data": KEY}, "client-key-data"),
        ({}, {"client-certificate": "/c", "client-key-data": KEY}, "client-certificate-data"),
        ({}, {"client-certificate-data": PEM, "client-key": "/k"}, "client-key-data"),
    ],
)
def test_what_asks_for_more_is_refused_as_insecure(
    cluster: dict[str, Any], user: dict[str, Any] | None, problem: str
) -> None:
    with pytest.raises(UntrustedKubeconfigError, match=problem):
        read_trusted(kubeconfig(cluster, user), "test")


def test_entries_of_other_contexts_may_name_files() -> None:
    """They are not used, and nothing of them is kept: a person's own kubeconfig often has some."""
    document = json.loads(kubeconfig())
    document["users"].append({"name": "other", "user": {"client-certificate": "/c", "client-key": "/k"}})
    document["clusters"].append({"name": "o", "cluster": {"server": "https://o", "certificate-authority": "/ca"}})
    assert read_trusted(json.dumps(document).encode(), "test").user.token == "t"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"nonsense",
        b"\xff\xfe",
        b"[" * 100_000,
        b"&a [*a]",
        b"x" * (MAX_BYTES + 1),
        kubeconfig({"server": ""}),
        kubeconfig({"server": "https://"}),
        kubeconfig({"certificate-authority-data": "!"}),
        kubeconfig({}, {"auth-provider": {"name": "gcp"}}),
    ],
)
def test_what_is_no_kubeconfig_is_refused(data: bytes) -> None:
    with pytest.raises(UntrustedKubeconfigError):
        read_trusted(data, "test")


def test_a_file_is_read_below_its_directory_alone(tmp_path: Path) -> None:
    allowed, outside = tmp_path / "allowed", tmp_path / "outside"
    allowed.mkdir()
    (allowed / "a").write_bytes(b"a")
    outside.write_bytes(b"secret")
    (allowed / "in").symlink_to("a")
    (allowed / "out").symlink_to(outside)
    (tmp_path / "allowed-too").write_bytes(b"secret")
    (allowed / "loop").symlink_to("loop")
    os.mkfifo(allowed / "pipe")
    (allowed / "huge").write_bytes(b"x" * (MAX_BYTES + 10))

    assert read(f"{allowed}/a", allowed) == read(f"{allowed}/in", allowed) == b"a"
    assert read(str(outside), None) == b"secret"
    assert len(read(f"{allowed}/huge", allowed)) == MAX_BYTES + 1  # which `read_trusted` refuses
    for path, problem in (
        (f"{allowed}/out", "not under the allowed prefix"),
        (str(outside), "not under the allowed prefix"),
        (f"{allowed}-too", "not under the allowed prefix"),
        (f"{allowed}/../outside", "not under the allowed prefix"),
        ("a", "not under the allowed prefix"),
        (f"{allowed}/none", "No such file"),
        (f"{allowed}/loop", "cannot be read"),
        (f"{allowed}/pipe", "is not a plain file"),
        (str(allowed), "is not a plain file"),
        (f"{allowed}/a\0", "NUL"),
    ):
        with pytest.raises(UnreachableKubeconfigError, match=problem):
            read(path, allowed)


def test_a_file_that_hangs_is_read_once_however_often_it_is_asked_for() -> None:
    begun, answers, asked = threading.Event(), threading.Event(), list[str]()

    def hangs(path: str) -> bytes:
        asked.append(path)
        begun.set()
        answers.wait()
        return b""

    async def body() -> None:
        files = Files(hangs)
        for _ in range(3):
            with pytest.raises(UnreachableKubeconfigError, match="/a: not read within 10 s"):
                await files.content("/a")
        await files.close()

    try:
        run_virtual(body())
        begun.wait()
    finally:
        answers.set()
    assert asked == ["/a"]
