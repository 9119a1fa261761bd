"""How the embedded cluster marks itself, so that clients know it from others."""

from typing import Final

# Part of the `gitVersion` that its server answers on /version.
SERVER_MARK: Final = "muster"

# On its nodes: what runs their pods.
NODE_KIND_LABEL: Final = "muster.dev/node-kind"
PROCESS: Final = "process"
SIMULATED: Final = "simulated"
