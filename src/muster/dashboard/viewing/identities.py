"""Decide which user a proxy names in headers. Pure.

The proxy authenticates itself first (`fronts`). Its headers are validated, because the dashboard could impersonate
anybody: system users are refused, and groups that the settings do not allow are left out.
"""

from collections.abc import Sequence

from msgspec import Struct

from muster.api.config.types import IdentityHeaders
from muster.api.status import bad_request, forbidden, unauthorized

_SYSTEM = "system:"
# The API server itself adds this group to every user.
_EVERYBODY = "system:authenticated"


class Identity(Struct, frozen=True):
    """The user whom a proxy has signed in.

    extra: further information by key, for impersonation.
    """

    user: str
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


def read_identity(settings: IdentityHeaders, headers: Sequence[tuple[str, str]]) -> Identity:
    """Return the user whom the headers of a proxy name.

    headers: the received headers, decoded as Latin-1.

    Groups that the settings do not allow are left out. Raises `ApiError`: 400 for a malformed header, 401 if no user is
    named, 403 for a system user, a user whom the settings do not allow, or a system group that the API server does not
    add itself.
    """
    user = _read_user(_get_values(headers, settings.user_header), settings)
    groups = _get_values(headers, settings.groups_header)
    if settings.groups_separator:
        groups = [part.strip() for value in groups for part in value.split(settings.groups_separator) if part.strip()]
    for group in groups:
        if group.startswith(_SYSTEM) and group != _EVERYBODY:
            raise forbidden(f"{user} cannot come as a member of {group}: no proxy gives groups of the system")
    extra = ((key, tuple(_get_values(headers, header))) for key, header in sorted(settings.extra_headers.items()))
    return Identity(
        user,
        tuple(sorted({group for group in groups if group in settings.allowed_groups})),
        tuple((key, values) for key, values in extra if values),
    )


def _read_user(names: Sequence[str], settings: IdentityHeaders) -> str:
    if not names:
        raise unauthorized()
    if len(names) > 1 or "," in names[0]:  # some proxies join their own value and the value that a client sent
        raise bad_request(f"the header {settings.user_header} names several users: {', '.join(names)}")
    if names[0].startswith(_SYSTEM):
        raise forbidden(f"{names[0]} cannot come through a proxy: names that begin with {_SYSTEM} are the system's")
    if settings.allowed_users and names[0] not in settings.allowed_users:
        raise forbidden(f"{names[0]} is not among the users who may come through the proxy")
    return names[0]


def _get_values(headers: Sequence[tuple[str, str]], name: str) -> list[str]:
    """Return the non-empty values of a header. Raises `ApiError` (400) if a value is not valid text."""
    texts = [_decode(value, name).strip() for header, value in headers if name and header.lower() == name.lower()]
    return [text for text in texts if text]


def _decode(value: str, name: str) -> str:
    try:
        text = value.encode("latin-1").decode()
    except UnicodeError:
        raise bad_request(f"the header {name} is not UTF-8") from None
    if not text.isprintable():  # a line break would start another header
        raise bad_request(f"the header {name} has characters that no name has: {text!r}")
    return text
