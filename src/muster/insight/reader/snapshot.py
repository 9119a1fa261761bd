"""Read snapshots: all objects that scheduling reads, at one revision, as far as the user may see them."""

from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from muster.api.kinds import Kind
from muster.api.kueue import WORKLOAD
from muster.api.status import ApiError
from muster.insight.reader.history.decisions import read_decisions
from muster.insight.reader.listing.access import UNSEEN
from muster.insight.snapshot import KINDS, Document, Snapshot, reduce_object
from muster.runtime.client import Client
from muster.runtime.transport import Request

_PAGE = "500"
_GONE = 410
_NOT_FOUND = 404
_BAD_REQUEST = 400


class _ListMeta(msgspec.Struct, rename={"resource_version": "resourceVersion", "continue_": "continue"}):
    resource_version: str = ""
    continue_: str = ""


class _List(msgspec.Struct):
    items: list[dict[str, Any]] = []
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)


class _RefusedError(Exception):
    """A refusal of the server to return a list as of the requested revision."""


async def take_snapshot(client: Client, now: datetime, namespace: str) -> Snapshot:
    """Read the objects of all kinds as of one revision, the revision of the first list.

    If the server cannot return that revision, the lists are read one by one, and `exact` is false.

    namespace: where to read kinds that the user may not list in the whole cluster.

    Raises:
        ApiError: the server refuses a list for another reason than the user's rights.
        TransportError: the server does not respond.
    """
    try:
        return await _read(client, now, namespace, exact=True)
    except _RefusedError:
        return await _read(client, now, namespace, exact=False)


async def add_decisions(client: Client, snapshot: Snapshot, namespace: str) -> Snapshot:
    """Return the snapshot with the recorded decisions added, if the cluster records any.

    namespace: the namespace whose decisions to read if the user may not read all.

    Raises:
        ApiError: the user may not read the decisions of that namespace either.
        TransportError: the server does not respond.
    """
    try:
        return replace(snapshot, decisions=tuple([one async for one in read_decisions(client, "")]))
    except ApiError as error:
        if error.code == _NOT_FOUND:
            return snapshot
        if error.reason != "Forbidden":
            raise
        why = f"only those of the namespace {namespace} are known: {error}"
    decisions = tuple([one async for one in read_decisions(client, namespace)])
    return replace(snapshot, decisions=decisions, missing={**snapshot.missing, "decisions": why})


async def _read(client: Client, now: datetime, namespace: str, *, exact: bool) -> Snapshot:
    """Read each kind in the whole cluster, or in the namespace if the user may read no more.

    exact: whether all kinds are read at the revision of the first list.
    """
    # Workloads are read first, because the snapshot has the revision of the first list.
    order = sorted(KINDS, key=lambda kind: kind != WORKLOAD)
    objects: dict[str, list[Document]] = {}
    missing: dict[str, str] = {}
    revision = ""
    for kind in order:
        try:
            documents, version = await _list(client, kind, "", revision if exact else "")
        except ApiError as error:
            if error.reason not in UNSEEN:
                raise
            missing[kind.resource] = str(error)
            if not kind.namespaced or error.reason != "Forbidden":
                continue
            try:
                documents, version = await _list(client, kind, namespace, revision if exact else "")
            except ApiError as refusal:
                if refusal.reason not in UNSEEN:
                    raise
                continue
            missing[kind.resource] = f"only those of the namespace {namespace} are known: {error}"
        revision = revision or version
        objects[kind.resource] = [one for each in documents if (one := reduce_object(kind, each)) is not None]
    items = [one for kind in KINDS for one in objects.get(kind.resource, ())]
    return Snapshot(now, revision, exact, missing, tuple(items))


async def _list(client: Client, kind: Kind[Any], namespace: str, revision: str) -> tuple[list[dict[str, Any]], str]:
    """Return all objects of a kind, page by page, and the revision of the list.

    revision: the revision to read; "" for the newest.

    Raises `_RefusedError` if the server no longer has that revision, and `ApiError`.
    """
    documents: list[dict[str, Any]] = []
    query = {"limit": _PAGE}
    if revision:
        query |= {"resourceVersion": revision, "resourceVersionMatch": "Exact"}
    while True:
        try:
            answer = await client.raw(Request("GET", kind.path(namespace), query))
        except ApiError as error:
            if error.code in (_GONE, _BAD_REQUEST) and (revision or "continue" in query):
                raise _RefusedError from error
            raise
        page = msgspec.json.decode(answer.body, type=_List)
        documents += page.items
        if not page.metadata.continue_:
            return documents, page.metadata.resource_version
        query = {"limit": _PAGE, "continue": page.metadata.continue_}
