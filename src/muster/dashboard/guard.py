"""Decide which requests may reach a page, and which headers each response has. Pure."""

import re
from collections.abc import Collection, Mapping
from ipaddress import ip_address

# The pages run only scripts of this server, load nothing from elsewhere, and must not be framed by another page.
HEADERS: Mapping[str, str] = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
}

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(?::[0-9]{1,5})?")
_FROM_HERE = ("", "same-origin", "none")


def is_known_host(host: str, names: Collection[str]) -> bool:
    """Return whether the Host header names this server, rather than a foreign name that resolves to it.

    The check prevents DNS rebinding.

    host: the value of the header.
    names: the names and addresses of the server in lower case, in addition to loopback names.
    """
    found = _HOST.fullmatch(host.lower())
    if found is None:
        return False
    name = found[1].strip("[]")
    return name == "localhost" or name in names or _is_loopback(name)


def _is_loopback(name: str) -> bool:
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def is_from_here(host: str, origin: str, site: str) -> bool:
    """Return whether a write was sent by a page of this server, according to the request's headers.

    host, origin, site: the headers Host, Origin and Sec-Fetch-Site; "" if the browser did not send them. The result is
    False if the request has neither of the last two.
    """
    if site not in _FROM_HERE:
        return False
    if not origin:
        return bool(site)
    return origin.partition("://")[2].lower() == host.lower()
