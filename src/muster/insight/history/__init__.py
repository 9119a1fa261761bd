"""The recorded history of jobs that have ended. Pure."""
