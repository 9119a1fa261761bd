"""The rules of objects, with the API server's paths, messages and order.

The module of a kind has `validate_create(obj)`, `validate_update(new, old)` and, for a kind with a status subresource,
`validate_status_update(new, old)`. These functions take typed objects with their defaults (`muster.api.defaults`),
and return an error for every broken rule.
"""
