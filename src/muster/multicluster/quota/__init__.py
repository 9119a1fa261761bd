"""Keep a manager's quotas equal to the sum of its workers', and estimate where a workload waits least."""
