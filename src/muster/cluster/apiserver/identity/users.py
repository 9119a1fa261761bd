"""Who asks, and in which words it is said what they may.

Authentication turns a credential into a `User`; authorisation says whether that user may do what the request asks.
Members of `system:masters` may do everything; what others may, the roles say (`access.rbac`).
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
    """Who a request comes from, once a credential has said so. `extra` is what else it said."""

    name: str
    groups: frozenset[str] = frozenset()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)


def user_info(user: User) -> dict[str, Any]:
    """What there is of a user, as reviews, audit events and requests for certificates show it."""
    extra = {key: list(values) for key, values in user.extra.items()}
    members = {"username": user.name, "uid": user.uid, "groups": sorted(user.groups), "extra": extra}
    return {name: value for name, value in members.items() if value}


# A client without a credential that is known.
NOBODY = User("")

# The name and group of the credential that the server writes into its kubeconfig.
ADMIN = User("kubernetes-admin", frozenset({MASTERS, AUTHENTICATED}))


def account_name(namespace: str, name: str) -> str:
    """The name of the user that a service account is."""
    return f"{_ACCOUNT_PREFIX}{namespace}:{name}"


def account_of(user_name: str) -> tuple[str, str] | None:
    """The namespace and name of the service account that a user is, if it is one."""
    namespace, colon, name = user_name.removeprefix(_ACCOUNT_PREFIX).partition(":")
    is_account = user_name.startswith(_ACCOUNT_PREFIX) and colon and namespace and name and ":" not in name
    return (namespace, name) if is_account else None


def account_groups(namespace: str) -> frozenset[str]:
    """The groups that all service accounts of a namespace are in."""
    return frozenset({SERVICE_ACCOUNTS, f"{SERVICE_ACCOUNTS}:{namespace}", AUTHENTICATED})


# Whose a token is; None for one that is not known (any more).
TokenCheck = Callable[[str], User | None]


def fixed_tokens(tokens: Mapping[str, User]) -> TokenCheck:
    """Knows these tokens."""
    known = [(token.encode(), user) for token, user in tokens.items()]

    def check(token: str) -> User | None:
        presented = token.encode()
        # Every known token is compared, in constant time: the answer's timing tells nothing about any.
        matches = [user for secret, user in known if hmac.compare_digest(secret, presented)]
        return matches[0] if matches else None

    return check


class Authenticator:
    """Knows client certificates (the TLS layer has checked who signed them) and bearer tokens."""

    def __init__(self, check: TokenCheck) -> None:
        self._check = check

    def user(self, certificate: User | None, authorization: str) -> User:
        """The user of a request. Raises `ApiError` (401) without a credential, or with one that is not known.

        `certificate` is who the client certificate names; `authorization` the header, or "".
        """
        if certificate is not None:
            return certificate
        scheme, _, token = authorization.partition(" ")
        user = self._check(token.strip()) if scheme.lower() == "bearer" and token.strip() else None
        if user is None:
            raise unauthorized()
        return user


class Access(Struct, frozen=True):
    """What a request is about to do, in the words that rights are given in.

    resource: plural, with the subresource (`pods/log`); empty for a path that is no resource's.
    path: for those.
    """

    user: User
    verb: str
    group: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


# Raises `ApiError` (403) unless the user may.
Authorizer = Callable[[Access], None]


def authorize(access: Access) -> None:
    """Let masters do everything, and other users nothing. Raises `ApiError` (403)."""
    if MASTERS not in access.user.groups:
        raise refusal(access)


def refusal(access: Access, reason: str = "") -> ApiError:
    """403 in the API server's words. `reason` is what the roles say about it, if anything."""
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
