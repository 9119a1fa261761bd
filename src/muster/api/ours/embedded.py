"""The marks by which clients recognise the embedded cluster."""

from typing import Final

# The part of the `gitVersion` on /version by which clients recognise the embedded cluster's server.
SERVER_MARK: Final = "muster"

# The flavor of the embedded cluster's nodes. The first queue has quota of it.
NODES_FLAVOR: Final = "muster-nodes"

# The label of the embedded cluster's nodes that says what runs their pods.
NODE_KIND_LABEL: Final = "muster.dev/node-kind"
PROCESS: Final = "process"
SIMULATED: Final = "simulated"

# The label of the nodes on the server's own machine, which share directories.
SERVER_MACHINE: Final = "muster.dev/server-machine"

# The label of a process node that joined a cluster, which identifies the node independently of its name.
NODE_IDENTITY: Final = "muster.dev/node-identity"

# The annotation of a Node that offers less than it was started with, which says what is missing.
SHORTAGE_ANNOTATION: Final = "muster.dev/offers-less"

# The mark of a node that ends its own pods when it has not reached the server for as long as the pods tolerate that
# (`muster.cluster.nodes.fence`). After this time the server can rely on it that none of them runs.
FENCED_ANNOTATION: Final = "muster.dev/fenced"

# The condition of a pod that ended because the whole cluster was stopped. This is a failure neither of the pod nor of a
# machine, so the Job tries again and does not count it.
CLUSTER_STOPPED: Final = "muster.dev/ClusterStopped"
