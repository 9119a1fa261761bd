"""The functions of URLs, which are absolute URLs or absolute paths."""

import re
from urllib.parse import parse_qs, quote, unquote, urlsplit

from muster.cluster.apiserver.cel.library.overloads import Functions, Url
from muster.cluster.apiserver.cel.values import CelError

_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_ESCAPED_PATH = re.compile(r"[A-Za-z0-9_.~!$&'()*+,;=:@/\[\]%-]*")


def _parse_url(text: str) -> Url:
    try:
        parts = urlsplit(text)
        _ = parts.port  # raises ValueError for a port that is no number
    except ValueError as error:
        raise CelError(f"URL parse error during conversion from string: {error}") from None
    if not (parts.scheme or text.startswith("/")) or any(c <= " " for c in text):
        raise CelError(f'URL parse error during conversion from string: parse "{text}": invalid URI for request')
    if _BAD_ESCAPE.search(parts.path):
        raise CelError(f'URL parse error during conversion from string: parse "{text}": invalid URL escape')
    return Url(parts.scheme, parts.netloc.rpartition("@")[2], _escape_path(parts.path), parts.query)


def _escape_path(path: str) -> str:
    """Return the path as it is if it has only characters that Go leaves in paths; else in Go's own escapes."""
    return path if _ESCAPED_PATH.fullmatch(path) else quote(unquote(path), safe="/$&+,:;=@")


def is_url(text: str) -> bool:
    """Return whether the text is an absolute URL or an absolute path."""
    try:
        _parse_url(text)
    except CelError:
        return False
    return True


def _get_host_name(url: Url) -> str:
    return url.host[1:].partition("]")[0] if url.host.startswith("[") else url.host.partition(":")[0]


def _get_port(url: Url) -> str:
    return url.host.rpartition("]")[2].rpartition(":")[2] if ":" in url.host.rpartition("]")[2] else ""


FUNCTIONS = Functions(
    table=(
        ("url", "(string) -> kubernetes.URL", _parse_url),
        ("isURL", "(string) -> bool", is_url),
        ("getScheme", "kubernetes.URL.() -> string", lambda url: url.scheme),
        ("getHost", "kubernetes.URL.() -> string", lambda url: url.host),
        ("getHostname", "kubernetes.URL.() -> string", _get_host_name),
        ("getPort", "kubernetes.URL.() -> string", _get_port),
        ("getEscapedPath", "kubernetes.URL.() -> string", lambda url: url.path),
        ("getQuery", "kubernetes.URL.() -> map<string, list<string>>", lambda url: parse_qs(url.query, True)),
    ),
)
