"""Kueue's metrics: how their names begin, and the labels that most of them have."""

_PREFIX = "kueue_"

# Who counts; there is one of us.
ROLE = ("standalone",)
ROLE_LABEL = ("replica_role",)
QUEUE_LABELS = ("cluster_queue",)
LOCAL_LABELS = ("name", "namespace")


def named(name: str) -> str:
    """The whole name of a metric."""
    return _PREFIX + name
