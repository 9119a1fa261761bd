"""Marks of the embedded cluster, by which clients recognise it."""

from typing import Final

# Part of the `gitVersion` that its server answers on /version.
SERVER_MARK: Final = "muster"

# The flavor of its nodes, which the queue that it begins with has quota of.
NODES_FLAVOR: Final = "muster-nodes"

# On its nodes: what runs their pods.
NODE_KIND_LABEL: Final = "muster.dev/node-kind"
PROCESS: Final = "process"
SIMULATED: Final = "simulated"

# On the nodes of the server's own machine: they share directories.
SERVER_MACHINE: Final = "muster.dev/server-machine"

# On a process node that has joined a cluster: which one it is, whatever its name.
NODE_IDENTITY: Final = "muster.dev/node-identity"

# On a node that ends its own pods when it has not reached the server for as long as they tolerate that
# (`muster.cluster.nodes.fence`): after that time the server may take it for certain that none of them runs.
FENCED_ANNOTATION: Final = "muster.dev/fenced"

# A pod has this condition if it ended because the whole cluster was stopped. That is no failure of its own, and no
# machine's either: its Job tries again, and does not count it.
CLUSTER_STOPPED: Final = "muster.dev/ClusterStopped"
