"""Controllers of nodes and the pods on them: health, taints, evictions, and pods of lost nodes."""
