"""Reconcile: queues of keys, controllers, and what starts, paces and elects them."""
