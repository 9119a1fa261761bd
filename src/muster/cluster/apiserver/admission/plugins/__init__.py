"""Admission plugins that look at more than the object: limits, quotas, owners."""
