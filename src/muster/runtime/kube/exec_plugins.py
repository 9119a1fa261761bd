"""Run exec plugins: programs that print a credential (client.authentication.k8s.io v1 and v1beta1).

The protocol is pure (`request_info`, `parse_answer`). Only `run_plugin` starts a process, with a limit on its time and
on its output. Invariant: the plugin's standard output is a secret and is never shown.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from typing import IO, Any

import msgspec
from msgspec.structs import replace

from muster.api.kinds import without_nulls
from muster.runtime.kube.credentials import (
    ClientCertificate,
    ConfiguredSource,
    Credential,
    CredentialError,
    CredentialSource,
    make_bearer_header,
    read_file,
)
from muster.runtime.kube.kubeconfig import ClusterConfig, Confidential, ConnectionConfig, ExecConfig, UserConfig

# The time limits of a plugin without questions for the user, and of a plugin that may open a browser.
TIMEOUT_SECONDS = 60.0
INTERACTIVE_TIMEOUT_SECONDS = 300.0
# A token, two certificate chains and a key fit many times over; a longer output is a mistake.
MAX_STDOUT_BYTES = 1 << 20
# Our error quotes this much of the plugin's standard error: the end, which contains the reason.
MAX_STDERR_BYTES = 2048


class PluginCommand(Confidential, frozen=True):
    """The command line and environment of one plugin run."""

    secrets = ("args", "environ")

    command: str
    args: tuple[str, ...]
    environ: Mapping[str, str]
    interactive: bool  # whether the plugin may use our terminal
    install_hint: str = ""

    @property
    def timeout_seconds(self) -> float:
        """The time limit of the run."""
        return INTERACTIVE_TIMEOUT_SECONDS if self.interactive else TIMEOUT_SECONDS

    @property
    def where(self) -> str:
        """The name of the plugin in errors."""
        return f"exec plugin {self.command!r}"


class _Status(msgspec.Struct, rename="camel"):
    expiration_timestamp: datetime | None = None
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _Status | None = None


class ExecSource:
    """A credential source that runs a plugin."""

    is_renewable = True
    max_age_seconds = None

    def __init__(
        self,
        plugin: ExecConfig,
        config: ConnectionConfig,
        *,
        environ: Mapping[str, str],
        terminal: bool = False,
        run: Callable[[PluginCommand], Awaitable[bytes]] | None = None,
    ) -> None:
        """Make the source for a plugin.

        terminal: whether our standard input is a terminal with a user who can answer the plugin's questions.
        run: runs the plugin; None to start a process.
        """
        self._plugin = plugin
        self._cluster = config.cluster
        self._configured = ConfiguredSource(config.user, config.source)
        self._environ = environ
        self._terminal = terminal
        self._run = run or run_plugin

    async def login(self) -> Credential:
        """Run the plugin; return its credential. If it returns no client certificate, use the one in the kubeconfig."""
        interactive = may_ask(self._plugin, terminal=self._terminal)
        cluster = self._cluster
        if self._plugin.provide_cluster_info and cluster.certificate_authority_file is not None:
            cluster = replace(cluster, certificate_authority=read_file(cluster.certificate_authority_file))
        info = request_info(self._plugin, cluster, interactive=interactive)
        command = PluginCommand(
            self._plugin.command,
            self._plugin.args,
            {**self._environ, **dict(self._plugin.env), "KUBERNETES_EXEC_INFO": info},
            interactive,
            self._plugin.install_hint,
        )
        answer = parse_answer(await self._run(command), self._plugin)
        configured = await self._configured.login()
        return replace(answer, certificate=answer.certificate or configured.certificate)


def credential_source(
    config: ConnectionConfig, *, environ: Mapping[str, str], terminal: bool = False
) -> CredentialSource:
    """Return the credential source of a connection. Over plain http no credentials are sent, as in client-go."""
    user = config.user
    if not config.cluster.server.startswith("https://"):
        return ConfiguredSource(UserConfig())
    if user.exec is not None and not (user.token or user.token_file or user.username):
        return ExecSource(user.exec, config, environ=environ, terminal=terminal)
    return ConfiguredSource(user, config.source)


def may_ask(plugin: ExecConfig, *, terminal: bool) -> bool:
    """Return whether the plugin may ask the user questions on our terminal.

    Raises `CredentialError` if the plugin requires a terminal and there is none.
    """
    if plugin.interactive_mode == "Always" and not terminal:
        raise CredentialError(
            f"exec plugin {plugin.command!r}: asks questions (interactiveMode: Always), "
            "but standard input is not a terminal"
        )
    return terminal and plugin.interactive_mode != "Never"


def request_info(plugin: ExecConfig, cluster: ClusterConfig, *, interactive: bool) -> str:
    """Return the value of KUBERNETES_EXEC_INFO, which passes information to a plugin."""
    spec: dict[str, Any] = {"interactive": interactive}
    if plugin.provide_cluster_info:
        about = {
            "server": cluster.server,
            "tls-server-name": cluster.tls_server_name,
            "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
            "certificate-authority-data": cluster.certificate_authority,
            "proxy-url": cluster.proxy_url,
            "disable-compression": cluster.disable_compression,
            "config": cluster.exec_extension,
        }
        spec["cluster"] = {name: value for name, value in about.items() if value}
    return msgspec.json.encode({"kind": "ExecCredential", "apiVersion": plugin.api_version, "spec": spec}).decode()


def parse_answer(stdout: bytes, plugin: ExecConfig) -> Credential:
    """Return the credential that a plugin printed. Raises `CredentialError`, which never quotes the output."""
    where = f"exec plugin {plugin.command!r}"
    try:
        answer = msgspec.convert(without_nulls(msgspec.json.decode(stdout)), _ExecCredential)
    except msgspec.ValidationError as error:
        raise CredentialError(f"{where}: printed something that is not an ExecCredential: {error}") from None
    except (msgspec.DecodeError, RecursionError):
        raise CredentialError(f"{where}: printed something that is not JSON") from None
    if answer.kind != "ExecCredential" or answer.api_version != plugin.api_version:
        raise CredentialError(
            f"{where}: is configured for {plugin.api_version} ExecCredential, "
            f"but printed {make_printable(answer.api_version)} {make_printable(answer.kind)}"
        )
    status = answer.status or _Status()
    if bool(status.client_certificate_data) != bool(status.client_key_data):
        raise CredentialError(f"{where}: printed only one of client certificate and key, both are needed")
    if not status.token and not status.client_certificate_data:
        raise CredentialError(f"{where}: printed neither a token nor a client certificate")
    certificate = None
    if status.client_certificate_data:
        certificate = ClientCertificate(status.client_certificate_data.encode(), status.client_key_data.encode())
    expires = status.expiration_timestamp
    if expires is not None and expires.tzinfo is None:
        raise CredentialError(f"{where}: expirationTimestamp {expires.isoformat()} has no time zone")
    return Credential(make_bearer_header(status.token, where) if status.token else "", certificate, expires)


def make_printable(text: str, limit: int = 200) -> str:
    """Return another program's text as one line for a terminal, without control characters and cut to `limit`."""
    return "".join(c if c.isprintable() else " " for c in text)[:limit].strip()


async def run_plugin(command: PluginCommand) -> bytes:
    """Run a plugin and return its standard output. Raises `CredentialError`."""
    async with _open_pipe() as (stdout, out), _open_pipe() as (stderr, err):
        process = await _start(command, out, None if command.interactive else err)
        out.close()
        err.close()
        complaints = asyncio.create_task(_read_tail(stderr))
        try:
            async with asyncio.timeout(command.timeout_seconds):
                printed = await _read_whole(stdout, command.where)
                says = make_printable((await complaints).decode(errors="replace"), MAX_STDERR_BYTES)
                code = await process.wait()
        except TimeoutError:
            raise CredentialError(f"{command.where}: gave no answer within {command.timeout_seconds:g} s") from None
        finally:
            complaints.cancel()
            await _end_process(process, group=not command.interactive)
    if code != 0:
        how = f"exit status {code}" if code > 0 else f"killed by signal {-code}"
        raise CredentialError(f"{command.where}: {how}{': ' if says else ''}{says}")
    return printed


async def _start(command: PluginCommand, out: IO[bytes], err: IO[bytes] | None) -> asyncio.subprocess.Process:
    # Without a terminal it gets its own session, so that its children are killed with it; with one it must stay in
    # ours.
    starting = asyncio.create_task(
        asyncio.create_subprocess_exec(
            command.command,
            *command.args,
            env=command.environ,
            stdin=None if command.interactive else asyncio.subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=not command.interactive,
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        # Cancelling a start kills only the program, which may have children by then.
        with suppress(OSError, ValueError):
            await _end_process(await starting, group=not command.interactive)
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        hint = command.install_hint.strip() or "is it installed and on PATH?"
        raise CredentialError(f"{command.where}: cannot be started: {reason}; {hint}") from None


@asynccontextmanager
async def _open_pipe() -> AsyncIterator[tuple[asyncio.StreamReader, IO[bytes]]]:
    """Open a pipe for a child's output. It can be closed even while descendants of the child hold it open.

    asyncio's own pipe would wait for these descendants.
    """
    reading, writing = os.pipe()
    reader = asyncio.StreamReader()
    with os.fdopen(writing, "wb", buffering=0) as end:
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb", buffering=0)
        )
        try:
            yield reader, end
        finally:
            transport.close()


async def _read_whole(stream: asyncio.StreamReader, where: str) -> bytes:
    """Return the whole output. Raises `CredentialError`, prefixed with `where`, above `MAX_STDOUT_BYTES`."""
    data = bytearray()
    while chunk := await stream.read(65536):
        data += chunk
        if len(data) > MAX_STDOUT_BYTES:
            raise CredentialError(f"{where}: printed more than {MAX_STDOUT_BYTES} bytes")
    return bytes(data)


async def _read_tail(stream: asyncio.StreamReader) -> bytes:
    data = b""
    while chunk := await stream.read(65536):
        data = (data + chunk)[-MAX_STDERR_BYTES:]
    return data


async def _end_process(process: asyncio.subprocess.Process, *, group: bool) -> None:
    """Kill a plugin that still runs.

    group: whether to kill its children, too, because it leads a session of its own.
    """
    if process.returncode is not None:
        return
    try:
        if group:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    except ProcessLookupError:
        pass  # the process has just ended by itself
    await process.wait()
