"""The admission plugins that need more than the object itself: limits, quotas, owners."""
