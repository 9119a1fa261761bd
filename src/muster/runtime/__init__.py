"""The surroundings of a controller: clock, client, informers, work queues, controllers, events, metrics.

Knows no domain object: everything here works for any `Kind`.
"""
