"""Read names from a cluster for a shell whose user waits for a completion.

The names from a server of this machine are read through its local socket. For any other server, the client that
commands use takes longer to import than a user waits after TAB. So this module sends one GET with Python's standard
library. It authenticates with the credentials in the kubeconfig. A kubeconfig that needs a login program, a proxy or
impersonation yields no names.
"""

from urllib.parse import urlencode, urlsplit

import msgspec

from muster.runtime.kube.kubeconfig import ConnectionConfig
from muster.runtime.transport import Request, TransportError

# The user does not wait longer for a completion.
PATIENCE_SECONDS = 1.0
# The maximum number of names to read.
MAX_NAMES = 500
MAX_BYTES = 16 << 20

_METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


class _Metadata(msgspec.Struct):
    name: str


class _Item(msgspec.Struct):
    metadata: _Metadata


class _List(msgspec.Struct):
    items: list[_Item]


async def read_names(config: ConnectionConfig, path: str, labels: str = "") -> list[str]:
    """Return the names of the objects in a collection.

    Return [] if the server refuses, or the kubeconfig needs a program, a proxy or impersonation. Raises `OSError`,
    `ValueError` or `TransportError` on failure.

    path: the API path of the collection.
    labels: a label selector.
    """
    if config.user.exec is not None or config.user.impersonation is not None or config.cluster.proxy_url:
        return []
    query = {"limit": str(MAX_NAMES)} | ({"labelSelector": labels} if labels else {})
    read = _read_locally if config.cluster.local_socket else _read_by_tls
    text = await read(config, path, query)
    return [item.metadata.name for item in msgspec.json.decode(text, type=_List).items] if text else []


async def _read_locally(config: ConnectionConfig, path: str, query: dict[str, str]) -> bytes:
    """Read from a server of this machine, over its local socket; return b"" if the server refuses.

    Raises `TransportError`.
    """
    from muster.actions.server.session import make_random
    from muster.runtime.kube.local import LocalTransport
    from muster.runtime.realclock import RealClock

    transport = LocalTransport(config, RealClock(), make_random, max_response_bytes=MAX_BYTES)
    request = Request("GET", path, query, accept=_METADATA_ONLY, timeout_seconds=PATIENCE_SECONDS)
    try:
        answer = await transport.request(request)
    finally:
        await transport.close()
    return answer.body if answer.status == 200 else b""


async def _read_by_tls(config: ConnectionConfig, path: str, query: dict[str, str]) -> bytes:
    """Read from a server over TLS; return b"" if the server refuses.

    Raises `OSError`, `ValueError` or `TransportError` on failure.
    """
    import http.client

    from muster.runtime.kube.credentials import ConfiguredSource
    from muster.runtime.kube.tls import client_context

    credential = await ConfiguredSource(config.user).login()
    server = urlsplit(config.cluster.server)
    headers = {"Accept": _METADATA_ONLY, "User-Agent": "muster"}
    if credential.authorization:
        headers["Authorization"] = credential.authorization
    connection = http.client.HTTPSConnection(
        server.hostname or "",
        server.port or 443,
        timeout=PATIENCE_SECONDS,
        context=client_context(config.cluster, credential.certificate),
    )
    try:
        connection.request("GET", f"{server.path}{path}?{urlencode(query)}", headers=headers)
        answer = connection.getresponse()
        return answer.read(MAX_BYTES) if answer.status == 200 else b""
    except http.client.HTTPException as error:
        raise TransportError(str(error)) from error
    finally:
        connection.close()
