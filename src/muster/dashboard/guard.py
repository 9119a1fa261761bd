"""Decide which requests reach a page, and which headers every answer carries. Pure."""

import re
from collections.abc import Collection, Mapping
from ipaddress import ip_address

# The pages run no script and show nothing but what this server sends, and no other page may frame them.
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
    """Return whether the Host header of a request names this server, and no foreign name that points to it.

    The check prevents DNS rebinding. host: the header. names: the names and addresses of the server beside those of
    loopback, in lower case.
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
    """Return whether a page of this server sent a write, as the request's headers show.

    host, origin, site: the headers Host, Origin and Sec-Fetch-Site; "" where the browser sends none. A request with
    neither of the last two is not from here.
    """
    if site not in _FROM_HERE:
        return False
    if not origin:
        return bool(site)
    return origin.partition("://")[2].lower() == host.lower()
