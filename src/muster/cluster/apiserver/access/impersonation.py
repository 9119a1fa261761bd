"""Decide as which user a request runs, from its `Impersonate-` headers, and whether its sender may do so.

As in k8s.io/apiserver (endpoints/filters/impersonation.go), every name, group and piece of extra information is an
object of its own, which the sender must be allowed to `impersonate`.
"""

from collections.abc import Sequence
from urllib.parse import unquote

from muster.api.status import bad_request
from muster.cluster.apiserver.identity.users import (
    ANONYMOUS,
    AUTHENTICATED,
    UNAUTHENTICATED,
    Access,
    Authorizer,
    User,
    account_groups,
    account_of,
)

_USER, _GROUP, _UID, _EXTRA = "impersonate-user", "impersonate-group", "impersonate-uid", "impersonate-extra-"
_AUTHENTICATION = "authentication.k8s.io"


def find_impersonated_user(headers: Sequence[tuple[str, str]], user: User, authorize: Authorizer) -> User:
    """Return the user as whom a request runs: its sender, unless a header requests impersonation.

    headers: the names, in lower case, and values of the `Impersonate-` headers.
    user: the sender.

    Raises `ApiError` (400, 403).
    """
    if not headers:
        return user
    values = [(name, value) for name, value in headers if value]
    name = next((value for header, value in values if header == _USER), "")
    groups = frozenset(value for header, value in values if header == _GROUP)
    uid = next((value for header, value in values if header == _UID), "")
    extra: dict[str, tuple[str, ...]] = {}
    for header, value in values:
        if header.startswith(_EXTRA):
            key = unquote(header.removeprefix(_EXTRA)).lower()
            extra[key] = (*extra.get(key, ()), value)
    if not name:
        raise bad_request("a user's groups, UID or extra information were to be impersonated, but no user")
    for access in _list_needed_accesses(user, name, groups, uid, extra):
        authorize(access)
    return User(name, _complete_groups(name, groups), uid, extra)


def _list_needed_accesses(
    sender: User, name: str, groups: frozenset[str], uid: str, extra: dict[str, tuple[str, ...]]
) -> list[Access]:
    """Return the accesses that a sender needs to impersonate the user with this name, groups, UID and extra data."""
    account = account_of(name)
    if account is not None:
        who = Access(sender, "impersonate", "", "serviceaccounts", *account)
    else:
        who = Access(sender, "impersonate", "", "users", "", name)
    needed = [who, *(Access(sender, "impersonate", "", "groups", "", group) for group in sorted(groups))]
    for key, values in extra.items():
        resource = f"userextras/{key}"
        needed += [Access(sender, "impersonate", _AUTHENTICATION, resource, "", value) for value in values]
    return [*needed, *([Access(sender, "impersonate", _AUTHENTICATION, "uids", "", uid)] if uid else [])]


def _complete_groups(name: str, groups: frozenset[str]) -> frozenset[str]:
    """Return the requested groups of the impersonated user, with the groups that every such user has.

    A service account gets its own groups only if none are requested.
    """
    account = account_of(name)
    if not groups and account is not None:
        return account_groups(account[0])
    if name == ANONYMOUS:
        return groups | {UNAUTHENTICATED}
    return groups if UNAUTHENTICATED in groups else groups | {AUTHENTICATED}
