"""Controllers of what pods claim: volumes, and devices."""
