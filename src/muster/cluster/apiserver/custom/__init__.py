"""Custom resources: the server serves the kinds that CustomResourceDefinitions define.

- `schemaform` decodes the schemas of a definition, and `definition` validates them.
- `names` decides which names a definition gets.
- `resources` makes a `Resource` for each version of a definition.
- `versions` and `conversion` convert stored objects to each version.
- `registration` updates the registry when a definition in the store changes.
"""
