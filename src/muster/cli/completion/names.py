"""Complete names of a cluster's objects: callbacks for the `shell_complete` of click's parameters.

A callback returns the names that begin with the typed text.

If there is no cluster, or it does not respond, or it refuses, the callbacks return no names and print nothing: a
message would appear in the middle of the line that the user types.
"""

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def complete_jobs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """Return the names of the JobSets, and of Jobs that belong to no JobSet, in the namespace of the command line."""
    from muster.api.jobset.names import JOBSET_NAME

    sets = _list_names(ctx, "/apis/jobset.x-k8s.io/v1alpha2", "jobsets")
    return _filter_by_prefix(
        incomplete, sorted({*sets, *_list_names(ctx, "/apis/batch/v1", "jobs", labels=f"!{JOBSET_NAME}")})
    )


def complete_local_queues(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """Return the names of the LocalQueues in the namespace of the command line."""
    return _filter_by_prefix(incomplete, _list_names(ctx, "/apis/kueue.x-k8s.io/v1beta2", "localqueues"))


def complete_pod_groups(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """Return the names of the PodGroups, of all kinds that the server serves, in the namespace of the command line."""
    from muster.api.podgroups import POD_GROUP_KINDS

    names = {one for kind in POD_GROUP_KINDS for one in _list_names(ctx, f"/apis/{kind.api_version}", kind.plural)}
    return _filter_by_prefix(incomplete, sorted(names))


def complete_jobs_and_queues(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of the jobs or, after `queue/`, of the LocalQueues in the namespace of the command line."""
    if incomplete.startswith("queue/"):
        queues_of_namespace = complete_local_queues(ctx, param, incomplete.removeprefix("queue/"))
        return [f"queue/{name}" for name in queues_of_namespace]
    return complete_jobs(ctx, param, incomplete) + _filter_by_prefix(incomplete, ["queue/"])


def complete_queues(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of the LocalQueues; on a command line with --cluster, of the ClusterQueues."""
    return (complete_cluster_queues if ctx.params.get("cluster") else complete_local_queues)(ctx, param, incomplete)


def complete_cluster_queues(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """Return the names of the ClusterQueues."""
    return _filter_by_prefix(
        incomplete, _list_names(ctx, "/apis/kueue.x-k8s.io/v1beta2", "clusterqueues", namespaced=False)
    )


def complete_clusters(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """Return the names of the manager's worker clusters."""
    return _filter_by_prefix(
        incomplete, _list_names(ctx, "/apis/kueue.x-k8s.io/v1beta2", "multikueueclusters", namespaced=False)
    )


def complete_namespaces(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """Return the names of the namespaces."""
    return _filter_by_prefix(incomplete, _list_names(ctx, "/api/v1", "namespaces", namespaced=False))


def complete_files(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem[str]]":  # noqa: ARG001
    """Return the mark that makes the shell complete a path to a file."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def complete_directories(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem[str]]":  # noqa: ARG001
    """Return the mark that makes the shell complete a path to a directory."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="dir")]


def _filter_by_prefix(incomplete: str, names: list[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _list_names(
    ctx: click.Context, group: str, resource: str, *, namespaced: bool = True, labels: str = ""
) -> list[str]:
    from muster.actions.errors import UserError
    from muster.actions.server.session import Target, reach
    from muster.cli.completion import asking
    from muster.runtime.eventloop import drive
    from muster.runtime.transport import TransportError

    target = Target.of(dict(ctx.params))
    try:
        config = reach(target)
        where = f"/namespaces/{target.namespace or config.namespace}" if namespaced else ""
        return drive(asking.read_names(config, f"{group}{where}/{resource}", labels))
    except (UserError, TransportError, OSError, ValueError):
        return []
