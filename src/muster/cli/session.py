"""Run the asynchronous body of a command on the user's cluster. Expected failures become one line."""

import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import FrameType
from typing import Any, NoReturn, TypeVar

import click

from muster.actions.errors import UserError
from muster.actions.server import session
from muster.actions.server.session import Session, Target
from muster.cli.completion.names import complete_directories, complete_files, complete_namespaces
from muster.cli.names.types import parse_name
from muster.cli.terminal import streams

T = TypeVar("T")
Command = Callable[..., Any]

# The option with which users name a home, for `Home.find`.
data_option = click.option(
    "--data",
    metavar="DIR",
    default="",
    help="Directory of the cluster's data (default: $MUSTER_HOME, or else ~/.muster).",
    shell_complete=complete_directories,
)


def target_options(command: Command) -> Command:
    """Return the command with the options `--namespace` and `--kubeconfig`, which every command on a cluster has."""
    namespace = click.option(
        "-n",
        "--namespace",
        type=parse_name,
        metavar="NAME",
        help="Namespace (default: the namespace of the kubeconfig).",
        shell_complete=complete_namespaces,
    )
    kubeconfig = click.option(
        "--kubeconfig",
        metavar="FILE",
        help="Kubeconfig of the cluster (default: $KUBECONFIG, or else the cluster of `muster up`).",
        shell_complete=complete_files,
    )
    return kubeconfig(namespace(command))


@asynccontextmanager
async def connect(target: Target, *, submits: bool = False) -> AsyncIterator[Session]:
    """Open a session with the cluster that the target names.

    If KUBECONFIG overrides an explicit MUSTER_HOME, print which cluster the command uses: on a terminal at once,
    otherwise only if the command fails. Raises the errors that `run` prints in one line.

    submits: whether to print at once which cluster the command uses, unless it is the cluster of this home.
    """
    from muster.api.status import ApiError
    from muster.cli.terminal.output import say

    async with session.connect(target, say, _import_aiohttp) as connected:
        if connected.where if submits else connected.unused_home is not None and sys.stderr.isatty():
            say(connected.describe_cluster())
        try:
            yield connected
        except (ApiError, UserError, click.ClickException):
            if not submits:
                say_unexpected_cluster(connected)
            raise


def say_unexpected_cluster(connected: Session) -> None:
    """Print the cluster of the session after a command has failed, if the user may have intended another one.

    Nothing is printed if `connect` has printed that on a terminal.
    """
    from muster.cli.terminal.output import say

    if connected.unused_home is not None and not sys.stderr.isatty():
        say(connected.describe_cluster())


def _import_aiohttp() -> None:
    """Import aiohttp without loading the system's certificate authorities, which would double the time."""
    from muster.runtime.kube.tls import no_bundle

    with no_bundle():
        import aiohttp  # noqa: F401


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine of a command in an event loop; return its result.

    An expected failure becomes a `click.ClickException`, of which the user sees one line.
    """
    import asyncio

    body = _run_until_signal(main)
    try:
        with _convert_expected_failures():
            return asyncio.run(body)
    finally:
        body.close()  # in case they were interrupted before they started
        main.close()


def ask(main: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine of a command that only sends requests; return its result.

    Unlike `run`, this function starts an event loop only if one is needed. The coroutine starts no task and waits only
    for the responses of the server. A signal terminates the process with the signal's exit code.
    """
    from muster.runtime.eventloop import drive

    def leave(number: int, _: FrameType | None) -> NoReturn:
        streams.give_up_output()  # a blocked write could wait forever for a reader
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, leave) for number in list_heeded_signals() - {signal.SIGINT}}
    try:
        with _convert_expected_failures():
            return drive(main)
    finally:
        main.close()
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _convert_expected_failures() -> Iterator[None]:
    """Turn an expected failure inside the `with` block into a `click.ClickException`, which prints one line."""
    from muster.api.status import ApiError
    from muster.runtime.kube.kubeconfig import KubeconfigError
    from muster.runtime.transport import TransportError

    try:
        yield
    except (ApiError, TransportError, KubeconfigError, UserError) as error:
        raise click.ClickException(str(error)) from error


def list_heeded_signals() -> set[signal.Signals]:
    """Return the termination signals that this process does not ignore.

    `nohup`, for example, makes the process ignore SIGHUP.
    """
    asking = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)
    return {number for number in asking if signal.getsignal(number) is not signal.SIG_IGN}


async def _run_until_signal(main: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine and return its result. A termination signal cancels the coroutine.

    The process then exits with the signal's exit code. asyncio handles Ctrl-C in the same way. If the signal handler
    raised an exception instead, it would end only the task that runs at that moment.
    """
    import asyncio

    received = list[int]()
    loop, body = asyncio.get_running_loop(), asyncio.current_task()
    assert body is not None

    def leave(number: int, _: object) -> None:
        if not received:
            received.append(number)
            streams.give_up_output()  # a blocked write could wait forever for a reader
            loop.call_soon_threadsafe(body.cancel)

    before = {number: signal.signal(number, leave) for number in list_heeded_signals() - {signal.SIGINT}}
    try:
        return await main
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if received:
            raise SystemExit(128 + received[0])
