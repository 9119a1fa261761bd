"""Make RBAC roles and bindings as documents."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from muster.api.kinds import Kind
from muster.api.server.rbac import GROUP
from muster.install.options import NAME, Json, make_metadata

READ: Final = ("get", "list", "watch")


def make_rules(verbs: Sequence[str], *kinds: Kind[Any], of: str = "") -> list[Json]:
    """Return one RBAC rule for each API group of the kinds. of: the subresource; "" for the objects themselves."""
    groups: dict[str, list[str]] = {}
    for kind in kinds:
        groups.setdefault(kind.group, []).append(f"{kind.plural}/{of}" if of else kind.plural)
    return [
        {"apiGroups": [group], "resources": sorted(set(resources)), "verbs": list(verbs)}
        for group, resources in sorted(groups.items())
    ]


def make_rule(verbs: Sequence[str], kind: Kind[Any], names: Iterable[str] = ()) -> Json:
    """Return an RBAC rule for one kind. names: the names of the objects; empty for all."""
    named = {"resourceNames": list(names)} if names else {}
    return {"apiGroups": [kind.group], "resources": [kind.plural], **named, "verbs": list(verbs)}


def cluster_role(name: str, allowed: list[Json], labels: dict[str, str] | None = None) -> Json:
    """Return a ClusterRole with these rules."""
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ClusterRole",
        "metadata": make_metadata(name, labels=labels),
        "rules": allowed,
    }


def make_role(name: str, namespace: str, allowed: list[Json]) -> Json:
    """Return a Role with these rules in a namespace."""
    return {"apiVersion": f"{GROUP}/v1", "kind": "Role", "metadata": make_metadata(name, namespace), "rules": allowed}


def cluster_binding(name: str, namespace: str, account: str = NAME) -> Json:
    """Return the binding of a ClusterRole to a ServiceAccount.

    namespace: the namespace of the account.
    account: by default the engine's account.
    """
    head = {"apiVersion": f"{GROUP}/v1", "kind": "ClusterRoleBinding", "metadata": make_metadata(name)}
    return head | {
        "roleRef": _make_reference("ClusterRole", name),
        "subjects": [_make_account_subject(namespace, account)],
    }


def make_binding(name: str, place: str, namespace: str, *, of: str = "") -> Json:
    """Return the binding of a Role to the engine's ServiceAccount.

    place: the namespace of the Role.
    of: the name of the Role, if it differs from `name`.
    """
    head = {"apiVersion": f"{GROUP}/v1", "kind": "RoleBinding", "metadata": make_metadata(name, place)}
    return head | {"roleRef": _make_reference("Role", of or name), "subjects": [_make_account_subject(namespace)]}


def _make_reference(kind: str, name: str) -> Json:
    return {"apiGroup": GROUP, "kind": kind, "name": name}


def _make_account_subject(namespace: str, name: str = NAME) -> Json:
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}
