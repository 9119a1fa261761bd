"""Every way to prove who we are, against a scripted TLS server: the authentication table, a test for each cell."""

import asyncio
import json
import logging
import os
import ssl
import stat
import tempfile
import traceback
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.system.client.scripted_server import (
    AUTHORITY,
    World,
    answer,
    client_certificate,
    encoded,
    hang_up,
    play,
    refuse,
    silence,
    status,
    stream,
)

from muster.api.status import ApiError
from muster.runtime.kube.credentials import CredentialError
from muster.runtime.kube.kubeconfig import KubeconfigError
from muster.runtime.kube.kubeconfig_files import in_cluster, load
from muster.runtime.kube.kubeconfig_parse import from_dict
from muster.runtime.transport import Request, TransportError

V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"
SECRET = "s3cr3t-t0k3n-that-nobody-may-see"


class Plugin:
    """An exec plugin whose answer can be changed, and that counts how often it was run."""

    def __init__(self, directory: Path, version: str = V1) -> None:
        self.directory = directory
        self.version = version
        self.command = directory / "plugin"
        self.command.write_text(
            "#!/bin/sh\n"
            f'cd {directory}; echo run >> runs; printf %s "$KUBERNETES_EXEC_INFO" > info\n'
            "[ ! -p gate ] || cat gate\nexec cat answer\n"
        )
        self.command.chmod(stat.S_IRWXU)

    def give(self, **status: Any) -> None:
        body = {"apiVersion": self.version, "kind": "ExecCredential", "status": status}
        (self.directory / "answer").write_text(json.dumps(body))

    def user(self, **more: Any) -> dict[str, Any]:
        plugin = {"apiVersion": self.version, "command": str(self.command), "interactiveMode": "Never"}
        return {"exec": plugin | more}

    @property
    def runs(self) -> int:
        return len((self.directory / "runs").read_text().splitlines())

    @property
    def info(self) -> Any:
        return json.loads((self.directory / "info").read_text())


# ---- the authentication table ----


def test_token() -> None:
    async def scenario(world: World) -> None:
        world.server.tokens = {"abc"}
        async with world.as_user({"token": "abc"}) as transport:
            assert await status(transport) == 200
        async with world.as_user({"token": "other"}) as transport:
            assert await status(transport) == 401
        assert len(world.server.seen) == 2  # a token that cannot change is not tried twice

    play(scenario)


def test_kubeconfig_as_dict_from_a_secret() -> None:
    async def scenario(world: World) -> None:
        world.server.tokens = {"abc"}
        config = from_dict(world.server.kubeconfig({"token": "abc"}), "secret team/worker").connection()
        async with world.over(config) as transport:
            assert await status(transport) == 200

    play(scenario)


def test_kubeconfig_file(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        world.server.tokens = {"abc"}
        document = world.server.kubeconfig({"tokenFile": "token"}, {"certificate-authority": "ca.crt"})
        del document["clusters"][0]["cluster"]["certificate-authority-data"]
        (tmp_path / "config").write_text(json.dumps(document))
        (tmp_path / "token").write_text("abc\n")
        AUTHORITY.cert_pem.write_to_path(str(tmp_path / "ca.crt"))
        async with world.over(load({"KUBECONFIG": str(tmp_path / "config")})) as transport:
            assert await status(transport) == 200

    play(scenario)


@pytest.mark.parametrize("memory_files", [True, False])
def test_client_certificate_data(memory_files: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The key is read from a memory file; where there are none, from a private file that is gone afterwards."""
    modes: list[int] = []
    load_cert_chain = ssl.SSLContext.load_cert_chain

    def watched(context: ssl.SSLContext, path: str, **options: Any) -> None:
        assert path.startswith("/proc/self/fd/" if memory_files else str(tmp_path))
        assert options["password"] is not None  # or OpenSSL would ask for one on the terminal
        modes.append(stat.S_IMODE(Path(path).stat().st_mode))
        load_cert_chain(context, path, **options)

    async def scenario(world: World) -> None:
        certificate, key = client_certificate("ada")
        user = {"client-certificate-data": encoded(certificate), "client-key-data": encoded(key)}
        monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", watched)
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        if not memory_files:
            monkeypatch.delattr(os, "memfd_create")
        async with world.as_user(user) as transport:
            assert await status(transport) == 200
        assert [seen.user for seen in world.server.seen] == ["ada"]
        assert list(tmp_path.iterdir()) == []
        assert memory_files or modes == [0o600]

    play(scenario)


def test_client_certificate_files_that_are_rotated(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with world.as_user(
            {"client-certificate": str(tmp_path / "crt"), "client-key": str(tmp_path / "key")}
        ) as transport:
            for name in ("ada", "grace"):
                certificate, key = client_certificate(name)
                (tmp_path / "crt").write_bytes(certificate)
                (tmp_path / "key").write_bytes(key)
                assert await status(transport) == 200
                world.clock.advance(60)
        assert [seen.user for seen in world.server.seen] == ["ada", "grace"]

    play(scenario)


def test_token_file_then_token_rotated(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        path = tmp_path / "token"
        path.write_text("one")
        world.server.tokens = {"one"}
        async with world.as_user({"tokenFile": str(path)}) as transport:
            assert await status(transport) == 200
            path.write_text("two")
            world.server.tokens = {"two"}
            assert await status(transport) == 200
        assert [seen.token for seen in world.server.seen] == ["one", "one", "two"]

    play(scenario)


def test_token_file_is_read_again_every_minute(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        path = tmp_path / "token"
        path.write_text("one")
        async with world.as_user({"tokenFile": str(path)}) as transport:
            await status(transport)
            path.write_text("two")
            world.clock.advance(59)
            await status(transport)
            world.clock.advance(1)
            await status(transport)
        assert [seen.token for seen in world.server.seen] == ["one", "one", "two"]

    play(scenario)


@pytest.mark.parametrize("version", [V1, V1BETA1])
def test_exec_token(tmp_path: Path, version: str) -> None:
    async def scenario(world: World) -> None:
        plugin = Plugin(tmp_path, version)
        plugin.give(token="abc")
        world.server.tokens = {"abc"}
        async with world.as_user(plugin.user()) as transport:
            assert [await status(transport) for _ in range(3)] == [200] * 3
        assert plugin.runs == 1

    play(scenario)


def test_exec_client_certificate_and_its_rotation(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        plugin = Plugin(tmp_path)
        async with world.as_user(plugin.user()) as transport:
            for name in ("ada", "grace"):
                certificate, key = client_certificate(name)
                expires = world.clock.now() + timedelta(minutes=5)
                plugin.give(
                    clientCertificateData=certificate.decode(),
                    clientKeyData=key.decode(),
                    expirationTimestamp=expires.isoformat(),
                )
                assert [await status(transport), await status(transport)] == [200, 200]
                world.clock.advance(300)
        assert [seen.user for seen in world.server.seen] == ["ada", "ada", "grace", "grace"]
        # A new certificate needs a new connection; the old one would go on as the old user.
        assert len({seen.connection for seen in world.server.seen}) == 2

    play(scenario)


def test_exec_token_revoked_then_exec_again(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        plugin = Plugin(tmp_path)
        plugin.give(token="one")
        world.server.tokens = {"one"}
        async with world.as_user(plugin.user()) as transport:
            assert await status(transport) == 200
            plugin.give(token="two")
            world.server.tokens = {"two"}
            assert await status(transport) == 200
        assert plugin.runs == 2

    play(scenario)


def test_exec_again_only_once_for_a_401(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        plugin = Plugin(tmp_path)
        plugin.give(token="wrong")
        world.server.tokens = {"right"}
        async with world.as_user(plugin.user()) as transport:
            assert [await status(transport) for _ in range(10)] == [401] * 10
            assert plugin.runs == 2
            world.clock.advance(10)
            plugin.give(token="right")
            assert await status(transport) == 200
        assert plugin.runs == 3

    play(scenario)


def test_exec_expiration_timestamp_past_then_exec_again(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        plugin = Plugin(tmp_path)
        plugin.give(token="one", expirationTimestamp=(world.clock.now() + timedelta(seconds=60)).isoformat())
        async with world.as_user(plugin.user()) as transport:
            await status(transport)
            plugin.give(token="two", expirationTimestamp=(world.clock.now() + timedelta(hours=1)).isoformat())
            world.clock.advance(49)
            await status(transport)
            world.clock.advance(1)  # ten seconds before the end
            await status(transport)
            await status(transport)
        assert [seen.token for seen in world.server.seen] == ["one", "one", "two", "two"]
        assert plugin.runs == 2

    play(scenario)


def test_kubernetes_exec_info_passed(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        plugin = Plugin(tmp_path)
        plugin.give(token="abc")
        extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}
        async with world.as_user(plugin.user(provideClusterInfo=True), {"extensions": [extension]}) as transport:
            await status(transport)
        assert plugin.info == {
            "apiVersion": V1,
            "kind": "ExecCredential",
            "spec": {
                "interactive": False,
                "cluster": {
                    "server": world.server.url,
                    "certificate-authority-data": encoded(AUTHORITY.cert_pem.bytes()),
                    "config": {"audience": "x"},
                },
            },
        }

    play(scenario)


def test_oidc_auth_provider_is_refused_with_a_way_out() -> None:
    async def scenario(world: World) -> None:
        provider = {"name": "oidc", "config": {"id-token": "s3cret", "refresh-token": "s3cret"}}
        with pytest.raises(KubeconfigError, match=r"users\[0\]\.user\.auth-provider: .*kubelogin") as raised:
            world.server.connection({"auth-provider": provider})
        assert "s3cret" not in str(raised.value)

    play(scenario)


def test_in_cluster_token_read_again(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        AUTHORITY.cert_pem.write_to_path(str(tmp_path / "ca.crt"))
        (tmp_path / "token").write_text("one")
        host, _, port = world.server.url.removeprefix("https://").partition(":")
        environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
        async with world.over(in_cluster(environ, tmp_path)) as transport:
            await status(transport)
            (tmp_path / "token").write_text("two")
            world.clock.advance(60)
            await status(transport)
        assert [seen.token for seen in world.server.seen] == ["one", "two"]

    play(scenario)


# ---- more about credentials ----


def test_basic_authentication_and_impersonation() -> None:
    async def scenario(world: World) -> None:
        user = {
            "username": "ada",
            "password": "p",
            "as": "grace",
            "as-uid": "7",
            "as-groups": ["admirals", "navy"],
            "as-user-extra": {"example.com/scope": ["a", "b"]},
        }
        async with world.as_user(user) as transport:
            await status(transport)
        headers = world.server.seen[0].headers
        assert headers["Authorization"] == "Basic YWRhOnA="
        lines = [(name, value) for name, value in headers.items() if name.startswith("Impersonate-")]
        assert lines == [
            ("Impersonate-User", "grace"),
            ("Impersonate-Uid", "7"),
            ("Impersonate-Group", "admirals"),
            ("Impersonate-Group", "navy"),
            ("Impersonate-Extra-example.com%2Fscope", "a"),
            ("Impersonate-Extra-example.com%2Fscope", "b"),
        ]

    play(scenario)


def test_over_plain_http_no_credential_is_sent() -> None:
    async def scenario(world: World) -> None:
        heads: list[bytes] = []

        async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
            writer.close()

        async with await asyncio.start_server(plain, "127.0.0.1", 0) as listener:
            server = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
            async with world.as_user({"token": SECRET}, {"server": server}) as transport:
                assert await status(transport) == 200
        assert SECRET.encode() not in heads[0]

    play(scenario)


def test_a_slow_plugin_is_run_once_for_fifty_concurrent_requests(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        plugin = Plugin(tmp_path)
        plugin.give(token="abc")
        world.server.tokens = {"abc"}
        os.mkfifo(tmp_path / "gate")
        async with world.as_user(plugin.user()) as transport:
            requests = [asyncio.create_task(status(transport)) for _ in range(50)]
            # The plugin waits at the gate until all fifty wait for it.
            await asyncio.to_thread((tmp_path / "gate").write_bytes, b"")
            assert await asyncio.gather(*requests) == [200] * 50
        assert plugin.runs == 1

    play(scenario)


def test_fifty_requests_refused_at_once_lead_to_one_login(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        plugin = Plugin(tmp_path)
        plugin.give(token="one")
        async with world.as_user(plugin.user()) as transport:
            await status(transport)
            plugin.give(token="two")
            world.server.tokens = {"two"}
            assert await asyncio.gather(*(status(transport) for _ in range(50))) == [200] * 50
        assert plugin.runs == 2

    play(scenario)


def test_a_plugin_that_fails_is_told_by_the_request(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        plugin = Plugin(tmp_path)  # it has no answer yet
        async with world.as_user(plugin.user()) as transport:
            with pytest.raises(CredentialError, match=r"exec plugin '.*plugin': exit status 1: cat: answer: No such"):
                await status(transport)
        assert world.server.seen == []

    play(scenario)


def test_a_stream_is_tried_again_with_a_new_credential(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        plugin = Plugin(tmp_path)
        plugin.give(token="one")
        world.server.on("/log", stream("hello"))
        async with world.as_user(plugin.user()) as transport:
            await status(transport)
            plugin.give(token="two")
            world.server.tokens = {"two"}
            async with transport.stream(Request("GET", "/log")) as chunks:
                assert b"".join([chunk async for chunk in chunks]) == b'"hello"\n'

    play(scenario)


def test_no_secret_in_logs_errors_and_representations(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    told: list[str] = []

    async def scenario(world: World) -> None:
        plugin = Plugin(tmp_path)
        plugin.give(token=SECRET)
        _, key = client_certificate("ada")
        users = (
            {"token": SECRET},
            {"username": "ada", "password": SECRET},
            plugin.user(env=[{"name": "A", "value": SECRET}], args=[SECRET]),
            {"client-certificate-data": encoded(AUTHORITY.cert_pem.bytes()), "client-key-data": encoded(key)},
        )
        proxy = {"proxy-url": f"http://user:{SECRET}@127.0.0.1:1"}
        world.server.on("/refuse", refuse(401, "Unauthorized"))
        world.server.on("/hang", hang_up)
        world.server.on("/wait", silence)
        world.server.on("/away", answer({}, 302, Location=f"https://u:{SECRET}@h/?token={SECRET}"))
        for user in users:
            for cluster in ({}, proxy):
                async with world.as_user(user, cluster) as transport:
                    told.append(repr((transport, vars(transport), vars(transport._vault))))
                    for path in ("/ok", "/refuse", "/hang", "/wait", "/away"):
                        request = Request("POST", path, timeout_seconds=0.2 if path == "/wait" else 60)
                        try:
                            await transport.request(request)
                            async with transport.stream(request):
                                pass
                        except (TransportError, ApiError) as error:
                            told.append("".join(traceback.format_exception(error)) + repr(error))

    play(scenario)
    assert len(told) > 30
    everything = "\n".join([*told, caplog.text, *(repr(vars(record)) for record in caplog.records)])
    assert SECRET not in everything
    assert "PRIVATE KEY" not in everything
    assert caplog.records
