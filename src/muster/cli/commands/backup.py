"""`muster backup`: copy all objects and the keys of the embedded cluster into a file."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from muster.cli.completion import names
from muster.cli.home import Home, data_option
from muster.cli.names.examples import examples
from muster.cli.session import Target, connect, run

if TYPE_CHECKING:
    from muster.cluster.store.journal import Record


@click.command(
    epilog=examples("muster backup muster.backup", "muster backup --force /srv/backups/today"),
)
@click.argument("file", type=click.Path(path_type=Path), shell_complete=names.files)
@click.option("--force", is_flag=True, help="Replace the file if it is there.")
@data_option
def command(file: Path, force: bool, data: str) -> None:
    """Write all objects, as of one moment, and the keys into FILE, whether the cluster runs or not."""
    from muster.cluster import backups
    from muster.cluster.store import DataDirectoryError

    home = Home.find(os.environ, data)
    try:
        backups.check_absent(file, replace=force)
        served = home.server_pid() is not None
        records, revision = run(_from_server(home)) if served else backups.read(home.path)
        backups.save(file, home.path, records, revision)
    except DataDirectoryError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"cannot back up to {file}: {error.strerror or error}") from error
    click.echo(f"{file}: {len(records)} objects, revision {revision}")


async def _from_server(home: Home) -> "tuple[list[Record], int]":
    from muster.cluster import backups
    from muster.runtime.transport import Request

    async with connect(Target(kubeconfig=str(home.kubeconfig))) as session:
        transport = session.client.transport
        async with transport.stream(Request("GET", backups.PATH, accept=backups.CONTENT_TYPE)) as pieces:
            return await backups.receive(pieces)
