"""The start of a JobSet's group (jobset KEP-498): no main container starts before all pods have started. Pure."""
