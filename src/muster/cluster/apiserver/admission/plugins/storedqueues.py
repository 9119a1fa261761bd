"""Reads queues from the store for the plugins about the users of queues, as of the newest write."""

from muster.api.kueue import CLUSTER_QUEUE, LOCAL_QUEUE, ClusterQueue
from muster.cluster.store import Key, Store


def list_cluster_queues(store: Store) -> list[ClusterQueue]:
    """Return all ClusterQueues."""
    return [CLUSTER_QUEUE.decode(entry.body) for entry in store.latest_list(CLUSTER_QUEUE.resource).entries]


def find_cluster_queue(store: Store, namespace: str, local_queue: str) -> ClusterQueue | None:
    """Return the ClusterQueue that a LocalQueue leads to; None if the name is "" or one of the two is missing."""
    entry = store.latest(Key(LOCAL_QUEUE.resource, namespace, local_queue)) if local_queue else None
    if entry is None:
        return None
    found = store.latest(Key(CLUSTER_QUEUE.resource, "", LOCAL_QUEUE.decode(entry.body).spec.cluster_queue))
    return CLUSTER_QUEUE.decode(found.body) if found is not None else None
