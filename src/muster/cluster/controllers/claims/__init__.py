"""Controllers of the claims of pods: volumes and devices."""
