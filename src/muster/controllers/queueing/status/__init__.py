"""How queues stand, written down and told: ClusterQueues, Cohorts, LocalQueues, and who waits."""
