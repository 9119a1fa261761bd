"""Decide in which worker cluster a workload runs, and what to create and delete where (Kueue KEP-693). Pure."""
