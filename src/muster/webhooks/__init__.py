"""Answer a real API server's admission and conversion reviews over HTTPS.

The decisions are functions of `api` and `controllers.integrations`, which the embedded server calls, too.
"""
