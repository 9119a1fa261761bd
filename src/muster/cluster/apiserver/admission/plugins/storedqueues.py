"""Read queues in their newest state from the store, for the plugins about the users of queues.

Each new job needs the queues, which rarely change. So each stored body of a queue is decoded once, and the teams are
computed once for each state of all ClusterQueues.
"""

from functools import lru_cache

from msgspec import Struct

from muster.api.kueue import CLUSTER_QUEUE, LOCAL_QUEUE, ClusterQueue
from muster.api.managed.teams import Team, find_teams
from muster.cluster.store import Key, Store

_REMEMBERED = 512  # bodies of queues, of a few KB each; a cluster with more queues decodes all of them after a change


class StoredQueues(Struct, frozen=True):
    """All ClusterQueues, and the teams among them, oldest first. All readers share these objects."""

    queues: tuple[ClusterQueue, ...]
    teams: tuple[Team, ...]


def read_queues(store: Store) -> StoredQueues:
    """Return all ClusterQueues, and their teams."""
    return _decode_queues(tuple([entry.body for entry in store.latest_list(CLUSTER_QUEUE.resource).entries]))


def find_cluster_queue(store: Store, namespace: str, local_queue: str) -> ClusterQueue | None:
    """Return the ClusterQueue that a LocalQueue leads to; None if the name is "" or one of the two is missing."""
    entry = store.latest(Key(LOCAL_QUEUE.resource, namespace, local_queue)) if local_queue else None
    if entry is None:
        return None
    found = store.latest(Key(CLUSTER_QUEUE.resource, "", _decode_target(entry.body)))
    return _decode_cluster_queue(found.body) if found is not None else None


@lru_cache(maxsize=1)
def _decode_queues(bodies: tuple[bytes, ...]) -> StoredQueues:
    queues = tuple(map(_decode_cluster_queue, bodies))
    return StoredQueues(queues, tuple(find_teams(queues)))


@lru_cache(_REMEMBERED)
def _decode_cluster_queue(body: bytes) -> ClusterQueue:
    return CLUSTER_QUEUE.decode(body)


@lru_cache(_REMEMBERED)
def _decode_target(body: bytes) -> str:
    """Return the name of the ClusterQueue in the body of a LocalQueue."""
    return LOCAL_QUEUE.decode(body).spec.cluster_queue
