"""Identify the user of a request that kube-apiserver forwards, by its headers. Pure.

kube-apiserver authenticates the user and names the user in headers. The headers are trusted only from a caller with a
client certificate. Its authority and name must be in the ConfigMap that describes the front proxy.
"""

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import unquote

import msgspec
from msgspec import Struct

from muster.api.status import unauthorized
from muster.cluster.apiserver.identity.users import ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User

NAMESPACE: Final = "kube-system"
CONFIG_MAP_NAME: Final = "extension-apiserver-authentication"
# The Role that may read that ConfigMap; every cluster has it.
READER_ROLE: Final = "extension-apiserver-authentication-reader"

_PREFIX: Final = "requestheader-"


class FrontProxy(Struct, frozen=True):
    """The certificate names and user headers of the API server that forwards requests (the aggregation layer).

    authorities: PEM; the TLS layer checks that one of them has signed the server's certificate.
    names: the accepted names of certificates; empty accepts all.
    """

    authorities: str
    names: tuple[str, ...]
    user_headers: tuple[str, ...]
    group_headers: tuple[str, ...]
    uid_headers: tuple[str, ...]
    extra_prefixes: tuple[str, ...]


def read(data: Mapping[str, str]) -> FrontProxy | None:
    """Return the front proxy in the ConfigMap's data; None if no server forwards requests. Raises `ValueError`."""

    def listed(name: str) -> tuple[str, ...]:
        return msgspec.json.decode(data.get(_PREFIX + name) or "[]", type=tuple[str, ...])

    authorities, users = data.get(f"{_PREFIX}client-ca-file", ""), listed("username-headers")
    if not authorities or not users:
        return None
    return FrontProxy(
        authorities,
        listed("allowed-names"),
        users,
        listed("group-headers"),
        listed("uid-headers"),
        listed("extra-headers-prefix"),
    )


def find_user(proxy: FrontProxy, caller: User | None, headers: Sequence[tuple[str, str]]) -> User:
    """Return the user that the front proxy names in the headers of a request. Raises `ApiError` (401).

    caller: the user of the connection's verified certificate, which must be the proxy; None without one.
    """
    if caller is None or (proxy.names and caller.name not in proxy.names):
        raise unauthorized()

    def values(names: Sequence[str]) -> list[str]:
        return [value for name in names for header, value in headers if header.lower() == name.lower() and value]

    name = next(iter(values(proxy.user_headers)), "")
    if not name:
        raise unauthorized()
    extra: dict[str, list[str]] = {}
    for header, value in headers:
        for prefix in proxy.extra_prefixes:
            if header.lower().startswith(prefix.lower()):
                extra.setdefault(unquote(header[len(prefix) :]).lower(), []).append(value)
    groups = frozenset(values(proxy.group_headers))
    if name != ANONYMOUS and UNAUTHENTICATED not in groups:
        groups |= {
            AUTHENTICATED
        }  # not every proxy has this group: kube-apiserver requests OpenAPI documents without it
    return User(
        name,
        groups,
        next(iter(values(proxy.uid_headers)), ""),
        {key: tuple(texts) for key, texts in extra.items()},
    )
