"""Who asks, where a server passes requests on: it has found out who it is, and says so in headers.

It is believed only with a client certificate of the authorities, and by one of the names, that stand in the ConfigMap
by which kube-apiserver tells all whom it passes requests on to. Pure.
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
# The Role that reads it, which every cluster has.
READER_ROLE: Final = "extension-apiserver-authentication-reader"

_PREFIX: Final = "requestheader-"


class FrontProxy(Struct, frozen=True):
    """How a server that passes requests on is known, and in which headers it says what.

    authorities: PEM; the TLS layer checks that one of them has signed its certificate. names: of certificates; all
    if there is none.
    """

    authorities: str
    names: tuple[str, ...]
    user_headers: tuple[str, ...]
    group_headers: tuple[str, ...]
    uid_headers: tuple[str, ...]
    extra_prefixes: tuple[str, ...]


def read(data: Mapping[str, str]) -> FrontProxy | None:
    """Of the ConfigMap; None if no server passes requests on. Raises `ValueError` for what cannot be read."""

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


def common_name(certificate: Mapping[str, object] | None) -> str:
    """Of a certificate as `ssl` shows it; "" if there is none."""
    subject = (certificate or {}).get("subject", ())
    assert isinstance(subject, tuple)
    return next((value for part in subject for key, value in part if key == "commonName"), "")


def user(proxy: FrontProxy, certificate: Mapping[str, object] | None, headers: Sequence[tuple[str, str]]) -> User:
    """Who asks. certificate: the verified one of the connection, as `ssl` shows it. Raises `ApiError` (401)."""
    if not certificate or (proxy.names and common_name(certificate) not in proxy.names):
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
        groups |= {AUTHENTICATED}  # not all who pass on name it: kube-apiserver asks for OpenAPI documents without
    return User(
        name,
        groups,
        next(iter(values(proxy.uid_headers)), ""),
        {key: tuple(found) for key, found in extra.items()},
    )
