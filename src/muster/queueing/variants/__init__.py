"""Variants of a workload, one for each flavor, of which one is admitted (Kueue KEP-8691, ConcurrentAdmission). Pure."""
