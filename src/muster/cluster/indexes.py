"""Define indexes of informers that several controllers share.

An informer keeps one index of each name and function.
"""

from muster.api.core import Pod

BY_NODE = "node"


def by_node(pod: Pod) -> tuple[str, ...]:
    """Return the key for the index BY_NODE: the node that the pod is bound to."""
    return (pod.spec.node_name,) if pod.spec.node_name else ()
