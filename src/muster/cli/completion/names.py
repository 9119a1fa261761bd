"""Completes names of a cluster's objects: callbacks for the `shell_complete` of click's parameters.

Where there is no cluster, or it does not answer, or refuses, nothing is offered and nothing is said: a message would
stand in the middle of the line that is being typed.
"""

import asyncio
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def jobs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """Jobs of the namespace that the line names."""
    from muster.api.jobset.names import JOBSET_NAME

    sets = _names(ctx, "/apis/jobset.x-k8s.io/v1alpha2", "jobsets")
    return _beginning(incomplete, sorted({*sets, *_names(ctx, "/apis/batch/v1", "jobs", labels=f"!{JOBSET_NAME}")}))


def local_queues(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """LocalQueues of the namespace that the line names."""
    return _beginning(incomplete, _names(ctx, "/apis/kueue.x-k8s.io/v1beta2", "localqueues"))


def pod_groups(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """PodGroups of the namespace that the line names, of all kinds that come with the server."""
    from muster.api.podgroups import POD_GROUP_KINDS

    found = {one for kind in POD_GROUP_KINDS for one in _names(ctx, f"/apis/{kind.api_version}", kind.plural)}
    return _beginning(incomplete, sorted(found))


def jobs_and_queues(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """JOB or queue/NAME."""
    if incomplete.startswith("queue/"):
        found = local_queues(ctx, param, incomplete.removeprefix("queue/"))
        return [f"queue/{name}" for name in found]
    return jobs(ctx, param, incomplete) + _beginning(incomplete, ["queue/"])


def queues(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """LocalQueues; with --cluster, ClusterQueues."""
    return (cluster_queues if ctx.params.get("cluster") else local_queues)(ctx, param, incomplete)


def cluster_queues(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """ClusterQueues."""
    return _beginning(incomplete, _names(ctx, "/apis/kueue.x-k8s.io/v1beta2", "clusterqueues", namespaced=False))


def clusters(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """Worker clusters of a manager."""
    return _beginning(incomplete, _names(ctx, "/apis/kueue.x-k8s.io/v1beta2", "multikueueclusters", namespaced=False))


def namespaces(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """Namespaces."""
    return _beginning(incomplete, _names(ctx, "/api/v1", "namespaces", namespaced=False))


def files(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem[str]]":  # noqa: ARG001
    """Whatever the shell itself completes a path to."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def directories(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem[str]]":  # noqa: ARG001
    """Directories."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="dir")]


def _beginning(incomplete: str, found: list[str]) -> list[str]:
    return [name for name in found if name.startswith(incomplete)]


def _names(ctx: click.Context, group: str, resource: str, *, namespaced: bool = True, labels: str = "") -> list[str]:
    from http.client import HTTPException

    from muster.actions.errors import UserError
    from muster.actions.session import Target, connection
    from muster.cli.completion import asking
    from muster.runtime.transport import TransportError

    target = Target.of(dict(ctx.params))
    try:
        config = connection(target)
        where = f"/namespaces/{target.namespace or config.namespace}" if namespaced else ""
        return asyncio.run(asking.names(config, f"{group}{where}/{resource}", labels))
    except (UserError, TransportError, HTTPException, OSError, ValueError):
        return []
