"""Admission and conversion for a real API server, which asks over HTTPS. What is decided is decided elsewhere: `api`
and `controllers.integrations` do it for the embedded server too.
"""
