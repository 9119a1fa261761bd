"""Start a server as a process of its own, and print the address of the running server."""

import os
import signal
import sys
from pathlib import Path

import click

from muster.actions.errors import FAILED
from muster.actions.server.home import Home
from muster.actions.server.serveroptions import ServerOptions, read_options
from muster.cli.serveroptions import require_same_options

_STANDARD_ERROR = 2


def find_running(home: Home, options: ServerOptions) -> bool:
    """Print the address of the server that runs for this home, if there is one; return whether there is one.

    Raises `UserError` if the server has other options than these, and `click.ClickException` if it does not respond.
    """
    from muster.cli.actions.serving import await_start, say_unready

    if (pid := home.server_pid()) is None:
        return False
    if read_options(home) != options:  # a starting server has not written its options yet
        await_start(home, pid)
    click.echo(f"already running: {_read_url(home)}process {pid}, data in {home.path}; `muster down` ends it")
    home.require_kubeconfig()
    click.echo(make_export(home))
    require_same_options(home, options)
    say_unready(home)
    return True


def make_export(home: Home) -> str:
    """Return the shell command that makes kubectl use the cluster of this home."""
    import shlex

    return f"export KUBECONFIG={shlex.quote(str(home.kubeconfig))}"


def start_detached(home: Home, options: ServerOptions) -> int | None:
    """Fork a copy of this process that is to serve, and wait until it does.

    In the copy, return at once the descriptor to which the copy has to write: a line when it serves, or `FAILED` and
    the reason. In this process, return None when the copy serves. The copy keeps the modules that the command has
    imported, which a new interpreter would import in a tenth of a second. It runs no thread and has no open file of the
    command.

    Raises `click.ClickException` if the start fails, and `UserError` if another server with other options was started
    first.
    """
    try:
        log = os.open(home.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise click.ClickException(f"cannot use {home.path}: {error.strerror}") from error
    began = os.fstat(log).st_size
    reading, writing = os.pipe()
    sys.stdout.flush()  # otherwise the copy would write the buffered output, too
    child = os.fork()
    if not child:
        _leave_command(log, writing)
        return writing
    os.close(writing)
    os.close(log)
    try:
        with open(reading) as pipe:
            message = pipe.read()
    except KeyboardInterrupt:
        os.kill(child, signal.SIGTERM)
        raise
    if message.startswith(FAILED):
        os.waitpid(child, 0)
        if find_running(home, options):  # another server was started at the same moment
            return None
        raise click.ClickException(message.removeprefix(FAILED).rstrip())
    if message:
        click.echo(message, nl=False)
        return None
    os.waitpid(child, 0)
    raise _read_reason(home.log, began)


def _leave_command(log: int, open_descriptor: int) -> None:
    """Leave the session, the directory and the files of the command of which this process is a copy.

    log: the descriptor to which further output is written.
    open_descriptor: the only other descriptor that stays open.
    """
    os.setsid()
    os.chdir("/")
    for descriptor, standard in ((os.open(os.devnull, os.O_RDONLY), 0), (log, 1), (log, 2)):
        os.dup2(descriptor, standard)
    # The limit of open files may be a billion, or lower than when the caller opened its files.
    for descriptor in [int(file.name) for file in Path("/proc/self/fd").iterdir()]:
        if descriptor > _STANDARD_ERROR and descriptor != open_descriptor:
            os.closerange(descriptor, descriptor + 1)  # unlike close(), for the one that read the list is closed


def _read_url(home: Home) -> str:
    """Return the address of the server, followed by a comma; "" if the server has not stored its address yet."""
    from muster.runtime.kube.kubeconfig import KubeconfigError
    from muster.runtime.kube.kubeconfig_files import read

    try:
        return f"{read(home.kubeconfig).connection().cluster.server}, "
    except KubeconfigError:
        return ""


def _read_reason(log: Path, began: int) -> click.ClickException:
    """Return an error with the reason that the server wrote to its log when it could not start.

    began: the length of the log in bytes before the start.
    """
    with log.open() as file:
        file.seek(began)
        lines = [line.strip() for line in file if line.strip()]
    errors = [line.removeprefix(FAILED) for line in lines if line.startswith(FAILED)]
    return click.ClickException((errors or lines or ["it ended without a word"])[-1])
