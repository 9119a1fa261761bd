"""The base of all controllers: clock, client, informers, work queues, controllers, events, metrics.

The package knows no particular kind: everything here works for any `Kind`.
"""
