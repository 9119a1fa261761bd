"""Who asks, and whether they may.

Authentication turns a credential into a `User`; authorisation says whether that user may do what the request asks.
Until roles exist, the members of `system:masters` may do everything and nobody else anything.
"""

import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from muster.api.status import ApiError, forbidden, unauthorized

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"


@dataclass(frozen=True, slots=True)
class User:
    """Who a request comes from, once a credential has said so."""

    name: str
    groups: frozenset[str] = frozenset()


# The name and group of the credential that the server writes into its kubeconfig.
ADMIN = User("kubernetes-admin", frozenset({MASTERS, AUTHENTICATED}))


class Authenticator:
    """Knows client certificates (the TLS layer has checked who signed them) and bearer tokens."""

    def __init__(self, tokens: Mapping[str, User]) -> None:
        self._tokens = [(token.encode(), user) for token, user in tokens.items()]

    def user(self, certificate: User | None, authorization: str) -> User:
        """The user of a request. Raises `ApiError` (401) without a credential, or with one that nobody knows.

        `certificate` is who the client certificate names; `authorization` the header, or "".
        """
        if certificate is not None:
            return certificate
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() == "bearer" and token:
            presented = token.strip().encode()
            # Every known token is compared, in constant time: the answer's timing tells nothing about any.
            matches = [user for known, user in self._tokens if hmac.compare_digest(known, presented)]
            if matches:
                return matches[0]
        raise unauthorized()


@dataclass(frozen=True, slots=True)
class Access:
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
    """Do nothing if the user may. Raises `ApiError` (403) in the API server's words."""
    if MASTERS not in access.user.groups:
        raise _refusal(access)


def _refusal(access: Access) -> ApiError:
    user = f'User "{access.user.name}"'
    if not access.resource:
        return forbidden(f'forbidden: {user} cannot {access.verb} path "{access.path}"')
    plural = access.resource.partition("/")[0]
    full = f"{plural}.{access.group}" if access.group else plural
    what = f'{full} "{access.name}"' if access.name else full
    where = f'in the namespace "{access.namespace}"' if access.namespace else "at the cluster scope"
    message = (
        f"{what} is forbidden: {user} cannot {access.verb} "
        f'resource "{access.resource}" in API group "{access.group}" {where}'
    )
    return forbidden(message, resource=full, name=access.name)
