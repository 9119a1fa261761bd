"""The files that every page uses: a style sheet, a script, and files of third parties.

The address of a file contains a hash of its content, so that a browser may cache it forever and never uses an old
version.
"""

from functools import cache
from hashlib import sha256
from importlib.resources import files

from muster.runtime.transport import Response

PREFIX = "/static/"
_TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


def url_of_static(name: str) -> str:
    """Return the address of a static file, which contains a hash of its content."""
    return f"/ui{PREFIX}{_read(name)[0]}/{name}"


def answer_static(path: str) -> Response | None:
    """Return the response with the static file of a path; None if there is no such file.

    path: the path, which starts with `PREFIX`.
    """
    digest, _, name = path.removeprefix(PREFIX).partition("/")
    if name not in list_names():
        return None
    known, content = _read(name)
    kind = _TYPES[name.rpartition(".")[2]]
    lasting = "public, max-age=31536000, immutable" if digest == known else "no-cache"
    return Response(200, content, kind, {"cache-control": lasting, "etag": f'"{known}"'})


@cache
def list_names() -> frozenset[str]:
    """Return the names of all static files of the dashboard."""
    return frozenset(
        one.name for one in (files("muster.dashboard") / "static").iterdir() if one.name.rpartition(".")[2] in _TYPES
    )


@cache
def _read(name: str) -> tuple[str, bytes]:
    content = (files("muster.dashboard") / "static" / name).read_bytes()
    return sha256(content).hexdigest()[:16], content
