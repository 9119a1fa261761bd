"""Decide as which Unix account a node of a system server runs a pod, and which pods it refuses. Pure.

The namespace determines the owner of its pods. A pod cannot choose another account, and gets nothing for which the node
would need the superuser's rights. The API server already refuses such pods and reports that to the submitter; the node
does not rely on that.
"""

from collections.abc import Callable, Iterator

from muster.api.core import Container, Namespace, PodSecurityContext, PodSpec, SecurityContext, Volume
from muster.api.meta import wire_name
from muster.api.ours.unixusers import UNIX_UID, UNIX_USER
from muster.runtime.process.accounts import Account, AccountError

# The kinds of volumes that contain only data that the pod's user writes, or may read through the API.
_VOLUMES = frozenset(("empty_dir", "config_map", "secret", "downward_api", "projected"))
_NO_CONTEXT = (None, SecurityContext())

_ADVICE = "submit the job as another user, or in the namespace of one, such as -n user-ada"


class TenancyError(Exception):
    """A pod that a system server refuses to run. The message is for the user."""


def find_tenant(namespace: Namespace | None, name: str, find: Callable[[int], Account]) -> Account:
    """Return the Unix account under which a node runs the pods of a namespace.

    The annotations of the namespace name the account.

    namespace: None if the namespace no longer exists.
    name: its name, for errors.
    find: looks up an account by its user id; raises `AccountError` if there is none.

    Raises:
        TenancyError: the namespace belongs to no Unix user, to the superuser, or to a user who no longer has this id.
    """
    annotations = namespace.metadata.annotations if namespace is not None else {}
    user, uid = annotations.get(UNIX_USER, ""), annotations.get(UNIX_UID, "")
    if not user or not (uid.isascii() and uid.isdecimal()):
        raise TenancyError(
            f"namespace {name} belongs to no Unix user, and this server runs pods of Unix users only: {_ADVICE}"
        )
    if int(uid) == 0:
        raise TenancyError(f"namespace {name} belongs to the superuser, as whom this server runs nothing: {_ADVICE}")
    try:
        account = find(int(uid))
    except AccountError as error:
        raise TenancyError(f"namespace {name} belongs to user {user}: {error}") from None
    if account.name != user:
        raise TenancyError(f"namespace {name} belongs to user {user}, but the id {uid} is that of {account.name} now")
    return account


def is_plain(spec: PodSpec) -> bool:
    """Return whether a pod requests only rights that every account has."""
    contexts = (container.security_context for container in _list_containers(spec))
    if spec.security_context not in (None, PodSecurityContext()) or any(one not in _NO_CONTEXT for one in contexts):
        return False
    return not any(map(_find_refused_kind, spec.volumes))


def require_tenable(spec: PodSpec, account: Account) -> None:
    """Raise `TenancyError` if a pod requests rights that its account lacks."""
    for problem in _list_problems(spec, account):
        raise TenancyError(f"{problem}: pods of this namespace run as user {account.name}")


def _list_problems(spec: PodSpec, account: Account) -> Iterator[str]:
    for volume in spec.volumes:
        if kind := _find_refused_kind(volume):
            yield f'volume "{volume.name}": {kind} volumes are refused, name paths of this machine directly'
    yield from _list_foreign_ids(spec.security_context or PodSecurityContext(), account)
    for container in _list_containers(spec):
        yield from _list_foreign_ids(container.security_context or SecurityContext(), account)


def _list_containers(spec: PodSpec) -> tuple[Container, ...]:
    return (*spec.init_containers, *spec.containers)


def _find_refused_kind(volume: Volume) -> str:
    kinds = [field for field in volume.__struct_fields__ if field != "name" and getattr(volume, field) is not None]
    return next((wire_name(kind) for kind in kinds if kind not in _VOLUMES), "")


def _list_foreign_ids(context: PodSecurityContext | SecurityContext, account: Account) -> Iterator[str]:
    if context.run_as_user not in (None, account.uid):
        yield f"runAsUser {context.run_as_user} is another user"
    if context.run_as_group not in (None, account.gid):
        yield f"runAsGroup {context.run_as_group} is not the user's primary group"
    if isinstance(context, PodSecurityContext):
        wanted = {*context.supplemental_groups, *([] if context.fs_group is None else [context.fs_group])}
        if foreign := wanted - set(account.groups):
            yield f"group {min(foreign)} is not a group of the user"
    elif context.privileged:
        yield "privileged containers are refused"
