"""The start of a JobSet's group (KEP-498): no main container begins before all pods of the group have started. Pure."""
