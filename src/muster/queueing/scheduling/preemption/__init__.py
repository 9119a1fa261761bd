"""Choose workloads to preempt so that a workload can have its quota."""
