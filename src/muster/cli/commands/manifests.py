"""`muster manifests`: all that is to be installed on a real cluster, and how it is removed."""

from typing import TYPE_CHECKING

import click

from muster.cli.completion import names
from muster.cli.names.examples import examples
from muster.cli.names.types import name

if TYPE_CHECKING:
    from muster.install.options import Options

# Namespaces that are the cluster's own. The engine's is removed with it, and bars pods with rights of the node's.
_TAKEN = ("default", "kube-node-lease", "kube-public", "kube-system")
# Whose definitions there are (`muster.install.crds.FAMILIES`).
_KINDS = ("kueue", "jobset", "podgroups")


@click.command(
    epilog=examples(
        "muster manifests --image IMAGE > install.yaml",
        "muster manifests --config muster.yaml --image IMAGE > install.yaml",
        "muster manifests --uninstall > remove.sh",
    ),
)
@click.option(
    "-n", "--namespace", metavar="NAME", type=name, help="Where the engine is (default: as the Configuration says)."
)
@click.option("--image", metavar="IMAGE", default="muster:latest", help="With the engine: see Containerfile.")
@click.option("--replicas", type=click.IntRange(min=1), help="One leads, the others stand by (default: 2).")
@click.option(
    "--config", metavar="FILE", help="Settings: a Configuration of config.kueue.x-k8s.io.", shell_complete=names.files
)
@click.option(
    "--kinds",
    type=click.Choice(_KINDS),
    multiple=True,
    help="Whose definitions come with it (default: all), or go with it besides Kueue's, with all their objects.",
)
@click.option(
    "--without-webhooks",
    is_flag=True,
    help="Let the API server store what it is given, unasked. Objects that it has stored as v1beta1 lose fields.",
)
@click.option("--uninstall", is_flag=True, help="Print how it is removed instead, as a script.")
def command(
    namespace: str | None,
    image: str,
    replicas: int | None,
    config: str | None,
    kinds: tuple[str, ...],
    without_webhooks: bool,
    uninstall: bool,
) -> None:
    """Print what to install on a Kubernetes cluster, for kustomize, GitOps, or kubectl:
    `kubectl apply --server-side --field-manager muster -f install.yaml`.
    """
    from msgspec.structs import replace

    from muster.cli.terminal.output import dump
    from muster.install.documents import documents
    from muster.install.removal import removal
    from muster.operator.endpoints import BadAddressError

    # Without the engine nothing converts Kueue's kinds: they go with it, whatever else does.
    named = tuple(dict.fromkeys((*_KINDS[:1], *kinds))) if uninstall else tuple(dict.fromkeys(kinds)) or _KINDS
    options = replace(_options(namespace, image, replicas, config), webhooks=not without_webhooks, kinds=named)
    try:
        printed = (
            removal(options) if uninstall else "".join(f"---\n{dump(each, 'yaml')}\n" for each in documents(options))
        )
    except BadAddressError as error:
        raise click.BadParameter(f"{config}: {error}", param_hint="--config") from error
    click.echo(printed, nl=False)


def _options(namespace: str | None, image: str, replicas: int | None, config: str | None) -> "Options":
    from muster.api.config import load
    from muster.api.validation.names import dns_label
    from muster.cli.commands.up import written_configuration
    from muster.install.options import REPLICAS, Options, most_replicas, plain

    if not image.strip() or any(character.isspace() for character in image):
        raise click.BadParameter(f"{image!r} is no image", param_hint="--image")
    if namespace is not None and (wrong := dns_label(namespace)):
        raise click.BadParameter(f"{namespace!r}: {wrong[0]}", param_hint="--namespace")
    if config is None:
        text = plain(namespace) if namespace else plain()
        settings = load(text)
    else:
        text, settings = written_configuration(config)
    if namespace not in (None, settings.namespace):
        said = f"{config} says namespace: {settings.namespace}; say the same in both, or in the file alone"
        raise click.BadParameter(said, param_hint="--namespace")
    if not settings.namespace or settings.namespace in _TAKEN:
        said = f"{settings.namespace or 'none'} will not do: the engine needs a namespace of its own"
        raise click.BadParameter(said, param_hint="--namespace" if namespace else "--config")
    most = most_replicas(settings)
    if most is not None and (replicas or most) > most:
        said = f"{replicas} would all work at the same time: {config} says leaderElection.leaderElect: false"
        raise click.BadParameter(said, param_hint="--replicas")
    return Options(text, settings, image, replicas or most or REPLICAS)
