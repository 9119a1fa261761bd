"""The admission plugins that need more than the object itself, such as limits, quotas and owners."""
