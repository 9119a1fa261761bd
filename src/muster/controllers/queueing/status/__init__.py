"""The controllers that write the status of ClusterQueues, Cohorts and LocalQueues, and list waiting workloads."""
