"""Asks a cluster for names, for a shell that a person waits at.

The client of the commands takes longer to import than a person waits for a TAB, so this is one GET with what Python
brings. It logs in with what the kubeconfig itself says or names. Where more than that is asked for (a program that logs
in, a proxy, to act as another user), there are no names.
"""

import http.client
from urllib.parse import urlencode, urlsplit

import msgspec

from muster.runtime.kube.credentials import ConfiguredSource
from muster.runtime.kube.kubeconfig import ConnectionConfig
from muster.runtime.kube.tls import client_context

# A server that takes longer is of no help.
PATIENCE_SECONDS = 1.0
# More than a person looks through, and a bound on what is read.
MAX_NAMES = 500
MAX_BYTES = 16 << 20

_METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


class _Metadata(msgspec.Struct):
    name: str


class _Item(msgspec.Struct):
    metadata: _Metadata


class _List(msgspec.Struct):
    items: list[_Item]


async def names(config: ConnectionConfig, path: str, labels: str = "") -> list[str]:
    """The names in the collection at this path, of the objects with such labels.

    Raises `OSError`, `HTTPException`, `ValueError` or `TransportError` if they cannot be had.
    """
    if config.user.exec is not None or config.user.impersonation is not None or config.cluster.proxy_url:
        return []
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
    query: dict[str, object] = {"limit": MAX_NAMES} | ({"labelSelector": labels} if labels else {})
    try:
        connection.request("GET", f"{server.path}{path}?{urlencode(query)}", headers=headers)
        answer = connection.getresponse()
        text = answer.read(MAX_BYTES) if answer.status == 200 else b'{"items": []}'
    finally:
        connection.close()
    return [item.metadata.name for item in msgspec.json.decode(text, type=_List).items]
