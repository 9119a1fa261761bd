"""Keep a manager's quotas equal to the sum of its workers' quotas."""
