"""Exec plugins: the protocol as tables, and the one function that starts them with real (tiny) programs."""

import asyncio
import json
import os
import select
import signal
import stat
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from muster.runtime.kube import exec_plugins
from muster.runtime.kube.credentials import ClientCertificate, ConfiguredSource, Credential, CredentialError
from muster.runtime.kube.exec_plugins import (
    MAX_STDOUT_BYTES,
    ExecSource,
    PluginCommand,
    credential_source,
    make_printable,
    may_ask,
    parse_answer,
    request_info,
    run_plugin,
)
from muster.runtime.kube.kubeconfig import ClusterConfig, ConnectionConfig, ExecConfig, UserConfig

V1 = "client.authentication.k8s.io/v1"
SECRET = "s3cr3t-t0k3n-that-nobody-may-see"
PLUGIN = ExecConfig(V1, "aws")
CLUSTER = ClusterConfig(
    "https://h:6443",
    certificate_authority=b"PEM",
    tls_server_name="kubernetes",
    proxy_url="http://p",
    exec_extension={"audience": "x"},
)


def answer(status: Any = None, **top: Any) -> bytes:
    body = {"apiVersion": V1, "kind": "ExecCredential", "status": {"token": SECRET} if status is None else status}
    return json.dumps(body | top).encode()


# ---- what the plugin is told ----


def test_the_plugin_hears_nothing_of_the_cluster_unless_it_asks() -> None:
    assert json.loads(request_info(PLUGIN, CLUSTER, interactive=True)) == {
        "apiVersion": V1,
        "kind": "ExecCredential",
        "spec": {"interactive": True},
    }


def test_the_cluster_as_the_plugin_sees_it() -> None:
    plugin = replace(PLUGIN, provide_cluster_info=True)
    assert json.loads(request_info(plugin, CLUSTER, interactive=False))["spec"] == {
        "interactive": False,
        "cluster": {
            "server": "https://h:6443",
            "tls-server-name": "kubernetes",
            "certificate-authority-data": "UEVN",
            "proxy-url": "http://p",
            "config": {"audience": "x"},
        },
    }


@pytest.mark.parametrize(
    ("mode", "terminal", "asks"),
    [
        ("Never", True, False),
        ("Never", False, False),
        ("IfAvailable", True, True),
        ("IfAvailable", False, False),
        ("Always", True, True),
    ],
)
def test_who_gets_the_terminal(mode: Any, terminal: bool, asks: bool) -> None:
    assert may_ask(replace(PLUGIN, interactive_mode=mode), terminal=terminal) is asks


def test_a_plugin_that_must_ask_needs_a_terminal() -> None:
    with pytest.raises(CredentialError, match=r"'aws': asks questions .*standard input is not a terminal"):
        may_ask(replace(PLUGIN, interactive_mode="Always"), terminal=False)


# ---- what it answers ----


def test_a_token_with_an_end() -> None:
    credential = parse_answer(answer({"token": "abc", "expirationTimestamp": "2026-01-02T03:04:05Z"}), PLUGIN)
    assert credential == Credential("Bearer abc", expires=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))


def test_a_client_certificate() -> None:
    credential = parse_answer(answer({"clientCertificateData": "C", "clientKeyData": "K", "token": None}), PLUGIN)
    assert credential == Credential("", ClientCertificate(b"C", b"K"))


ANSWERS: list[tuple[str, bytes, str]] = [
    ("nothing", b"", "printed something that is not JSON"),
    ("text", SECRET.encode(), "printed something that is not JSON"),
    ("deep", b"[" * 100_000, "printed something that is not JSON"),
    ("list", b"[]", "printed something that is not an ExecCredential: Expected `object`, got `array`"),
    ("token type", answer({"token": 5}), "not an ExecCredential: Expected `str`, got `int` - at `$.status.token`"),
    ("time", answer({"token": SECRET, "expirationTimestamp": SECRET}), "not an ExecCredential: Invalid RFC3339"),
    ("no zone", answer({"token": SECRET, "expirationTimestamp": "2026-01-02T03:04:05"}), "has no time zone"),
    ("other kind", answer(kind="Token"), "is configured for client.authentication.k8s.io/v1 ExecCredential, but"),
    (
        "other version",
        answer(apiVersion="client.authentication.k8s.io/v1beta1"),
        "but printed client.authentication.k8s.io/v1beta1 ExecCredential",
    ),
    ("no status", answer({}), "printed neither a token nor a client certificate"),
    ("no key", answer({"clientCertificateData": "C"}), "printed only one of client certificate and key"),
    ("no certificate", answer({"token": SECRET, "clientKeyData": "K"}), "printed only one of client certificate"),
    ("injection", answer({"token": f"{SECRET}\r\nX: y"}), "the token has a space or a character"),
]


@pytest.mark.parametrize(("stdout", "message"), [a[1:] for a in ANSWERS], ids=[a[0] for a in ANSWERS])
def test_an_answer_that_makes_no_sense_is_explained_and_not_quoted(stdout: bytes, message: str) -> None:
    with pytest.raises(CredentialError) as raised:
        parse_answer(stdout, PLUGIN)
    assert str(raised.value).startswith("exec plugin 'aws': ")
    assert message in str(raised.value)
    assert SECRET not in str(raised.value)


def test_foreign_text_is_one_line_without_control_characters() -> None:
    assert make_printable(" a\x1b[31m\nb\x00 ") == "a [31m b"
    assert make_printable("x" * 1000) == "x" * 200


# ---- the source ----


def config(user: UserConfig, cluster: ClusterConfig = CLUSTER) -> ConnectionConfig:
    return ConnectionConfig(cluster, user)


def run_source(
    connection: ConnectionConfig, stdout: bytes, environ: Mapping[str, str]
) -> tuple[Credential, PluginCommand]:
    started: list[PluginCommand] = []

    async def run(command: PluginCommand) -> bytes:
        started.append(command)
        return stdout

    assert connection.user.exec is not None
    source = ExecSource(connection.user.exec, connection, environ=environ, run=run)
    credential = asyncio.run(source.login())
    return credential, started[0]


def test_the_environment_of_a_plugin() -> None:
    plugin = replace(PLUGIN, args=("get",), env=(("B", "theirs"),))
    _, command = run_source(config(UserConfig(exec=plugin)), answer(), {"A": "1", "B": "ours"})
    info = command.environ["KUBERNETES_EXEC_INFO"]
    assert dict(command.environ) == {"A": "1", "B": "theirs", "KUBERNETES_EXEC_INFO": info}
    assert (command.command, command.args, command.interactive) == ("aws", ("get",), False)
    assert json.loads(info)["apiVersion"] == V1


def test_a_plugin_gets_the_content_of_the_authority_file(tmp_path: Path) -> None:
    (tmp_path / "ca").write_bytes(b"PEM")
    cluster = ClusterConfig("https://h", certificate_authority_file=tmp_path / "ca")
    user = UserConfig(exec=replace(PLUGIN, provide_cluster_info=True))
    _, command = run_source(config(user, cluster), answer(), {})
    info = json.loads(command.environ["KUBERNETES_EXEC_INFO"])
    assert info["spec"]["cluster"] == {"server": "https://h", "certificate-authority-data": "UEVN"}


def test_the_certificate_of_the_kubeconfig_goes_with_the_token_of_the_plugin() -> None:
    user = UserConfig(exec=PLUGIN, client_certificate=b"C", client_key=b"K")
    credential, _ = run_source(config(user), answer({"token": "t"}), {})
    assert credential == Credential("Bearer t", ClientCertificate(b"C", b"K"))


@pytest.mark.parametrize(
    ("user", "cluster", "kind", "renewable"),
    [
        (UserConfig(exec=PLUGIN), CLUSTER, ExecSource, True),
        (UserConfig(exec=PLUGIN, token="t"), CLUSTER, ConfiguredSource, False),
        (UserConfig(exec=PLUGIN, username="u"), CLUSTER, ConfiguredSource, False),
        (UserConfig(exec=PLUGIN, token_file=Path("/t")), CLUSTER, ConfiguredSource, True),
        (UserConfig(exec=PLUGIN), ClusterConfig("http://h"), ConfiguredSource, False),
        (UserConfig(token_file=Path("/t")), ClusterConfig("http://h"), ConfiguredSource, False),
    ],
)
def test_which_source_a_user_has(user: UserConfig, cluster: ClusterConfig, kind: type, renewable: bool) -> None:
    source = credential_source(config(user, cluster), environ={})
    assert type(source) is kind
    assert source.is_renewable is renewable


def test_over_plain_http_nothing_is_sent() -> None:
    source = credential_source(config(UserConfig(token=SECRET), ClusterConfig("http://h")), environ={})
    assert asyncio.run(source.login()) == Credential()


def test_no_secret_shows_in_a_repr() -> None:
    plugin = replace(PLUGIN, args=(SECRET,), env=(("A", SECRET),))
    _, command = run_source(config(UserConfig(exec=plugin)), answer(), {"TOKEN": SECRET})
    source = ExecSource(plugin, config(UserConfig(token=SECRET)), environ={})
    assert SECRET not in repr((plugin, command, source))


# ---- real programs ----


def program(directory: Path, text: str) -> str:
    path = directory / "plugin"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(stat.S_IRWXU)
    return str(path)


def start(command: str, *args: str, hint: str = "", environ: Mapping[str, str] | None = None) -> bytes:
    given = os.environ if environ is None else environ
    return asyncio.run(run_plugin(PluginCommand(command, args, given, interactive=False, install_hint=hint)))


def test_a_program_gets_arguments_and_environment_and_no_input(tmp_path: Path) -> None:
    plugin = program(tmp_path, 'cat; echo "$1 $A"')
    assert start(plugin, "x y", environ={"A": "a", "PATH": "/bin:/usr/bin"}) == b"x y a\n"


def test_a_program_is_looked_for_on_the_path_it_is_given(tmp_path: Path) -> None:
    program(tmp_path, "echo found")
    assert start("plugin", environ={"PATH": str(tmp_path)}) == b"found\n"


def test_what_a_program_complains_of_is_in_the_error(tmp_path: Path) -> None:
    plugin = program(tmp_path, f"echo {SECRET}; printf 'token\\033[1m has expired;\\nlog in again\\n' >&2; exit 3")
    with pytest.raises(CredentialError, match=r"plugin': exit status 3: token \[1m has expired; log in again$") as e:
        start(plugin)
    assert SECRET not in str(e.value)


@pytest.mark.parametrize("interactive", [True, False])
def test_a_program_that_may_ask_stays_in_our_session(tmp_path: Path, interactive: bool) -> None:
    plugin = program(tmp_path, "cut -d' ' -f6 /proc/$$/stat")
    session = int(asyncio.run(run_plugin(PluginCommand(plugin, (), os.environ, interactive=interactive))))
    assert (session == os.getsid(0)) is interactive


def test_what_a_program_that_may_ask_complains_of_goes_to_the_terminal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    plugin = program(tmp_path, "echo open this page >&2; exit 1")
    with pytest.raises(CredentialError, match=r"exit status 1$"):
        asyncio.run(run_plugin(PluginCommand(plugin, (), os.environ, interactive=True)))
    assert capfd.readouterr().err == "open this page\n"


def test_a_program_that_was_killed(tmp_path: Path) -> None:
    with pytest.raises(CredentialError, match=r"killed by signal 9$"):
        start(program(tmp_path, "kill -9 $$"))


def test_a_program_that_is_not_there_is_told_with_the_install_hint(tmp_path: Path) -> None:
    with pytest.raises(CredentialError, match=r"'no-such-plugin': cannot be started: No such .*; brew install it$"):
        start("no-such-plugin", hint="brew install it\n")
    with pytest.raises(CredentialError, match=r"cannot be started: No such file.*; is it installed and on PATH"):
        start("no-such-plugin")
    (tmp_path / "text").write_text("x")
    with pytest.raises(CredentialError, match="text': cannot be started: Permission denied"):
        start(str(tmp_path / "text"))


def test_a_program_that_prints_without_end_is_stopped(tmp_path: Path) -> None:
    with pytest.raises(CredentialError, match=f"printed more than {MAX_STDOUT_BYTES} bytes"):
        start(program(tmp_path, "yes"))


def test_a_program_that_complains_without_end_is_cut(tmp_path: Path) -> None:
    with pytest.raises(CredentialError, match=r"the end$") as raised:
        start(program(tmp_path, "yes | head -c 300000 >&2; echo the end >&2; exit 1"))
    assert len(str(raised.value)) < 3000


def test_a_program_that_takes_too_long_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exec_plugins, "TIMEOUT_SECONDS", 0.1)
    with pytest.raises(CredentialError, match=r"gave no answer within 0\.1 s"):
        start(program(tmp_path, "exec sleep 1000"))


def test_a_grandchild_that_keeps_the_output_open_does_not_hold_us(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exec_plugins, "TIMEOUT_SECONDS", 1.5)
    plugin = program(tmp_path, f"setsid sleep 1000 & echo $! > {tmp_path}/child")
    with pytest.raises(CredentialError, match="gave no answer within"):
        start(plugin)
    os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)


def test_a_cancelled_login_leaves_neither_the_program_nor_its_children_behind(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    async def main() -> list[bool]:
        plugin = program(tmp_path, f"sleep 1000 & echo $$ $! > {fifo}; wait")
        task = asyncio.create_task(run_plugin(PluginCommand(plugin, (), os.environ, interactive=False)))
        processes = [os.pidfd_open(int(pid)) for pid in (await asyncio.to_thread(fifo.read_text)).split()]
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        return [ends(process) for process in processes]

    assert asyncio.run(main()) == [True, True]


def ends(process: int) -> bool:
    """Whether the process behind a descriptor ends soon."""
    ended, _, _ = select.select([process], [], [], 10)
    os.close(process)
    return bool(ended)
