"""Rules of the dashboard's settings: headers that name a viewer are refused unless the proxy must prove itself."""

import re

from muster.api.config.types import Dashboard, IdentityHeaders
from muster.api.validation import names
from muster.api.validation.fields import Errors, duplicate, forbidden, invalid, required

_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_EXTRA_KEY = re.compile(r"[a-z0-9]([a-z0-9._/-]*[a-z0-9])?")
_SYSTEM = "system:"
_NO_PROOF = (
    "anybody could send the headers: name the header of the proxy's secret here, or the names of its client"
    " certificate in allowedNames"
)


def validate_dashboard(path: str, dashboard: Dashboard) -> Errors:
    """Yield the errors in the settings of the dashboard. path: their path in the file."""
    yield from _validate_header(f"{path}.tokenHeader", dashboard.token_header)
    leaving = dashboard.sign_out_path
    if leaving and not _is_own_path(leaving):
        yield invalid(f"{path}.signOutPath", leaving, "must be a path on the dashboard's own host, such as /sign_out")
    identity = dashboard.identity_headers
    if identity is None:
        return
    if dashboard.token_header:
        yield forbidden(f"{path}.tokenHeader", "may not be given together with identityHeaders")
    yield from _validate_identity_headers(f"{path}.identityHeaders", identity)


def _validate_identity_headers(path: str, identity: IdentityHeaders) -> Errors:
    if not identity.user_header:
        yield required(f"{path}.userHeader", "must be specified")
    yield from _validate_headers(path, identity)
    for key in identity.extra_headers:
        if not _EXTRA_KEY.fullmatch(key):
            yield invalid(f"{path}.extraHeaders", key, "must be a key in lower case, such as example.com/team")
    yield from _validate_groups(path, identity)
    for field, listed in (("allowedUsers", identity.allowed_users), ("allowedGroups", identity.allowed_groups)):
        for i, name in enumerate(listed):
            if not name or name.startswith(_SYSTEM):
                yield invalid(f"{path}.{field}[{i}]", name, f"must be a name that does not begin with {_SYSTEM}")
    if not identity.allowed_names and not identity.secret_header:
        yield required(f"{path}.secretHeader", _NO_PROOF)
    for i, name in enumerate(identity.allowed_names):
        if not name:
            yield invalid(f"{path}.allowedNames[{i}]", name, "must be the common name of a certificate")
    if sentences := names.dns_subdomain(identity.secret_name):
        yield invalid(f"{path}.secretName", identity.secret_name, ",".join(sentences))


def _validate_headers(path: str, identity: IdentityHeaders) -> Errors:
    headers = {
        f"{path}.userHeader": identity.user_header,
        f"{path}.groupsHeader": identity.groups_header,
        **{f"{path}.extraHeaders[{key}]": header for key, header in identity.extra_headers.items()},
        f"{path}.secretHeader": identity.secret_header,
    }
    seen = set[str]()
    for place, header in headers.items():
        yield from _validate_header(place, header)
        if header and header.lower() in seen:
            yield duplicate(place, header)
        seen.add(header.lower())


def _validate_groups(path: str, identity: IdentityHeaders) -> Errors:
    if len(identity.groups_separator) > 1:
        yield invalid(f"{path}.groupsSeparator", identity.groups_separator, "must be one character, or empty")
    if identity.groups_header and not identity.allowed_groups:
        yield required(f"{path}.allowedGroups", "name the groups that give rights: the dashboard acts in these alone")
    if identity.allowed_groups and not identity.groups_header:
        yield required(f"{path}.groupsHeader", "must be specified where groups are allowed")


def _validate_header(path: str, header: str) -> Errors:
    if header and not _HEADER.fullmatch(header):
        yield invalid(path, header, "must be the name of a header")


def _is_own_path(path: str) -> bool:
    return path.startswith("/") and not path.startswith("//") and "\\" not in path and path.isprintable()
