"""`muster manifests`: print what to install on a cluster, or how to remove it."""

from typing import TYPE_CHECKING

import click

from muster.cli.completion import names
from muster.cli.names.examples import format_examples
from muster.cli.names.types import parse_name

if TYPE_CHECKING:
    from muster.api.config import Configuration
    from muster.install.options import Options

# The cluster's own namespaces. The engine's namespace is deleted on removal, and forbids privileged pods.
_TAKEN = ("default", "kube-node-lease", "kube-public", "kube-system")
# The families of CRDs (`muster.install.crds.FAMILIES`).
_KINDS = ("kueue", "jobset", "podgroups")


@click.command(
    epilog=format_examples(
        "muster manifests --image IMAGE > install.yaml",
        "muster manifests --config muster.yaml --image IMAGE > install.yaml",
        "muster manifests --uninstall > remove.sh",
    ),
)
@click.option(
    "-n",
    "--namespace",
    metavar="NAME",
    type=parse_name,
    help="Namespace of the engine (default: the namespace in the Configuration).",
)
@click.option(
    "--image", metavar="IMAGE", default="muster:latest", help="Image of the engine, built from Containerfile."
)
@click.option(
    "--replicas", type=click.IntRange(min=1), help="Number of replicas, of which one is the leader (default: 2)."
)
@click.option(
    "--config",
    metavar="FILE",
    help="File with the settings: a Configuration (config.kueue.x-k8s.io).",
    shell_complete=names.complete_files,
)
@click.option(
    "--kinds",
    type=click.Choice(_KINDS),
    multiple=True,
    help="Definitions to print (default: all). With --uninstall: definitions to delete in addition to "
    "Kueue's, with all their objects.",
)
@click.option(
    "--without-webhooks",
    is_flag=True,
    help="Print no webhooks. The API server then stores objects without Muster's defaults and checks, and "
    "objects that are stored as v1beta1 lose fields.",
)
@click.option("--cert-manager", is_flag=True, help="Let cert-manager create the certificates.")
@click.option(
    "--monitoring", is_flag=True, help="Add objects for the Prometheus operator and Grafana: rights, alerts and charts."
)
@click.option("--dashboard", is_flag=True, help="Add the dashboard, to which each viewer signs in.")
@click.option("--uninstall", is_flag=True, help="Print a script that removes the engine.")
def command(
    namespace: str | None,
    image: str,
    replicas: int | None,
    config: str | None,
    kinds: tuple[str, ...],
    without_webhooks: bool,
    cert_manager: bool,
    monitoring: bool,
    dashboard: bool,
    uninstall: bool,
) -> None:
    """Print the objects that install Muster on a Kubernetes cluster, for kubectl, kustomize or GitOps.

    To install them with kubectl, run `kubectl apply --server-side --field-manager muster -f install.yaml`.
    """
    from msgspec.structs import replace

    from muster.cli.terminal.output import dump, say
    from muster.controllers.integrations.table import frameworks_without_effect
    from muster.install.dashboard import describe_rights
    from muster.install.documents import make_documents
    from muster.install.removal import make_removal_script
    from muster.operator.addresses import BadAddressError

    # Without the engine no server converts Kueue's kinds, so they are removed in any case.
    named = tuple(dict.fromkeys((*_KINDS[:1], *kinds))) if uninstall else tuple(dict.fromkeys(kinds)) or _KINDS
    options = replace(
        _make_options(namespace, image, replicas, config, cert_manager=cert_manager),
        webhooks=not without_webhooks,
        kinds=named,
        cert_manager=cert_manager,
        monitoring=monitoring,
        dashboard=dashboard,
    )
    for framework, why in frameworks_without_effect(options.settings).items():
        say(f"warning: integrations.frameworks names {framework}: {why}, objects of this kind run without quota")
    if not uninstall and (rights := describe_rights(options)):
        say(f"note: {rights}")
    try:
        printed = (
            make_removal_script(options)
            if uninstall
            else "".join(f"---\n{dump(each, 'yaml')}\n" for each in make_documents(options))
        )
    except BadAddressError as error:
        raise click.BadParameter(f"{config}: {error}", param_hint="--config") from error
    click.echo(printed, nl=False)


def _make_options(
    namespace: str | None, image: str, replicas: int | None, config: str | None, *, cert_manager: bool
) -> "Options":
    """Return the options of the installation, from the command line and from the settings in the file `config`.

    Without a file, the settings are the defaults. Raises `click.BadParameter` for invalid options, and for options that
    contradict the file.
    """
    from muster.api.config import load
    from muster.api.validation.names import dns_label
    from muster.cli.settings import written_configuration
    from muster.install.options import WITH_CERT_MANAGER, make_default_configuration

    if namespace is not None and (wrong := dns_label(namespace)):
        raise click.BadParameter(f"{namespace!r}: {wrong[0]}", param_hint="--namespace")
    if config is None:
        text = (make_default_configuration(namespace) if namespace else make_default_configuration()) + (
            WITH_CERT_MANAGER if cert_manager else ""
        )
        settings = load(text)
    else:
        text, settings = written_configuration(config)
        for warning in settings.warnings:
            click.echo(f"{config}: {warning}", err=True)
    if namespace not in (None, settings.namespace):
        problem = f"{config} says namespace: {settings.namespace}; say the same in both, or in the file alone"
        raise click.BadParameter(problem, param_hint="--namespace")
    if not settings.namespace or settings.namespace in _TAKEN:
        problem = f"{settings.namespace or 'none'} will not do: the engine needs a namespace of its own"
        raise click.BadParameter(problem, param_hint="--namespace" if namespace else "--config")
    if cert_manager and settings.internal_cert_management.enable:
        problem = f"{config} has to say internalCertManagement.enable: false, or two programs make the certificates"
        raise click.BadParameter(problem, param_hint="--cert-manager")
    return checked_options(text, settings, image, replicas, config or "")


def checked_options(text: str, settings: "Configuration", image: str, replicas: int | None, source: str) -> "Options":
    """Return the options of the installation after checking them. Raises `click.BadParameter`.

    text: the Configuration.
    source: the file or option with the Configuration, for errors.
    """
    from muster.install.options import REPLICAS, Options, most_replicas

    if not image.strip() or any(character.isspace() for character in image):
        raise click.BadParameter(f"{image!r} is no image", param_hint="--image")
    most = most_replicas(settings)
    if most is not None and (replicas or most) > most:
        problem = f"{replicas} would all work at the same time: {source} says leaderElection.leaderElect: false"
        raise click.BadParameter(problem, param_hint="--replicas")
    return Options(text, settings, image, replicas or most or REPLICAS)
