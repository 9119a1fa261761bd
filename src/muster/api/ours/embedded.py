"""How the embedded cluster marks itself, so that clients know it from others."""

from typing import Final

# Part of the `gitVersion` that its server answers on /version.
SERVER_MARK: Final = "muster"

# On its nodes: what runs their pods.
NODE_KIND_LABEL: Final = "muster.dev/node-kind"
PROCESS: Final = "process"
SIMULATED: Final = "simulated"

# On a process node that has joined a cluster: which one it is, whatever its name.
NODE_IDENTITY: Final = "muster.dev/node-identity"

# A pod has this condition if it ended because the whole cluster was stopped. That is no failure of its own, and no
# machine's either: its Job tries again, and does not count it.
CLUSTER_STOPPED: Final = "muster.dev/ClusterStopped"
