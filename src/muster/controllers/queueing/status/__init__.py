"""Controllers that write the status of ClusterQueues, Cohorts and LocalQueues, and the list of waiting workloads."""
