"""Read objects that a cluster may lack, or that the user may not see.

A user may be allowed to see only some of the objects. The results then omit the other objects and never guess them.
"""

from collections.abc import Callable
from typing import TypeVar

from muster.api.kinds import Kind
from muster.api.status import ApiError
from muster.insight.reader.listing.views import make_sharer
from muster.runtime.client import Client
from muster.runtime.refusals import Reason, ignoring

T = TypeVar("T")

# The reasons of errors about objects that are forbidden, not served, or served by a server that does not answer.
UNSEEN: tuple[Reason, ...] = ("Forbidden", "NotFound", "ServiceUnavailable")


async def list_all(
    client: Client, kind: Kind[T], namespace: str = "", *, labels: str = "", fields: str = ""
) -> list[T]:
    """Return the objects of a kind. Equal parts of small views of them are kept once. Raises `ApiError`."""
    return (await client.list(kind, namespace, labels=labels, fields=fields, transform=make_sharer(kind))).items


async def list_or_none(
    client: Client, kind: Kind[T], namespace: str = "", *, labels: str = "", fields: str = ""
) -> list[T] | None:
    """Return the objects of a kind; None if the cluster has no such kind or the user may not list it."""
    with ignoring(*UNSEEN):
        return await list_all(client, kind, namespace, labels=labels, fields=fields)
    return None


async def get_or_none(client: Client, kind: Kind[T], name: str, namespace: str = "") -> T | None:
    """Return an object; None if it does not exist or the user may not see it."""
    with ignoring(*UNSEEN):
        return await client.get(kind, name, namespace)
    return None


async def list_or_say(
    client: Client, kind: Kind[T], namespace: str, say: Callable[[str], None], noun: str
) -> list[T] | None:
    """Return the objects of a kind; None if the cluster has no such kind or the user may not list it.

    say: receives a sentence that the objects are not shown, if the user may not list them.
    noun: the plural noun for the objects in that sentence.
    """
    try:
        return await list_all(client, kind, namespace)
    except ApiError as error:
        if error.code == 403:
            say(f"{noun} are not shown: {error}")
        elif error.reason not in UNSEEN:
            raise
        return None
