"""Update stored field sets to a changed schema: a value that became atomic is owned as a whole."""

from muster.cluster.apiserver.fields.schema import FieldSchema
from muster.cluster.apiserver.fields.sets import SELF, FieldSet


def settle_fields(fields: FieldSet, schema: FieldSchema) -> FieldSet:
    """Return the field set adapted to the current schema; the field set itself if it fits already.

    A value that is atomic now is owned as a whole. A value that was atomic and is granular now keeps only its own path
    in the set, as in upstream.
    """
    result = fields
    for key, node in fields.items():
        if not node or key == SELF:
            continue
        settled = _settle_node(node, _find_schema(key, schema))
        if settled is not node:
            if result is fields:
                result = fields.copy()
            result[key] = settled
    return result


def _settle_node(node: FieldSet, schema: FieldSchema | None) -> FieldSet:
    if schema is None:
        return node
    return {} if schema.shape == "atomic" else settle_fields(node, schema)


def _find_schema(key: str, schema: FieldSchema) -> FieldSchema | None:
    return schema.member(key[2:]) if key.startswith("f:") else schema.element
