"""Admit workloads by ProvisioningRequest (Kueue KEP-1136): an autoscaler adds nodes before a workload is admitted."""
