"""Level 3, placement: observe the cluster and write the decisions of `muster.gang`."""
