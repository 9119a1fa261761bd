"""Indexes of informers that several parts ask for: under one name and function, an informer keeps one of each."""

from muster.api.core import Pod

BY_NODE = "node"


def by_node(pod: Pod) -> tuple[str, ...]:
    """For the index BY_NODE: the node that the pod is bound to."""
    return (pod.spec.node_name,) if pod.spec.node_name else ()
