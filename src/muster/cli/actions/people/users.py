"""List and remove the users that `muster user add` has created."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from muster.actions.errors import UserError
from muster.api.core import SECRET, SERVICE_ACCOUNT, Namespace
from muster.api.kinds import Kind
from muster.api.meta import Object
from muster.api.ours.unixusers import UNIX_UID
from muster.api.ours.users import USER_LABEL, USER_QUEUE_ANNOTATION, USERS_NAMESPACE
from muster.api.server.rbac import CLUSTER_ROLE_BINDING, ROLE_BINDING, ClusterRoleBinding, RoleBinding
from muster.api.status import ApiError
from muster.runtime.client import Client
from muster.runtime.refusals import ignoring, is_refusal

# In the order of deletion: without the account its token is invalid, even if other objects remain.
_KINDS: tuple[Kind[Any], ...] = (SERVICE_ACCOUNT, SECRET, CLUSTER_ROLE_BINDING, ROLE_BINDING)


def require_unix_namespace(namespace: Namespace, name: str) -> None:
    """Raise `UserError` if a system server would refuse the jobs of a namespace, because no Unix user owns it.

    name: the user whose namespace it would be.
    """
    if UNIX_UID not in namespace.metadata.annotations:
        raise UserError(
            f"this server runs jobs as users of this machine, and namespace {namespace.metadata.name} belongs to none. "
            f"Such a user needs no line: let {name} type `muster run` here. From elsewhere, {name} works in the "
            f"namespace of an account of this machine: muster user add {name} -n user-ACCOUNT"
        )


@contextmanager
def requiring_administrator(deed: str) -> Iterator[None]:
    """Replace a refusal of the server inside the `with` block by a `UserError` that says who may manage users.

    Other errors are not changed.

    deed: the requested action, as a phrase.
    """
    try:
        yield
    except ApiError as error:
        if not is_refusal(error, "Forbidden"):
            raise
        raise UserError(f"only an administrator of this cluster may {deed}") from error


async def list_users(client: Client) -> list[dict[str, Any]]:
    """Return a row for each user that `muster user add` has created, by name. Raises `ApiError`."""
    accounts = (await client.list(SERVICE_ACCOUNT, USERS_NAMESPACE, labels=USER_LABEL)).items
    of_cluster = (await client.list(CLUSTER_ROLE_BINDING, labels=USER_LABEL)).items
    of_namespaces = (await client.list(ROLE_BINDING, labels=USER_LABEL)).items
    rows = [make_row(account, of_cluster, of_namespaces) for account in accounts]
    return sorted(rows, key=lambda row: str(row["name"]))


def make_row(
    account: Any, of_cluster: Sequence[ClusterRoleBinding], of_namespaces: Sequence[RoleBinding]
) -> dict[str, Any]:
    """Return the row of a user, from the user's service account and the bindings of all users."""
    meta = account.metadata
    own = [one for one in of_namespaces if one.metadata.labels[USER_LABEL] == meta.name]
    roles = {one.role_ref.name for one in of_cluster if one.metadata.labels[USER_LABEL] == meta.name}
    return {
        "name": meta.name,
        "namespaces": sorted({one.metadata.namespace for one in own}),
        "queue": meta.annotations.get(USER_QUEUE_ANNOTATION, ""),
        "admin": "cluster-admin" in roles,
        "created": meta.creation_timestamp,
    }


async def remove_user(client: Client, name: str) -> bool:
    """Delete the account, token and bindings of a user; return whether any existed. Raises `ApiError`.

    The user's jobs stay.
    """
    had = False
    for kind in _KINDS:
        where = USERS_NAMESPACE if kind in (SERVICE_ACCOUNT, SECRET) else ""
        for one in (await client.list(kind.seen_as(Object), where, labels=f"{USER_LABEL}={name}")).items:
            had = True
            with ignoring("NotFound"):
                await client.delete(kind, one.metadata.name, one.metadata.namespace)
    return had
