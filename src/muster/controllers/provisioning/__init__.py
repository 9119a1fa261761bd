"""Admits workloads by ProvisioningRequest (Kueue KEP-1136): an autoscaler makes room before a workload is admitted."""
