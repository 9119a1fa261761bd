"""`muster restore`: start the embedded cluster from a backup."""

import os
from pathlib import Path

import click

from muster.actions.server.home import Home
from muster.cli.completion import names
from muster.cli.names.examples import format_examples
from muster.cli.session import data_option


@click.command(
    epilog=format_examples(
        "muster restore muster.backup && muster up --detach", "muster restore --force muster.backup"
    ),
)
@click.argument("file", type=click.Path(path_type=Path), shell_complete=names.complete_files)
@click.option("--force", is_flag=True, help="Replace an existing cluster. Its files are moved to another directory.")
@data_option
def command(file: Path, force: bool, data: str) -> None:
    """Restore the objects and the keys in FILE, which `muster backup` has written. The server must be stopped."""
    from muster.cluster import backups
    from muster.cluster.store import DataDirectoryError
    from muster.cluster.store.integrity import archive
    from muster.runtime.realclock import RealClock

    home = Home.find(os.environ, data)
    try:
        backup = archive.load(file)
        home.make()
        aside = backups.restore(home.path, backup, RealClock().now(), replace=force)
    except DataDirectoryError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"cannot restore {file}: {error.strerror or error}") from error
    click.echo(
        f"{home.path} has the {len(backup.records)} objects of {file}; start the cluster with: muster up --detach"
    )
    if aside is not None:
        click.echo(f"the files that were there are in {aside}")
