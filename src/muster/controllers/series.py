"""Name Kueue's metrics: their prefix, and the labels that most of them have."""

_PREFIX = "kueue_"

# The label for the replica's role.
ROLE = ("standalone",)
ROLE_LABEL = ("replica_role",)
QUEUE_LABELS = ("cluster_queue",)
LOCAL_LABELS = ("name", "namespace")


def name_metric(name: str) -> str:
    """Return the full name of a metric."""
    return _PREFIX + name
