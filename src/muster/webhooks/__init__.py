"""Answers a real API server's admission and conversion reviews over HTTPS.

The decisions themselves are those of `api` and `controllers.integrations`, which the embedded server uses too.
"""
