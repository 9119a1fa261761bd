"""Define users and their accesses, make 403 errors, and authenticate the sender of a request.

Authentication turns a credential into a `User`. Authorization decides whether that user may do what the request asks.
Members of `system:masters` may do everything; the roles decide for all other users (`access.rbac`).
"""

import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct

from muster.api.status import ApiError, forbidden, unauthorized

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
ANONYMOUS = "system:anonymous"
SERVICE_ACCOUNTS = "system:serviceaccounts"
_ACCOUNT_PREFIX = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class User:
    """The user of a request, as identified by its credential.

    uid: the UID of a service account, or the one an impersonation gives; "" for other users.
    extra: further information from the credential, such as the pod of a token.
    """

    name: str
    groups: frozenset[str] = frozenset()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)


def user_info(user: User) -> dict[str, Any]:
    """Return the non-empty fields of a user, as reviews, audit events and certificate requests show them."""
    extra = {key: list(values) for key, values in user.extra.items()}
    members = {"username": user.name, "uid": user.uid, "groups": sorted(user.groups), "extra": extra}
    return {name: value for name, value in members.items() if value}


# The user of a request without a valid credential.
NOBODY = User("")

# The name and group of the credential that the server writes into its kubeconfig.
ADMIN = User("kubernetes-admin", frozenset({MASTERS, AUTHENTICATED}))


def account_name(namespace: str, name: str) -> str:
    """Return the user name of a service account: `system:serviceaccount:NAMESPACE:NAME`."""
    return f"{_ACCOUNT_PREFIX}{namespace}:{name}"


def account_of(user_name: str) -> tuple[str, str] | None:
    """Return the namespace and name of the service account with this user name; None for any other user."""
    namespace, colon, name = user_name.removeprefix(_ACCOUNT_PREFIX).partition(":")
    is_account = user_name.startswith(_ACCOUNT_PREFIX) and colon and namespace and name and ":" not in name
    return (namespace, name) if is_account else None


def account_groups(namespace: str) -> frozenset[str]:
    """Return the groups of every service account of a namespace."""
    return frozenset({SERVICE_ACCOUNTS, f"{SERVICE_ACCOUNTS}:{namespace}", AUTHENTICATED})


# Returns the user of a token, or None for an unknown or expired one.
TokenCheck = Callable[[str], User | None]


def make_fixed_token_check(tokens: Mapping[str, User]) -> TokenCheck:
    """Return a check that accepts exactly these tokens."""
    known = [(token.encode(), user) for token, user in tokens.items()]

    def check(token: str) -> User | None:
        presented = token.encode()
        # Every token is compared, each in constant time, so that the timing of an answer reveals nothing.
        matches = [user for secret, user in known if hmac.compare_digest(secret, presented)]
        return matches[0] if matches else None

    return check


class Authenticator:
    """The authenticator of requests, by client certificates that the TLS layer has verified or by bearer tokens."""

    def __init__(self, check: TokenCheck) -> None:
        self._check = check

    def user(self, certificate: User | None, authorization: str) -> User:
        """Return the user of a request. A client certificate has precedence over a token.

        Raises `ApiError` (401) without a valid credential.

        certificate: the user of the client certificate; None without one.
        authorization: the Authorization header; "" without one.
        """
        if certificate is not None:
            return certificate
        scheme, _, token = authorization.partition(" ")
        user = self._check(token.strip()) if scheme.lower() == "bearer" and token.strip() else None
        if user is None:
            raise unauthorized()
        return user


class Access(Struct, frozen=True):
    """The action that a request asks for, in the terms of RBAC rules.

    resource: the plural name, with the subresource (`pods/log`); "" for a path that belongs to no resource.
    namespace: "" for all namespaces, and for cluster-scoped resources.
    name: "" for an action on a collection.
    path: the path, if `resource` is empty.
    """

    user: User
    verb: str
    group: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


# Raises `ApiError` (403) unless the user may do this.
Authorizer = Callable[[Access], None]


def authorize(access: Access) -> None:
    """Raise `ApiError` (403) unless the user is in `system:masters`."""
    if MASTERS not in access.user.groups:
        raise make_refusal(access)


def make_refusal(access: Access, reason: str = "") -> ApiError:
    """Return the 403 error for an access, in kube-apiserver's words. reason: an explanation; "" without one."""
    user = f'User "{access.user.name}"'
    why = f": {reason}" if reason else ""
    if not access.resource:
        return forbidden(f'forbidden: {user} cannot {access.verb} path "{access.path}"{why}')
    plural = access.resource.partition("/")[0]
    full = f"{plural}.{access.group}" if access.group else plural
    what = f'{full} "{access.name}"' if access.name else full
    where = f'in the namespace "{access.namespace}"' if access.namespace else "at the cluster scope"
    message = (
        f"{what} is forbidden: {user} cannot {access.verb} "
        f'resource "{access.resource}" in API group "{access.group}" {where}{why}'
    )
    return forbidden(message, resource=full, name=access.name)
