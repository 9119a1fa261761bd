"""Kinds that users bring: from CustomResourceDefinitions to what is served.

`resources` makes a `Resource` of every version of a definition, `versions` and `conversion` bring stored objects into
each of them, `names` decides who may have which names, `registration` keeps the registry in step with the store. The
definitions themselves are read by `schemaform` and judged by `definition`.
"""
