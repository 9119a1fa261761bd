"""Refuse objects that a system server could not run as its users: pods of other accounts, and other machines.

The submitter of a pod or of a pod template gets the error at once.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from muster.api.core import NAMESPACE, NODE, PodSpec
from muster.api.kueue import MULTI_KUEUE_CLUSTER
from muster.api.ours.embedded import NODE_IDENTITY, NODE_KIND_LABEL, PROCESS
from muster.api.ours.unixusers import UNIX_USER
from muster.api.validation.groups.priorityclass import SYSTEM_CLASSES
from muster.cluster.apiserver.admission.chain import Plugin, WriteAttempt
from muster.cluster.apiserver.admission.podspecs import list_pod_specs
from muster.cluster.apiserver.identity.users import MASTERS
from muster.cluster.store import Key, Store
from muster.cluster.tenancy import TenancyError, find_tenant, is_plain, require_tenable
from muster.runtime.process.accounts import Account


def require_tenancy(find: Callable[[int], Account]) -> Plugin:
    """Return the plugin by which a system server refuses pods that their Unix user may not run.

    find: returns the Unix account of a user ID, or raises `AccountError`.

    In a namespace without a Unix user, the plugin admits new pods only if something other than the process nodes of
    this server may run them.
    """

    def check(attempt: WriteAttempt, store: Store) -> None:
        """Raise `ApiError` (403) for a pod that the namespace's user may not run, or that no node would run.

        Also raise it for a user's pod with a system priority, and for the Node of a joining machine.
        """
        if attempt.resource.key == NODE.resource and attempt.operation == "CREATE":
            _refuse_guest(attempt)
        if attempt.subresource or attempt.operation not in ("CREATE", "UPDATE"):
            return
        for path, spec in _list_new_specs(attempt):
            _require_ordinary_priority(attempt, path, spec)
            parsed = msgspec.convert(spec, PodSpec, strict=False)
            entry = store.latest(Key(NAMESPACE.resource, "", attempt.namespace))
            namespace = NAMESPACE.decode(entry.body) if entry is not None else None
            if namespace is None:
                continue
            if UNIX_USER in namespace.metadata.annotations:
                may_run = is_plain(parsed)
            else:  # an existing object may change, because the engine restores the template of a job that it stops
                may_run = attempt.operation == "UPDATE" or not _runs_only_as_users(store)
            if may_run:
                continue
            try:
                require_tenable(parsed, find_tenant(namespace, attempt.namespace, find))
            except TenancyError as error:
                raise attempt.make_refusal(f"{path}: {error}") from None

    return check


def _runs_only_as_users(store: Store) -> bool:
    """Return whether all pods run as Unix users: all nodes are process nodes, and no other cluster gets jobs."""
    nodes = store.list(NODE.resource).entries
    return (
        bool(nodes)
        and all(one.header.labels.get(NODE_KIND_LABEL) == PROCESS for one in nodes)
        and not store.list(MULTI_KUEUE_CLUSTER.resource).entries
    )


def _refuse_guest(attempt: WriteAttempt) -> None:
    """Raise `ApiError` (403) for the Node of a joining machine, because that machine runs all pods as one user."""
    if NODE_IDENTITY in ((attempt.document.get("metadata") or {}).get("annotations") or {}):
        raise attempt.make_refusal(
            "this server runs each pod as the user of its job, and a machine that joins runs all pods as the user of "
            "muster nodes: start a server of its own there"
        )


def _require_ordinary_priority(attempt: WriteAttempt, path: str, spec: dict[str, Any]) -> None:
    """Raise `ApiError` (403) if a user's pod has a system priority, by which it would preempt everybody's pods."""
    name = spec.get("priorityClassName")
    if name in SYSTEM_CLASSES and MASTERS not in attempt.user.groups:
        raise attempt.make_refusal(f"{path}: only root may use the priority class {name}")


def _list_new_specs(attempt: WriteAttempt) -> list[tuple[str, dict[str, Any]]]:
    """Return the pod specs that the write adds or changes, with their paths."""
    resource, old = attempt.resource.key, attempt.old
    earlier = dict(list_pod_specs(resource, old)) if old is not None else {}
    return [(path, spec) for path, spec in list_pod_specs(resource, attempt.document) if earlier.get(path) != spec]
