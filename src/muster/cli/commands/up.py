"""`muster up`: start the embedded cluster."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import click

from muster.actions.home import Home
from muster.cli.completion import names
from muster.cli.names.examples import examples
from muster.cli.session import data_option

PORT = 6443
_FAILED = "Error: "  # how a line begins that says why there is no server


@click.command(
    epilog=examples(
        "muster up --detach",
        "muster up --nodes simulated:1000,cpu=8,memory=32Gi    # nodes that play pods",
        "muster up --data /srv/muster --port 0",
        "muster up --listen box1.lab --detach    # for other machines, too",
    ),
)
@data_option
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="Loopback; 0: a free one.")
@click.option(
    "--listen",
    metavar="ADDRESS[:PORT]",
    multiple=True,
    help="Serve other machines, too, at this address or host name of this one; repeatable.",
)
@click.option(
    "--name", metavar="NAME", multiple=True, help="A further name or address by which they reach it; repeatable."
)
@click.option("--nodes", metavar="KIND[:COUNT][,RES=QTY]", multiple=True, help="process or simulated; repeatable.")
@click.option(
    "--config", metavar="FILE", help="Settings: a Configuration of config.kueue.x-k8s.io.", shell_complete=names.files
)
@click.option(
    "--audit-policy",
    metavar="FILE",
    help="Log requests to audit.log as this audit.k8s.io/v1 Policy says.",
    shell_complete=names.files,
)
@click.option("--salvage", is_flag=True, help="If the store is damaged, go on with what is whole of it.")
@click.option("--detach", is_flag=True, help="Return when it serves, and leave it running.")
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", help="Of what goes to stderr.")
@click.option("--ready-fd", type=int, hidden=True, help="Where to say that it serves.")
def command(
    data: str,
    port: int,
    listen: tuple[str, ...],
    name: tuple[str, ...],
    nodes: tuple[str, ...],
    config: str | None,
    audit_policy: str | None,
    salvage: bool,
    detach: bool,
    log_format: Literal["text", "json"],
    ready_fd: int | None,
) -> None:
    """Start an API server, a store, controllers and nodes on this machine, and keep them running."""
    from muster.cluster.nodespec import NodeSpec, NodeSpecError, parse
    from muster.runtime.process import logs

    try:
        specs = tuple(parse(text) for text in nodes) or (NodeSpec(),)
    except NodeSpecError as error:
        raise click.BadParameter(str(error), param_hint="--nodes") from error
    exposure = _exposure(listen, name)
    configuration = configuration_of(config, embedded=True) if config else None
    policy = _audit_policy(audit_policy) if audit_policy else None
    home = Home.find(os.environ, data)
    if ready_fd is None and _runs_already(home):
        return
    home.make()
    if salvage:
        _salvage(home)
    if detach:
        options = ["--port", str(port), "--log-format", log_format]
        several = {"--nodes": nodes, "--listen": listen, "--name": name}
        options += [word for option, values in several.items() for value in values for word in (option, value)]
        files = {"--config": config, "--audit-policy": audit_policy}
        options += [word for option, file in files.items() if file for word in (option, str(Path(file).absolute()))]
        _detach(home, options)
    else:
        from muster.api.config import EMBEDDED
        from muster.cluster.serving import Options

        logs.configure(log_format, level="WARNING", file=home.log if ready_fd is not None else None)
        _serve(home, Options(home.path, port, specs, configuration or EMBEDDED, policy, exposure), ready_fd)


def _export(home: Home) -> str:
    """What to type so that kubectl finds the cluster."""
    import shlex

    return f"export KUBECONFIG={shlex.quote(str(home.kubeconfig))}"


def _runs_already(home: Home) -> bool:
    """Whether a server has this home; says so."""
    if (pid := home.server_pid()) is None:
        return False
    click.echo(f"already running: {_url(home)}process {pid}, data in {home.path}; `muster down` ends it")
    click.echo(_export(home))
    return True


def _warning(outside: str) -> str:
    """Lines that say what it means to serve other machines; "" if none is served."""
    if not outside:
        return ""
    from muster.runtime.process.ownership import user_name

    return (
        f"other machines reach it at {outside}, with a credential of this cluster and not without one.\n"
        f"A user who may create jobs or pods here runs programs on this machine as {user_name(os.getuid())}.\n"
    )


def _exposure(listen: tuple[str, ...], name: tuple[str, ...]) -> Any:
    """Where other machines reach the server, checked."""
    from muster.cluster.exposure import ExposureError, parse

    try:
        return parse(listen, name)
    except ExposureError as error:
        raise click.UsageError(str(error)) from error


def _url(home: Home) -> str:
    """Where the server is, and a comma; "" if it has not said so yet."""
    from muster.runtime.kube.kubeconfig import KubeconfigError
    from muster.runtime.kube.kubeconfig_files import read

    try:
        return f"{read(home.kubeconfig).connection().cluster.server}, "
    except KubeconfigError:
        return ""


def configuration_of(path: str, *, embedded: bool = False) -> Any:
    """The settings in a file, checked; for an embedded cluster, what it does not say is as without a file."""
    return written_configuration(path, embedded=embedded)[1]


def written_configuration(path: str, *, embedded: bool = False) -> tuple[str, Any]:
    """The text of a file, and its settings."""
    from muster.api.config import MAX_BYTES, ConfigurationError, load

    try:
        with open(path, "rb") as file:
            text = file.read(MAX_BYTES + 1).decode(errors="surrogateescape")
        return text, load(text, embedded=embedded)
    except OSError as error:
        raise click.BadParameter(f"{path}: {error.strerror}", param_hint="--config") from error
    except ConfigurationError as error:
        lines = str(error).replace("\n", "\n  ")
        raise click.BadParameter(f"{path}:\n  {lines}", param_hint="--config") from error


def _audit_policy(path: str) -> Any:
    """The policy in a file, checked."""
    from muster.cluster.apiserver.access.audit_policy import MAX_POLICY_BYTES, PolicyError, parse

    try:
        with open(path, "rb") as file:
            return parse(file.read(MAX_POLICY_BYTES + 1))
    except OSError as error:
        raise click.BadParameter(f"{path}: {error.strerror}", param_hint="--audit-policy") from error
    except PolicyError as error:
        raise click.BadParameter(f"{path}: {error}", param_hint="--audit-policy") from error


def _salvage(home: Home) -> None:
    """Make a whole store of a damaged one, and say what is lost."""
    from muster.cli.actions.salvaging import report
    from muster.cluster.backups import salvage_home
    from muster.cluster.store import DataDirectoryError
    from muster.runtime.clock import RealClock

    try:
        salvaged = salvage_home(home.path, RealClock().now())
    except (DataDirectoryError, OSError) as error:
        raise click.ClickException(str(error)) from error
    for line in ["nothing is damaged: there is nothing to salvage"] if salvaged is None else report(salvaged):
        click.echo(line, err=True)


def _serve(home: Home, options: Any, ready_fd: int | None) -> None:
    """Serve until told to stop. A start that fails is one line."""
    import uvloop

    from muster.api.status import ApiError
    from muster.cluster.apiserver.front.https import AddressUnusable
    from muster.cluster.apiserver.identity.certificates import CredentialError
    from muster.cluster.serving import serve
    from muster.cluster.store import DataDirectoryError
    from muster.runtime.process.ownership import NotOursError

    is_ready = False

    def ready(url: str, outside: str) -> None:
        nonlocal is_ready
        is_ready = True
        text = f"ready: {url}, process {os.getpid()}\n{_warning(outside)}{_export(home)}\n"
        if ready_fd is not None:
            os.write(ready_fd, text.encode())
            os.close(ready_fd)
        else:
            click.echo(text, nl=False)
            sys.stdout.flush()

    try:
        uvloop.run(serve(options, ready))
    except (DataDirectoryError, AddressUnusable, CredentialError, NotOursError, ApiError, OSError) as error:
        said = _said(error, home)
        if ready_fd is not None and not is_ready:  # the log may be on a disk that is full
            os.write(ready_fd, f"{_FAILED}{said}\n".encode())
        raise click.ClickException(said) from error


def _said(error: Exception, home: Home) -> str:
    """Why it failed. When it is the writing that fails, the system names no file."""
    if isinstance(error, OSError) and error.filename is None and error.strerror:
        return f"cannot write to {home.path}: {error.strerror}"
    return str(error)


def _detach(home: Home, options: list[str]) -> None:
    """Start the server as a process of its own, and wait until it serves or has failed."""
    try:
        log = os.open(home.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise click.ClickException(f"cannot use {home.path}: {error.strerror}") from error
    began = os.fstat(log).st_size
    reading, writing = os.pipe()
    child = subprocess.Popen(
        [sys.executable, "-m", "muster.cli", "up", "--data", str(home.path), *options, "--ready-fd", str(writing)],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        pass_fds=[writing],
        start_new_session=True,
        cwd="/",
    )
    os.close(writing)
    os.close(log)
    try:
        with open(reading) as pipe:
            said = pipe.read()
    except KeyboardInterrupt:
        child.terminate()
        raise
    if said.startswith(_FAILED):
        child.wait()
        if _runs_already(home):  # one that was started in the same moment
            return
        raise click.ClickException(said.removeprefix(_FAILED).rstrip())
    if said:
        click.echo(said, nl=False)
        return
    child.wait()
    _explain(home.log, began)


def _explain(log: Path, began: int) -> None:
    """Say what the server said when it could not start."""
    with log.open() as file:
        file.seek(began)
        lines = [line.strip() for line in file if line.strip()]
    errors = [line.removeprefix(_FAILED) for line in lines if line.startswith(_FAILED)]
    raise click.ClickException((errors or lines or ["it ended without a word"])[-1])
