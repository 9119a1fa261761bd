"""Checks the rules of objects, with the API server's paths, words and order.

There is a module for each kind, with `validate_create(obj)`, `validate_update(new, old)` and, where a kind has a
status that others write, `validate_status_update(new, old)`. All take typed objects that have their defaults
(`muster.api.defaults`) and return every rule that is broken.
"""
