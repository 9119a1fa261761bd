"""The common parts of `muster takeover` and `muster handback`: the settings, the run, and the list of steps."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from muster.actions.moving.carrying import Move
    from muster.actions.moving.clusterstate import MoveState
    from muster.actions.moving.steps import MoveStep
    from muster.api.config import Configuration
    from muster.install.options import Options


def options_in(text: str, source: str, image: str, replicas: int | None, namespace: str) -> "Options":
    """Return the installation options that a Configuration describes.

    Raises `click.BadParameter`, and `click.ClickException` if the text is no valid Configuration.

    source: the file that contains the text, for errors.
    namespace: the namespace of the engine, if the text names none.
    """
    from muster.api.config import ConfigurationError, load
    from muster.cli.commands.kubernetes.manifests import checked_options

    settings = _load(text, source, load, ConfigurationError)
    if namespace and settings.namespace != namespace and not _has_namespace(text):
        text = f"{text.rstrip()}\nnamespace: {namespace}\n"
        settings = _load(text, source, load, ConfigurationError)
    return checked_options(text, settings, image, replicas, source)


async def require_no_embedded(client: Any) -> None:
    """Raise `click.ClickException` if the cluster was started by `muster up`, because it has an engine of its own."""
    from muster.insight.reader.engine import is_embedded

    if await is_embedded(client):
        raise click.ClickException(
            "this is a cluster of `muster up`, which has an engine of its own: name another with --kubeconfig"
        )


async def carry_out(move: "Move", plan: "Callable[[MoveState], list[MoveStep]]", *, dry_run: bool, end: str) -> None:
    """Carry out the remaining steps of a move, or only list them and rehearse the steps that can be rehearsed.

    Raises `click.ClickException` if the move would disturb jobs or cannot continue.

    end: the sentence to print after the move.
    """
    from muster.actions.moving.steps import RefusedError

    try:
        if dry_run:
            steps = plan(await move.read_state())
            for number, step in enumerate(steps, 1):
                click.echo(f"{number:3}. {step.text}")
            await move.rehearse(steps)
            if not steps:
                click.echo("nothing is left to do")
            return
        await move.run(plan)
    except RefusedError as error:
        raise click.ClickException(str(error)) from error
    click.echo(end)


def _load(text: str, source: str, load: Any, error_type: type[Exception]) -> "Configuration":
    try:
        loaded: Configuration = load(text)
    except error_type as error:
        raise click.ClickException(f"{source} cannot be read: {error}; name a file with --config") from error
    return loaded


def _has_namespace(text: str) -> bool:
    import yaml

    document = yaml.load(text, yaml.CSafeLoader)
    return isinstance(document, dict) and bool(document.get("namespace"))
