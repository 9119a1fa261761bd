"""Check the head of a request beyond what llhttp checks, and split its target into path and query."""

import httptools

from muster.cluster.apiserver.front.http1.exchange import Field


def check_framing(headers: list[Field], version: str) -> None:
    """Raise `HttpParserError` if the headers do not determine where the request ends, or its host."""
    names = [name for name, _ in headers]
    if names.count(b"host") != 1 and (version == "1.1" or b"host" in names):
        raise httptools.HttpParserError("no host, or more than one")
    if b"transfer-encoding" in names:
        encodings = [value.lower() for name, value in headers if name == b"transfer-encoding"]
        if encodings != [b"chunked"]:
            raise httptools.HttpParserError("a transfer encoding that is not known")


def split_target(target: bytes) -> tuple[bytes, bytes]:
    """Return the path and the query of a request's target. Raises `HttpParserError` for a target without a path."""
    if target.startswith(b"/"):
        path, _, query = target.partition(b"#")[0].partition(b"?")
        return path, query
    url = httptools.parse_url(target)
    if url.path is None:
        raise httptools.HttpParserError("no path")
    return url.path, url.query or b""
