"""Define indexes of informers that several controllers share.

An informer builds an index only once for each name and function.
"""

from muster.api.core import Pod

BY_NODE = "node"


def by_node(pod: Pod) -> tuple[str, ...]:
    """Return a pod's key for the index BY_NODE: the node that the pod is bound to; () for an unbound pod."""
    return (pod.spec.node_name,) if pod.spec.node_name else ()
