"""`muster backup`: copy all objects, the history and the keys of the embedded cluster into a file."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from muster.actions.server.home import Home
from muster.actions.server.session import Target
from muster.cli.completion import names
from muster.cli.names.examples import format_examples
from muster.cli.session import connect, data_option, run

if TYPE_CHECKING:
    from muster.cluster.store.journal import JournalRecord


@click.command(
    epilog=format_examples("muster backup muster.backup", "muster backup --force /srv/backups/today"),
)
@click.argument("file", type=click.Path(path_type=Path), shell_complete=names.complete_files)
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@data_option
def command(file: Path, force: bool, data: str) -> None:
    """Write all objects as of one moment, the history and the keys to FILE. The server may run or be stopped."""
    from muster.cluster import backups
    from muster.cluster.store import DataDirectoryError

    home = Home.find(os.environ, data)
    try:
        backups.check_absent(file, replace=force)
        served = home.server_pid() is not None
        records, revision, ran = run(_read_server(home)) if served else _read_disk(home)
        backups.save(file, home.path, records, revision, ran)
    except DataDirectoryError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"cannot back up to {file}: {error.strerror or error}") from error
    click.echo(f"{file}: {len(records)} objects, revision {revision}")


def _read_disk(home: Home) -> "tuple[list[JournalRecord], int, bytes]":
    from muster.cluster import backups
    from muster.runtime.realclock import RealClock

    return *backups.read(home.path), backups.history_of(home.path, RealClock().now())


async def _read_server(home: Home) -> "tuple[list[JournalRecord], int, bytes]":
    from muster.cluster import backups
    from muster.cluster.history import BACKUP_PATH
    from muster.runtime.refusals import ignoring
    from muster.runtime.transport import Request

    async with connect(Target(kubeconfig=str(home.kubeconfig))) as session:
        transport, ran = session.client.transport, b""
        async with transport.stream(Request("GET", backups.PATH, accept=backups.CONTENT_TYPE)) as pieces:
            records, revision = await backups.receive(pieces)
        with ignoring("NotFound"):  # a server of an older release serves no history
            async with transport.stream(Request("GET", BACKUP_PATH, accept=backups.CONTENT_TYPE)) as pieces:
                ran = b"".join([piece async for piece in pieces])
        return records, revision, ran
