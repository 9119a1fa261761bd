"""Choose workloads to preempt so that a workload can get its quota."""
