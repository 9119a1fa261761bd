"""Level 3, placement: observes the cluster and writes what `muster.gang` decides."""
