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
_FAILED = "Error: "  # the start of the line that says why the server did not start


@click.command(
    epilog=examples(
        "muster up --detach",
        "muster up --nodes simulated:1000,cpu=8,memory=32Gi    # nodes that play pods",
        "muster up --data /srv/muster --port 0",
        "muster up --listen box1.lab --detach    # for other machines, too",
    ),
)
@data_option
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    help="The port on loopback; 0 chooses a free one.",
)
@click.option(
    "--listen",
    metavar="ADDRESS[:PORT]",
    multiple=True,
    help="Serve other machines, too, at this address or host name of this one; repeatable.",
)
@click.option(
    "--name",
    metavar="NAME",
    multiple=True,
    help="A further name or address by which other machines reach the server; repeatable.",
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
@click.option("--salvage", is_flag=True, help="If the store is damaged, start with its undamaged part.")
@click.option("--detach", is_flag=True, help="Return once the server serves, and leave it running.")
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", help="The format of lines on stderr."
)
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
    exposure = _make_exposure(listen, name)
    configuration = configuration_of(config, embedded=True) if config else None
    policy = _read_audit_policy(audit_policy) if audit_policy else None
    home = Home.find(os.environ, data)
    if ready_fd is None and _is_running(home):
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
        from muster.install.crds import served_definitions

        listed = served_definitions()
        logs.configure(log_format, level="WARNING", file=home.log if ready_fd is not None else None)
        _serve(home, Options(home.path, port, specs, configuration or EMBEDDED, policy, exposure, listed), ready_fd)


def _make_export(home: Home) -> str:
    """Return the line to type so that kubectl finds the cluster."""
    import shlex

    return f"export KUBECONFIG={shlex.quote(str(home.kubeconfig))}"


def _is_running(home: Home) -> bool:
    """Return whether a server holds this home; print that it does."""
    if (pid := home.server_pid()) is None:
        return False
    click.echo(f"already running: {_read_url(home)}process {pid}, data in {home.path}; `muster down` ends it")
    click.echo(_make_export(home))
    return True


def _make_warning(outside: str) -> str:
    """Return a warning about access from other machines; "" if the server accepts none."""
    if not outside:
        return ""
    from muster.runtime.process.ownership import user_name

    return (
        f"other machines reach it at {outside}, with a credential of this cluster and not without one.\n"
        f"A user who may create jobs or pods here runs programs on this machine as {user_name(os.getuid())}.\n"
    )


def _make_exposure(listen: tuple[str, ...], name: tuple[str, ...]) -> Any:
    """Return the addresses and names by which other machines reach the server, checked."""
    from muster.cluster.exposure import ExposureError, parse

    try:
        return parse(listen, name)
    except ExposureError as error:
        raise click.UsageError(str(error)) from error


def _read_url(home: Home) -> str:
    """Return the address of the server and a comma; "" if the server has not stored it yet."""
    from muster.runtime.kube.kubeconfig import KubeconfigError
    from muster.runtime.kube.kubeconfig_files import read

    try:
        return f"{read(home.kubeconfig).connection().cluster.server}, "
    except KubeconfigError:
        return ""


def configuration_of(path: str, *, embedded: bool = False) -> Any:
    """Return the checked settings in a file. embedded: take the defaults of an embedded cluster."""
    return written_configuration(path, embedded=embedded)[1]


def written_configuration(path: str, *, embedded: bool = False) -> tuple[str, Any]:
    """Return the text of a file, and its settings."""
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


def _read_audit_policy(path: str) -> Any:
    """Return the checked audit policy in a file."""
    from muster.cluster.apiserver.access.audit_policy import MAX_POLICY_BYTES, PolicyError, parse

    try:
        with open(path, "rb") as file:
            return parse(file.read(MAX_POLICY_BYTES + 1))
    except OSError as error:
        raise click.BadParameter(f"{path}: {error.strerror}", param_hint="--audit-policy") from error
    except PolicyError as error:
        raise click.BadParameter(f"{path}: {error}", param_hint="--audit-policy") from error


def _salvage(home: Home) -> None:
    """Repair a damaged store, and print what is lost."""
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
    """Serve until a signal asks to stop. A failed start prints one line."""
    import uvloop

    from muster.api.status import ApiError
    from muster.cluster.apiserver.identity.certificates import CredentialError
    from muster.cluster.serving import serve
    from muster.cluster.store import DataDirectoryError
    from muster.runtime.process.ownership import NotOursError

    is_ready = False

    def ready(url: str, outside: str) -> None:
        nonlocal is_ready
        is_ready = True
        text = f"ready: {url}, process {os.getpid()}\n{_make_warning(outside)}{_make_export(home)}\n"
        if ready_fd is not None:
            os.write(ready_fd, text.encode())
            os.close(ready_fd)
        else:
            click.echo(text, nl=False)
            sys.stdout.flush()

    try:
        uvloop.run(serve(options, ready))
    except (DataDirectoryError, CredentialError, NotOursError, ApiError, OSError) as error:
        problem = _describe_failure(error, home)
        if ready_fd is not None and not is_ready:  # the disk of the log may be full
            os.write(ready_fd, f"{_FAILED}{problem}\n".encode())
        raise click.ClickException(problem) from error


def _describe_failure(error: Exception, home: Home) -> str:
    """Return why the start failed. The error of a failed write names no file, so the home is named."""
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
            message = pipe.read()
    except KeyboardInterrupt:
        child.terminate()
        raise
    if message.startswith(_FAILED):
        child.wait()
        if _is_running(home):  # another server was started at the same moment
            return
        raise click.ClickException(message.removeprefix(_FAILED).rstrip())
    if message:
        click.echo(message, nl=False)
        return
    child.wait()
    _print_reason(home.log, began)


def _print_reason(log: Path, began: int) -> None:
    """Print what the server wrote to its log when it could not start."""
    with log.open() as file:
        file.seek(began)
        lines = [line.strip() for line in file if line.strip()]
    errors = [line.removeprefix(_FAILED) for line in lines if line.startswith(_FAILED)]
    raise click.ClickException((errors or lines or ["it ended without a word"])[-1])
